"""Gradients stay right under every grouping and schedule that a search may choose, and after one.

One program holds the losses of an attention block, a layer norm, an LSTM, a cross entropy and an embedding, in f32.  The
judge is the same losses in float64, by finite differences.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import snell as sn
from snell import nn
from snell.codegen.host import host_target
from snell.compiler.compile import Options, compile_graph, lower_with, with_kernels
from snell.compiler.rewriting import ProgramRewriter
from snell.config import Config
from snell.engine.engine import Engine
from snell.frontend import Traced, trace
from snell.loops.build import planned_kernel
from snell.loops.plan import Plan, StageChoice
from snell.rewrite.decisions import HEURISTIC_GROUPING, Decider, Grouping
from snell.rewrite.policy import Policy
from snell.runtime.binding import bind
from snell.runtime.pool import process_pool

THREADS = 2
RNG = np.random.default_rng(5)
X, CLASSES, WORDS = RNG.normal(size=(2, 6, 8)), RNG.integers(0, 5, (2, 6)), RNG.integers(0, 7, (2, 6))
# Some thousand roundings to f32, each half a unit of 2⁻²⁴, of terms of the size of the sum of the squares.
TOLERANCE = 2000 * 2.0**-24

Loss = Callable[[Any, Any], Any]


def layers(dtype: str) -> dict[str, nn.Layer]:
    return {
        "attention": nn.MultiHeadAttention(8, 2, causal=True, dtype=dtype),
        "norm": nn.LayerNorm(8, dtype=dtype),
        "lstm": nn.Recurrence(nn.LSTMCell(8, 4, dtype=dtype)),
        "classes": nn.Linear(8, 5, dtype=dtype),
        "words": nn.Embedding(7, 3, dtype=dtype),
    }


def losses_of(dtype: str) -> Callable[[Any, Any], tuple[Any, dict[str, Any]]]:
    made = layers(dtype)

    def losses(params: Any, x: Any) -> tuple[Any, dict[str, Any]]:
        found: dict[str, Any] = {}
        for name, layer in made.items():
            state = layer.init(sn.random.key(0))[1]
            y, _ = layer(WORDS if name == "words" else x, params[name], state, train=True)
            if name == "classes":
                found[name] = sn.losses.cross_entropy(y, CLASSES)
            else:
                found[name] = sn.sin(y * 1.3 + sn.arange(y.shape[-1], dtype=dtype)).mean()
        return sum(found.values()), found

    return losses


def initial() -> Any:
    return {name: sn.tree.map(np.asarray, layer.init(sn.random.key(3))[0]) for name, layer in layers("f32").items()}


PARAMS = initial()
DIRECTION = sn.tree.map(lambda leaf: RNG.normal(size=leaf.shape), PARAMS)


@pytest.fixture(scope="module")
def slopes() -> dict[str, float]:
    """The derivative of each loss along the direction, by differences in float64."""
    program, step = sn.compile(losses_of("f64")), 1e-5

    def at(distance: float) -> dict[str, float]:
        moved = sn.tree.map(lambda leaf, d: leaf.astype(np.float64) + distance * d, PARAMS, DIRECTION)
        return {name: float(value) for name, value in program(moved, X)[1].items()}

    ahead, behind = at(step), at(-step)
    return {name: (ahead[name] - behind[name]) / (2 * step) for name in ahead}


@pytest.fixture(scope="module")
def traced() -> Traced:
    gradient = sn.grad(losses_of("f32"), has_aux=True)
    return trace(gradient, [PARAMS, X.astype(np.float32)])


def assert_right(traced: Traced, executable: Any, names: tuple[str, ...], slopes: dict[str, float]) -> None:
    leaves = [*sn.tree.leaves(PARAMS), X.astype(np.float32)]
    given = dict(zip(traced.inputs, leaves, strict=True))
    gradients, _ = sn.tree.unflatten(traced.output_tree, executable(*[given[name] for name in names]))
    for name, slope in slopes.items():
        parts = sn.tree.map(lambda g, d: np.asarray(g, np.float64) * d, gradients[name], DIRECTION[name])
        size = sum(float(np.abs(part).sum()) for part in sn.tree.leaves(parts))
        found = sum(float(part.sum()) for part in sn.tree.leaves(parts))
        assert abs(found - slope) <= TOLERANCE * size + 1e-9, name


def options(grouping: Grouping = HEURISTIC_GROUPING) -> Options:
    return Options(host_target(), THREADS, grouping=grouping)


def bound(compiled: Any, traced: Traced) -> Any:
    return bind(compiled, {n: traced.arrays[n] for n in compiled.frozen}, process_pool(THREADS))


def test_gradients_are_right_with_decisions_taken_otherwise(traced: Traced, slopes: dict[str, float]) -> None:
    listening = Decider(listens=True)
    lower_with(traced.graph, options(), ProgramRewriter(Policy.DEFAULT), listening)
    assert listening.asked
    by_question = [
        [decision.opposite for decision in listening.asked if decision.question is question]
        for question in dict.fromkeys(decision.question for decision in listening.asked)
    ]
    for decisions in by_question:
        grouping = HEURISTIC_GROUPING
        for decision in decisions:
            grouping = grouping.changed(decision)
        compiled = compile_graph(traced.graph, options(grouping)).assembled
        assert_right(traced, bound(compiled, traced), compiled.inputs, slopes)


def test_gradients_are_right_with_other_plans_of_every_kernel(traced: Traced, slopes: dict[str, float]) -> None:
    compilation = compile_graph(traced.graph, options())
    others = [Plan((StageChoice(rows=1, columns=16),)), Plan((StageChoice(rows=3, columns=32),))]
    for plan in others:
        swapped = {
            built.kernel: (
                built,
                planned_kernel(group, host_target(), THREADS, plan if len(group.stages) == 1 else Plan(rows=3)),
            )
            for group, built in compilation.lowered.built.items()
        }
        compiled = with_kernels(compilation, swapped)
        assert_right(traced, bound(compiled, traced), compiled.inputs, slopes)


def test_gradients_are_right_after_a_search(traced: Traced, slopes: dict[str, float], tmp_path: Path) -> None:
    engine = Engine(Config(threads=THREADS, cache_dir=tmp_path / "cache", data_dir=tmp_path / "data"))
    found = engine.tune(traced.graph, budget=6.0)
    assert any(kernel.candidates for kernel in found.kernels)
    program = engine.prepare(traced.graph)
    assert_right(traced, program.bind(traced.arrays, engine.pool()), program.inputs, slopes)
