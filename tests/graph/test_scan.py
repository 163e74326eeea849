"""A scan node prints, parses back, draws, verifies and has a fingerprint of its own."""

from __future__ import annotations

import numpy as np
import pytest
from tests.graph.programs import Sketch

from snell.dtypes import f32
from snell.errors import GraphError
from snell.graph.dot import to_dot
from snell.graph.fingerprint import fingerprint
from snell.graph.interpret import interpret
from snell.graph.node import Graph, Operand
from snell.graph.parse import parse_graph
from snell.graph.primitives import Add, Mul
from snell.graph.scan import Loop, Scan, repetitions
from snell.graph.text import show_graph
from snell.graph.verify import verify
from snell.symbolic import Dim, as_size

ROWS = as_size(Dim("rows", min=0, max=64))


def loop(operation: object = Add(), inner: bool = False) -> Loop:
    """carry ← carry ∘ row ∘ w; the carry before it is the row made."""
    sketch = Sketch()
    carry, row, w = (sketch.input(name, (3,)) for name in ("carry0", "row0", "w"))
    after = sketch.apply(operation, sketch.apply(operation, carry, row), w)
    if inner:
        after = sketch.apply(Scan(loop(), 0), after, sketch.input("all", (ROWS, 3)), w)
        return Loop(Graph((("a", after), ("b", carry))), ("carry0", "row0", "w", "all"), 1, 1, ROWS)
    return Loop(Graph((("a", after), ("b", carry))), ("carry0", "row0", "w"), 1, 1, ROWS)


def program(inner: bool = False, operation: object = Add()) -> Graph:
    sketch = Sketch()
    first, xs, w = sketch.input("c", (3,)), sketch.input("xs", (ROWS, 3)), sketch.input("w", (3,))
    operands = (first, xs, w, xs) if inner else (first, xs, w)
    last, made = (sketch.apply(Scan(loop(operation, inner), k), *operands) for k in range(2))
    return Graph((("last", last), ("made", made)))


@pytest.mark.parametrize("inner", [False, True])
def test_the_text_of_a_scan_gives_it_back(inner: bool):
    graph = program(inner)
    verify(graph)
    back = parse_graph(show_graph(graph))
    verify(back)
    assert show_graph(back) == show_graph(graph)
    assert fingerprint(back) == fingerprint(graph)
    values = {name: np.ones(shape, np.float32) for name, shape in (("c", (3,)), ("xs", (4, 3)), ("w", (3,)))}
    for a, b in zip(interpret(graph, values), interpret(back, values), strict=True):
        np.testing.assert_array_equal(a, b)


def test_bodies_are_part_of_the_fingerprint():
    assert fingerprint(program()) == fingerprint(program())
    assert fingerprint(program()) != fingerprint(program(operation=Mul()))


def test_the_results_of_one_loop_on_the_same_operands_are_one_repetition():
    sketch = Sketch()
    operands = [sketch.input("c", (3,)), sketch.input("xs", (ROWS, 3)), sketch.input("w", (3,))]
    one = loop()
    outputs = [(f"r{k}", sketch.apply(Scan(one, k), *operands)) for k in range(2)]
    (found,) = repetitions(Graph(tuple(outputs)).nodes())
    assert len(found.results) == 2


def test_the_drawing_frames_the_body():
    text = to_dot(program(inner=True))
    assert 'label="loop 0, rows times"' in text
    assert "cluster_loop0_loop0" in text
    assert text.count("{") == text.count("}")


def test_a_loop_without_end_is_no_graph():
    text = show_graph(program())
    with pytest.raises(GraphError, match="expected `end`"):
        parse_graph(text[: text.index("end")])


def test_operands_that_do_not_fit_the_body_are_refused():
    sketch = Sketch()
    first, xs = sketch.input("c", (3,)), sketch.input("xs", (ROWS, 3))

    def refused(*operands: Operand) -> Graph:
        return Graph((("last", sketch.apply(Scan(loop(), 0), *operands)),))

    with pytest.raises(GraphError, match=r"for 'w' expected f32\(3,\), received f32\(4,\)"):
        verify(refused(first, xs, sketch.input("wide", (4,))))
    with pytest.raises(GraphError, match="is a view"):
        verify(refused(sketch.move(first, "slice", (2,), (3,), (-1,)), xs, first))
    with pytest.raises(GraphError, match="is a Constant"):
        verify(Graph((("last", sketch.apply(Scan(scalar(), 0), sketch.constant(1, f32))),)))


def scalar() -> Loop:
    sketch = Sketch()
    carry = sketch.input("carry0", ())
    return Loop(Graph((("a", sketch.apply(Add(), carry, carry)),)), ("carry0",), 1, 0, 3)
