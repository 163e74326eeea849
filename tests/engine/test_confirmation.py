"""The whole program with its finalists: other kernels in the place of some, the same results, and slow ones taken back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.search.tasks import spec

import snell as sn
from snell.codegen.host import host_target
from snell.compiler.compile import Compilation, Options, compile_graph, with_kernels
from snell.config import Config
from snell.engine import tuning
from snell.engine.confirmation import Finalist, confirm_finalists
from snell.engine.engine import Engine
from snell.errors import CompileError
from snell.frontend import TensorSpec, trace
from snell.graph.node import Graph
from snell.loops.build import BuiltKernel, planned_kernel
from snell.loops.plan import HEURISTICS, Plan, StageChoice
from snell.runtime.binding import bind
from snell.runtime.pool import process_pool
from snell.search.confirm import Confirmation
from snell.search.records import Record
from snell.symbolic import Dim

THREADS = 2
ROWS = Dim("rows", min=1, max=64, typical=(40,))


def two_layers(x: sn.Tensor, w: sn.Tensor, v: sn.Tensor) -> sn.Tensor:
    return sn.gelu(x @ w) @ v


def repeated(x: sn.Tensor, w: sn.Tensor, v: sn.Tensor) -> sn.Tensor:
    return sn.scan(lambda c, _: (sn.gelu(c @ w @ v), None), x, length=3)[0]


def graph_of(function: object, *specs: TensorSpec) -> Graph:
    return trace(function, specs, ("x", "w", "v")).graph  # type: ignore[arg-type]


GRAPHS = {
    "two layers with frozen weights": (
        two_layers, (spec(ROWS, 96), spec(96, 130, frozen=True), spec(130, 70, frozen=True)),
    ),
    "two layers": (two_layers, (spec(ROWS, 96), spec(96, 130), spec(130, 70))),
    "a repetition": (repeated, (spec(20, 64), spec(64, 50), spec(50, 64))),
}  # fmt: skip


def compiled(graph: Graph) -> Compilation:
    return compile_graph(graph, Options(host_target(), THREADS))


def finalists(compilation: Compilation, plan: Plan) -> list[Finalist]:
    """Every kernel of one stage under a plan, and groups by other blocks of rows."""
    made = [
        Finalist(str(k), built, planned_kernel(group, host_target(), THREADS, own), 1.0 - 0.1 * k)
        for k, (group, built) in enumerate(compilation.lowered.built.items())
        for own in (plan if len(group.stages) == 1 else Plan(rows=3),)
    ]
    assert made
    return made


@pytest.mark.parametrize("name", GRAPHS)
def test_a_program_with_other_kernels_has_the_same_results(name: str) -> None:
    function, specs = GRAPHS[name]
    compilation = compiled(graph_of(function, *specs))
    found = finalists(compilation, Plan((StageChoice(rows=8, columns=32),)))
    other = with_kernels(compilation, {f.built.kernel: (f.built, f.planned) for f in found})
    assert {call.function for call in other.program.calls} != {
        call.function for call in compilation.assembled.program.calls
    }
    generator = np.random.default_rng(1)
    shapes = [[size if isinstance(size, int) else 40 for size in s.shape] for s in specs]
    arrays = dict(zip("xwv", (generator.standard_normal(s, np.float32) / 8 for s in shapes), strict=True))
    results: list[np.ndarray] = []
    for assembled in (compilation.assembled, other):
        executable = bind(assembled, {n: arrays[n] for n in assembled.frozen}, process_pool(THREADS))
        results.append(executable(*(arrays[n] for n in assembled.inputs))[0])
    np.testing.assert_allclose(results[1], results[0], rtol=1e-4, atol=1e-5)


def test_a_kernel_on_other_tensors_is_refused() -> None:
    one, other = compiled(graph_of(two_layers, *GRAPHS["two layers"][1])), None
    built: list[BuiltKernel] = list(one.lowered.built.values())
    extra = replace(built[0].tensors[0], name="a tensor of another group")
    other = replace(built[0], tensors=(extra, *built[0].tensors[1:]))
    with pytest.raises(CompileError, match="a tensor of another group"):
        with_kernels(one, {built[0].kernel: (built[0], other)})


def test_plans_that_slow_the_whole_program_down_are_taken_back() -> None:
    graph = graph_of(two_layers, spec(256, 512), spec(512, 600), spec(600, 256))
    compilation = compiled(graph)
    slow = finalists(compilation, Plan((StageChoice(rows=1, columns=16, passes=8),)))
    found = confirm_finalists(compilation, {}, slow, 0.5, process_pool(THREADS), 10.0)
    assert found is not None
    assert found.ratio == 1.0
    assert found.taken_back == {f.key for f in slow}


def test_a_program_that_random_operands_do_not_suit_is_not_confirmed() -> None:
    graph = graph_of(lambda x, w, v: (x @ w)[v], spec(8, 9), spec(9, 10), spec(5, dtype="i32"))
    compilation = compiled(graph)
    same = [Finalist("k", b, planned_kernel(g, host_target(), THREADS, HEURISTICS), 1.0)
            for g, b in compilation.lowered.built.items() if len(g.stages) == 1]  # fmt: skip
    assert confirm_finalists(compilation, {}, same, 0.5, process_pool(THREADS), 10.0) is None


def test_a_record_that_does_not_help_the_whole_program_is_dropped_and_the_result_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(Config(threads=THREADS, cache_dir=tmp_path, data_dir=tmp_path))
    graph = graph_of(two_layers, spec(64, 512), spec(512, 600), spec(600, 256))
    first = engine.tune(graph, budget=1.0)
    key = first.kernels[0].key
    engine.records.drop(key)
    engine.records.put(key, Record(Plan((StageChoice(rows=1, columns=16, passes=8),)), 0.1, 1e-6, 1))
    monkeypatch.setattr(tuning, "confirm_finalists", lambda *_: Confirmation(1.0, frozenset({key})))
    found = engine.tune(graph, budget=1.0)
    assert found.whole == 1.0
    assert next(k for k in found.kernels if k.key == key).taken_back
    assert engine.records.get(key) is None
