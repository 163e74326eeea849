"""Repetitions: what is before, inside and behind the loop, and the memory that a loop keeps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from tests.compiler.programs import THREADS, lowered, spec

import snell as sn
from snell.compiler.compile import Options, compile_graph
from snell.compiler.lowered import RepeatStep
from snell.frontend import trace
from snell.loops.build import BuiltKernel
from snell.runtime.program import Call, Program, Repeat, Role
from snell.targets import AVX2


def cell(h: Any, x: Any, w: Any) -> Any:
    def body(h: Any, row: Any) -> Any:
        after = sn.tanh(sn.softmax(h @ w, axis=-1) + row)
        return after, after

    return sn.scan(body, h, x)


def test_a_loop_stands_between_what_it_reads_and_what_reads_it():
    result = lowered(lambda h, x, w: cell(h * 2, x, w)[0] + 1, spec(4, 16), spec(9, 4, 16), spec(16, 16))
    kinds = [type(step) for step in result.steps]
    assert kinds == [BuiltKernel, RepeatStep, BuiltKernel]


def test_rows_that_nobody_reads_are_not_made():
    (step,) = lowered(lambda h, x, w: cell(h, x, w)[0], spec(4, 16), spec(9, 4, 16), spec(16, 16)).repetitions()
    assert [row.row.name for row in step.rows] == ["scan0.row0"]


def test_what_a_loop_reads_lives_as_long_as_the_loop():
    def program(h: Any, x: Any, w: Any) -> Any:
        last, _ = cell(h * 2, sn.sin(x), sn.tanh(w))
        return last * 3

    graph = trace(program, (spec(4, 16), spec(9, 4, 16), spec(16, 16)), ("h", "x", "w")).graph
    made = compile_graph(graph, Options(AVX2, THREADS)).assembled.program
    (repeat,) = (step for step in made.steps if isinstance(step, Repeat))
    outside = {slot for carry in repeat.carries for slot in (carry.initial, carry.result, carry.spare)}
    outside |= {row.whole for row in repeat.rows}
    touched = {slot for step in repeat.steps if not isinstance(step, Repeat) for slot in step.buffers}
    inside = {s for s in touched if made.buffers[s].name.startswith(("scan0.", "workspace"))}
    places = {s: _bytes(made, s) for s in outside | touched if made.buffers[s].role is Role.ARENA}
    for a in outside & places.keys():
        for b in (outside | inside) & places.keys():
            assert a == b or places[a][1] <= places[b][0] or places[b][1] <= places[a][0]


def _bytes(program: Program, slot: int) -> tuple[int, int]:
    buffer = program.buffers[slot]
    assert buffer.offset is not None
    return buffer.offset.constant, buffer.offset.constant + buffer.nbytes.constant


def test_what_no_step_changes_is_packed_once_before_the_outermost_loop_that_leaves_it():
    rng = np.random.default_rng(0)
    h, w = (rng.standard_normal(shape).astype(np.float32) / 16 for shape in ((64, 256), (256, 256)))

    def function(h: sn.Tensor, w: sn.Tensor) -> sn.Tensor:
        def outer(h: sn.Tensor, _: None) -> tuple[sn.Tensor, None]:
            return sn.scan(lambda h, _: (sn.tanh(h @ w), None), h, length=3)[0], None

        return sn.scan(outer, h, length=2)[0]

    compiled = sn.compile(function)
    expected = h.astype(np.float64)
    for _ in range(6):
        expected = np.tanh(expected @ w)
    np.testing.assert_allclose(np.asarray(compiled(h, w)), expected, atol=1e-5)
    program = compiled.explain().compilation.assembled.program
    (packing, loop) = program.steps[-2:]
    assert isinstance(packing, Call)
    assert isinstance(loop, Repeat)
    (packed,) = set(packing.buffers) - set(program.slots(Role.INPUT))
    assert packed in {slot for call in _inner_calls(loop) for slot in call.buffers}


def _inner_calls(repeat: Repeat) -> Iterator[Call]:
    for step in repeat.steps:
        if isinstance(step, Repeat):
            yield from _inner_calls(step)
        elif isinstance(step, Call):
            yield step
