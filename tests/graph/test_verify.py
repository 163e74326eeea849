"""The verifier refuses each kind of malformed graph with a message that says what is wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from tests.graph.programs import Array, Sketch, programs

from snell.dtypes import f32, i32
from snell.errors import GraphError
from snell.graph.node import Check, Graph, Node, Operand, full_view
from snell.graph.primitives import Add, Exp2, MaxReduce, SumReduce
from snell.graph.verify import verify
from snell.symbolic import Axis, Dim, View, as_expr, as_size


@given(programs())
@settings(max_examples=100, deadline=None)
def test_built_graphs_verify(case: tuple[Graph, dict[str, Array]]) -> None:
    verify(case[0])


def refuse(operand: Operand, message: str, **fields: object) -> None:
    with pytest.raises(GraphError, match=message):
        verify(Graph((("y", operand),), **fields))  # type: ignore[arg-type]


def test_an_index_beyond_its_extent_is_found_with_a_position() -> None:
    x = Sketch().input("x", (4,))
    shifted = Operand(x.node, View((4,), (as_expr(Axis("i0", 4)) + 1,)))
    refuse(shifted, r"index i0 \+ 1 of dimension 0 goes beyond its extent 4 at i0 = 3")


def test_an_index_below_zero_is_found_where_guards_do_not_exclude_it() -> None:
    x = Sketch().input("x", (4,))
    place = as_expr(Axis("i0", 4)) - 2
    refuse(Operand(x.node, View((4,), (place,))), "goes below 0 at i0 = 0")
    verify(Graph((("y", Operand(x.node, View((4,), (place,), (place,)))),)))


def test_a_foreign_axis_in_a_view_is_named() -> None:
    x = Sketch().input("x", (4,))
    refuse(Operand(x.node, View((4,), (as_expr(Axis("j", 4)),))), "a root uses j, not coordinates")


def test_the_number_of_indices_must_match_the_source() -> None:
    x = Sketch().input("x", (4, 2))
    refuse(Operand(x.node, View.identity((4,))), r"has 1 indices, expected 2 for \(4, 2\)")


def test_a_wrong_shape_or_dtype_is_found() -> None:
    x = Sketch().input("x", (4,))
    refuse(full_view(Node(Exp2(), (x,), (5,), f32)), r"should have shape \(4,\) and dtype f32")
    refuse(full_view(Node(Exp2(), (x,), (4,), i32)), "dtype f32 by its operation's rule")


def test_operands_of_two_dtypes_are_refused() -> None:
    sketch = Sketch()
    pair = (sketch.input("x", (4,)), sketch.input("n", (4,), i32))
    refuse(full_view(Node(Add(), pair, (4,), f32)), "expected operands of one dtype")


def test_the_number_of_operands_is_checked() -> None:
    x = Sketch().input("x", (4,))
    refuse(full_view(Node(Add(), (x,), (4,), f32)), "expected 2 operands, received 1")


def test_reduced_axes_must_exist_and_rise() -> None:
    x = Sketch().input("x", (4, 2))
    refuse(full_view(Node(SumReduce((2,)), (x,), (4,), f32)), r"expected rising axes of \(4, 2\), received \(2,\)")
    refuse(full_view(Node(SumReduce((1, 0)), (x,), (), f32)), "rising axes")


def test_the_maximum_over_a_static_empty_axis_is_an_error() -> None:
    sketch = Sketch()
    refuse(sketch.apply(MaxReduce((0,)), sketch.input("x", (0,))), "maximum over an empty axis")


def test_one_name_means_one_dim_and_one_input() -> None:
    sketch = Sketch()
    small, large = (sketch.input(name, (as_size(Dim("n", max=m)),)) for name, m in (("x", 4), ("y", 8)))
    graph = Graph((("a", small), ("b", large)))
    with pytest.raises(GraphError, match="dim 'n' is declared twice with different ranges"):
        verify(graph)
    refuse(sketch.apply(Add(), sketch.input("z", (2,)), replace(sketch.input("z", (3,)), view=View.identity((2,)))),
           "two inputs are named 'z'")  # fmt: skip


def test_output_names_differ_and_checks_are_bool() -> None:
    x = Sketch().input("x", (4,))
    with pytest.raises(GraphError, match="output names must differ; y"):
        verify(Graph((("y", x), ("y", x))))
    refuse(x, "expected a bool condition, received f32", checks=(Check(x, x, "never"),))
