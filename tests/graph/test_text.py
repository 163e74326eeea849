"""Graphs print, parse back to the same text and meaning, and match their golden text."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from tests.graph.programs import Array, Sketch, programs

from snell.dtypes import bf16, f32, i64, u4, u32
from snell.errors import GraphError
from snell.graph.dot import to_dot
from snell.graph.interpret import interpret
from snell.graph.node import Check, Graph
from snell.graph.parse import parse_graph
from snell.graph.primitives import (
    Add,
    Contiguous,
    LessThan,
    MaxReduce,
    Mul,
    Random,
    Recip,
    ScalarFunction,
    Storage,
    SumReduce,
)
from snell.graph.text import show_graph
from snell.graph.verify import verify
from snell.symbolic import Dim, as_size

GOLDEN = Path(__file__).parent / "golden"


def softmax() -> Graph:
    sketch = Sketch()
    seq = as_size(Dim("seq", max=64, typical=(1, 16)))
    x = sketch.input("x", (seq, 8))

    def column(value: object) -> object:
        return sketch.move(sketch.move(value, "reshape", (seq, 1)), "expand", (seq, 8))  # type: ignore[arg-type]

    top = sketch.apply(Mul(), column(sketch.apply(MaxReduce((1,)), x)), sketch.constant(-1, f32, (seq, 8)))
    powers = sketch.apply(ScalarFunction("exp"), sketch.apply(Add(), x, top))
    total = column(sketch.apply(Recip(), sketch.apply(SumReduce((1,)), powers)))
    return Graph((("y", sketch.apply(Mul(), powers, total)),))


def everything() -> Graph:
    sketch = Sketch()
    ids = sketch.input('ids "quoted"', (4,), i64, donated=True)
    plane = sketch.input("w", (2, 4), u4, frozen=True, storage=Storage(18, (64, 4)))
    padded = sketch.move(sketch.apply(Contiguous(bf16), plane), "pad", (0, 1), (1, 0))
    third = sketch.apply(Mul(), padded, sketch.constant(Fraction(1, 3), bf16, (3, 5)))
    bits = sketch.apply(Random((3,)), sketch.input("key", (2,), u32))
    condition = sketch.apply(LessThan(), ids, sketch.constant(10, i64, (4,)))
    check = Check(condition, ids, "index out of range\nfor ids")
    least = sketch.constant(float("-inf"), f32)
    return Graph((("a", third), ("b", bits), ("c", least), ("d", sketch.iota(7))), (check,))


CASES = {"softmax": softmax, "everything": everything}


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_graph_prints_as_its_golden_text(name: str) -> None:
    assert show_graph(CASES[name]()) == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_golden_text_parses_and_prints_as_itself(name: str) -> None:
    text = (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")
    graph = parse_graph(text)
    verify(graph)
    assert show_graph(graph) == text


@given(programs())
@settings(max_examples=150, deadline=None)
def test_a_random_graph_round_trips_with_its_meaning(case: tuple[Graph, dict[str, Array]]) -> None:
    graph, values = case
    text = show_graph(graph)
    again = parse_graph(text)
    assert show_graph(again) == text
    verify(again)
    used = {node.op.name for node in again.inputs()}  # type: ignore[attr-defined]
    given_values = {name: value for name, value in values.items() if name in used}
    for found, expected in zip(interpret(again, given_values), interpret(graph, given_values), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("text", "message"), [
    ("%0: f32(2) = input", "line 1 of the graph cannot be read"),
    ('%0: f32(2) = input "x"\n%1: f32(2) = blur %0', "line 2 .*unknown operation blur"),
    ('%0: f32(2) = input "x"\n%1: f32(3) = exp2 %0', "the line says otherwise"),
    ('output "y" %7', "line 1"),
])  # fmt: skip
def test_an_unreadable_line_is_named(text: str, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        parse_graph(text)


def test_dot_draws_every_node_and_labels_views() -> None:
    picture = to_dot(softmax())
    assert picture.startswith("digraph snell {")
    assert picture.count("[label=") >= 10
    assert 'label="exp\\nf32(seq, 8)"' in picture
