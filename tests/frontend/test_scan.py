"""scan as a graph: what it means (by the interpreter), what it refuses, and how its body is taken apart."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
import pytest

import snell as sn
from snell.errors import DTypeError, GraphError, OutOfRangeError, ShapeError
from snell.frontend import TensorSpec, trace
from snell.graph.interpret import interpret
from snell.graph.node import Graph
from snell.graph.primitives import Input, ScalarFunction
from snell.graph.scan import Loop, loops_of
from snell.graph.verify import verify

RNG = np.random.default_rng(3)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def spec(*shape: int | sn.Dim, dtype: str = "f32", **options: Any) -> TensorSpec:
    return TensorSpec.of(shape, dtype, **options)


def the_loop(graph: Graph) -> Loop:
    (loop,) = loops_of(graph)
    verify(graph)
    return loop


def test_a_running_sum_gives_the_last_carry_and_every_row():
    x = floats(5, 3)
    carry, ys = sn.scan(lambda c, row: (c + row, c), np.zeros(3, np.float32), x)
    np.testing.assert_allclose(carry.numpy(), x.sum(0), rtol=1e-6)
    np.testing.assert_allclose(ys.numpy(), np.cumsum(x, 0) - x, rtol=1e-5, atol=1e-6)


def test_fibonacci_numbers_are_exact_in_i64():
    (a, _), seen = sn.scan(lambda c, _: ((c[1], c[0] + c[1]), c[0]), (0, 1), length=90)
    assert a.item() == 2880067194370816120
    assert seen.numpy()[:8].tolist() == [0, 1, 1, 2, 3, 5, 8, 13]
    assert str(seen.dtype) == "i64"


def test_carries_rows_and_results_are_trees():
    Point = namedtuple("Point", "x y")

    def body(carry: Any, row: Any) -> Any:
        moved = Point(carry["at"].x + row[0], carry["at"].y * row[1]["f"])
        return {"at": moved, "n": carry["n"] + 1}, {"x": moved.x, "rest": (carry["n"], [])}

    xs = (np.arange(3.0, dtype=np.float32), {"f": np.full(3, 2.0, np.float32)})
    carry, ys = sn.scan(body, {"at": Point(1.0, 1.0), "n": 0}, xs)
    assert isinstance(carry["at"], Point)
    assert (carry["at"].x.item(), carry["at"].y.item(), carry["n"].item()) == (4.0, 8.0, 3)
    assert ys["x"].numpy().tolist() == [1.0, 2.0, 4.0]
    assert ys["rest"][0].numpy().tolist() == [0, 1, 2]
    assert ys["rest"][1] == []


def test_a_length_of_zero_gives_the_initial_carry_and_empty_rows():
    carry, ys = sn.scan(lambda c, row: (c * 0 + row.sum(), row * 2), 7.0, np.zeros((0, 4), np.float32))
    assert carry.item() == 7.0
    assert ys.shape == (0, 4)
    assert ys.numpy().shape == (0, 4)


def test_rows_may_be_views_constants_and_computed_values():
    x = sn.arange(12).reshape(3, 4)
    total, _ = sn.scan(lambda c, row: (c + row[0] * row[1], None), np.zeros(3, np.int64), (x.T, sn.full((4,), 2)))
    assert total.numpy().tolist() == [12, 44, 76]


def test_scans_nest_and_inner_bodies_see_outer_ones():
    x = floats(4, 3)

    def outer(total: sn.Tensor, row: sn.Tensor) -> Any:
        inner, _ = sn.scan(lambda c, e: (c * e + total, None), sn.zeros(()), row)
        return total + inner, inner

    expected, seen = np.float64(1), []
    for row in x.astype(np.float64):
        c = 0.0
        for e in row:
            c = c * e + expected
        expected, seen = expected + c, [*seen, c]
    total, inners = sn.scan(outer, 1.0, x)
    np.testing.assert_allclose(total.numpy(), expected, rtol=1e-5)
    np.testing.assert_allclose(inners.numpy(), seen, rtol=1e-5, atol=1e-6)


def test_an_index_out_of_range_in_the_body_raises():
    table = floats(4)
    with pytest.raises(OutOfRangeError, match="9"):
        sn.scan(lambda c, k: (c + sn.take(table, k), None), 0.0, np.array([1, 9, 2]))[0].numpy()


def test_what_no_step_changes_is_computed_outside():
    def program(w: sn.Tensor, x: sn.Tensor) -> Any:
        return sn.scan(lambda c, row: (c @ sn.tanh(w) + row, None), sn.zeros((3,)), x)

    graph = trace(program, (spec(3, 3), spec(5, 3))).graph
    assert any(node.op == ScalarFunction("tanh") for node in graph.nodes())
    assert not any(node.op == ScalarFunction("tanh") for node in the_loop(graph).body.nodes())


def test_constants_positions_and_weights_stay_inside():
    weight = floats(3, 3)

    def program(x: sn.Tensor) -> Any:
        return sn.scan(lambda c, row: (c @ (weight * 2) + sn.arange(3) * row, None), sn.zeros((3,)), x)

    loop = the_loop(trace(program, (spec(5, 3),)).graph)
    assert loop.inputs == ("carry0", "row0", "invariant0")
    frozen = [node.op for node in loop.body.inputs() if isinstance(node.op, Input) and node.op.frozen]
    assert [op.name for op in frozen] == ["invariant0"]


def test_a_symbolic_length_is_any_length():
    rows = sn.Dim("rows", min=0)
    graph = trace(lambda x: sn.scan(lambda c, r: (c + r, c), 0.0, x), (spec(rows),), ("x",)).graph
    verify(graph)
    for n in (0, 1, 5):
        x = floats(n)
        carry, ys = interpret(graph, {"x": x})
        np.testing.assert_allclose(carry, x.sum(), rtol=1e-5, atol=1e-6)
        assert ys.shape == (n,)


def test_a_length_may_be_a_dim_without_rows():
    n = sn.Dim("n", min=0)
    graph = trace(lambda x: sn.scan(lambda c, _: (c * x, c), 1.0, length=n), (spec(),), ("x",)).graph
    carry, ys = interpret(graph, {"x": np.float32(2)}, {"n": 5})
    assert carry == 32.0
    assert ys.tolist() == [1.0, 2.0, 4.0, 8.0, 16.0]


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        (lambda c, x: ({"h": c["h"].sum()}, None), ShapeError, r"carry\.h: expected \(3,\), received \(\)"),
        (lambda c, x: ({"h": c["h"] > 0}, None), DTypeError, r"carry\.h: expected f32, received bool"),
        (lambda c, x: ({"g": c["h"]}, None), GraphError, r"expected the leaves carry\.h, received carry\.g"),
        (lambda c, x: c, GraphError, r"must return \(carry, y\).*received dict"),
        (lambda c, x: (c, x, x), GraphError, "received 3 values"),
        (lambda c, x: (c, "text"), GraphError, "y: expected a tensor"),
    ],
)
def test_a_body_that_breaks_the_carry_is_refused(body: Any, kind: type[Exception], message: str):
    with pytest.raises(kind, match=message):
        sn.scan(body, {"h": np.zeros(3, np.float32)}, floats(4, 2))


def test_rows_of_different_number_are_refused():
    with pytest.raises(ShapeError, match=r"xs\.b has 4 rows, xs\.a says 3"):
        sn.scan(lambda c, x: (c, None), 0, {"a": floats(3), "b": floats(4)})
    with pytest.raises(ShapeError, match="xs has 3 rows, length says 2"):
        sn.scan(lambda c, x: (c, None), 0, floats(3), length=2)


def test_nothing_to_walk_over_is_refused():
    with pytest.raises(ShapeError, match="pass xs with a first axis, or a length"):
        sn.scan(lambda c, x: (c, None), 0)
    with pytest.raises(ShapeError, match="received a scalar"):
        sn.scan(lambda c, x: (c, None), 0, 5.0)


def test_a_tensor_of_a_body_means_nothing_outside_it():
    leaked: list[sn.Tensor] = []

    def body(c: sn.Tensor, x: sn.Tensor) -> Any:
        leaked.append(c)
        return c + x, None

    carry, _ = sn.scan(body, 0.0, floats(3))
    with pytest.raises(GraphError, match="used outside it"):
        _ = carry + leaked[0]


def test_python_numbers_keep_the_dtype_of_the_carry():
    carry, _ = sn.scan(lambda c, x: (3, None), np.float32(1), length=2)
    assert (str(carry.dtype), carry.item()) == ("f32", 3.0)
