"""Lowering to index notation keeps the meaning, and gathers, casts, guards and axis splits come out as they should."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.graph.programs import Array, Sketch, elementary, programs

from snell.dtypes import bf16, f32, i32, i64, u32
from snell.graph.interpret import interpret
from snell.graph.node import Graph, Node, Operand
from snell.graph.primitives import Contiguous, Mul, Random, ScalarFunction, SumReduce
from snell.rewrite.definition import Definition
from snell.rewrite.evaluate import evaluate_definition
from snell.rewrite.index import define, definitions
from snell.rewrite.term import Load, Reduction, Tensor, walk
from snell.symbolic import Dim, FloorDiv, Remainder, as_size

Arrays = dict[str, Array]


def run(program: tuple[Definition, ...], values: Arrays, sizes: dict[Dim, int] | None = None) -> Arrays:
    known = dict(values)
    for definition in program:
        stored = evaluate_definition(definition, known, sizes).astype(definition.tensor.dtype.numpy)
        known[definition.tensor.name] = stored
    return known


@given(programs(), st.data())
@settings(max_examples=200, deadline=None)
def test_definitions_of_a_random_graph_compute_what_it_means(case: tuple[Graph, Arrays], data: st.DataObject) -> None:
    graph, values = case
    stored = [n for n in elementary(graph) if data.draw(st.integers(0, 3)) == 0]
    found = run(definitions(graph, stored), values)
    for (name, _), expected in zip(graph.outputs, interpret(graph, values), strict=True):
        np.testing.assert_allclose(found[name].astype("d"), expected.astype("d"), rtol=2e-4, atol=2e-4)


def single(operand: Operand, cut: dict[Node, Tensor] | None = None) -> Definition:
    return define(operand, Tensor("out", operand.shape, operand.dtype), cut or {})


def matmul(sketch: Sketch, a: Operand, b: Operand) -> Operand:
    (m, k), n = a.shape, b.shape[1]
    wide = (m, k, n)
    left = sketch.move(sketch.move(a, "reshape", (m, k, 1)), "expand", wide)
    right = sketch.move(sketch.move(b, "reshape", (1, k, n)), "expand", wide)
    return sketch.apply(SumReduce((1,)), sketch.apply(Mul(), left, right))


def test_a_matrix_product_is_one_sum_over_one_axis() -> None:
    sketch = Sketch()
    seq = as_size(Dim("seq", max=64))
    product = matmul(sketch, sketch.input("a", (seq, 64)), sketch.input("b", (64, 32)))
    assert str(single(product)) == "out[i0, i1] = Sum{r64_0}(Mul(a[i0, r64_0], b[r64_0, i1]))"


def test_equal_reductions_are_one_term() -> None:
    sketch = Sketch()
    x = sketch.input("x", (4, 8))
    total = sketch.move(sketch.move(sketch.apply(SumReduce((1,)), x), "reshape", (4, 1)), "expand", (4, 8))
    ratio = sketch.apply(Mul(), total, sketch.apply(Mul(), total, x))
    sums = [t for t in walk(single(ratio).value) if isinstance(t.op, Reduction)]
    assert len(sums) == 1


def test_nested_sums_are_one_sum_over_both_axes() -> None:
    sketch = Sketch()
    x = sketch.input("x", (4, 8, 3))
    total = sketch.apply(SumReduce((0,)), sketch.apply(SumReduce((1,)), x))
    assert str(single(total)) == "out[i0] = Sum{r4_0, r8_0}(x[r4_0, r8_0, i0])"


@pytest.mark.parametrize("dtype", [i32, i64])
def test_embedding_is_an_indexed_load(dtype: object) -> None:
    sketch = Sketch()
    table, ids = sketch.input("table", (1000, 16)), sketch.input("ids", (5,), dtype)  # type: ignore[arg-type]
    shape = (5, 1000, 16)
    places = sketch.apply(Contiguous(dtype), sketch.iota(1000))  # type: ignore[arg-type]
    thin = ((places, (1, 1000, 1)), (ids, (5, 1, 1)))
    wide = [sketch.move(sketch.move(o, "reshape", s), "expand", shape) for o, s in thin]
    rows = sketch.move(sketch.move(table, "reshape", (1, 1000, 16)), "expand", shape)
    taken = sketch.apply(SumReduce((1,)), sketch.apply(Mul(), sketch.equal(*wide), rows))
    definition = single(taken)
    assert str(definition) == ("out[i0, i1] = table[<ids[i0]>, i1 if <ids[i0]> >= 0 and -1*<ids[i0]> + 999 >= 0]")
    positions = np.array([3, 999, -1, 1000, 0]).astype(dtype.numpy)  # type: ignore[attr-defined]
    values = {"table": np.random.default_rng(0).normal(size=(1000, 16)).astype("f"), "ids": positions}
    np.testing.assert_array_equal(run((definition,), values)["out"], interpret(Graph((("out", taken),)), values)[0])


def test_a_diagonal_needs_no_sum() -> None:
    sketch = Sketch()
    x = sketch.input("x", (8,))
    rows, columns = (sketch.move(sketch.move(sketch.iota(8), "reshape", s), "expand", (8, 8)) for s in ((8, 1), (1, 8)))
    wide = sketch.move(sketch.move(x, "reshape", (1, 8)), "expand", (8, 8))
    product = sketch.apply(SumReduce((1,)), sketch.apply(Mul(), sketch.equal(rows, columns), wide))
    assert str(single(product)) == "out[i0] = x[i0]"


def test_a_float_comparison_is_not_solved() -> None:
    sketch = Sketch()
    x, ids = sketch.input("x", (8,)), sketch.input("ids", (8,))
    places = sketch.apply(Contiguous(f32), sketch.iota(8))
    product = sketch.apply(SumReduce((0,)), sketch.apply(Mul(), sketch.equal(places, ids), x))
    assert any(isinstance(t.op, Reduction) for t in walk(single(product).value))


def test_axes_are_split_until_every_index_is_affine() -> None:
    sketch = Sketch()
    x = sketch.input("x", (4, 32, 8))
    heads = sketch.move(sketch.move(x, "reshape", (128, 8)), "permute", (1, 0))
    total = sketch.apply(SumReduce((1,)), sketch.apply(ScalarFunction("exp"), heads))
    definition = single(total)
    assert str(definition) == "out[i0] = Sum{r4_0, r32_0}(exp(x[r4_0, r32_0, i0]))"
    flat = single(sketch.apply(ScalarFunction("exp"), heads))
    assert str(flat) == "out[i0, 32*i1_0 + i1_1] = exp(x[i1_0, i1_1, i0])"


def test_grouped_heads_of_a_symbolic_sequence_are_affine() -> None:
    sketch = Sketch()
    seq = as_size(Dim("seq", max=64))
    key = sketch.move(sketch.input("k", (seq, 2, 16)), "permute", (1, 0, 2))
    wide = sketch.move(sketch.move(key, "reshape", (2, 1, seq, 16)), "expand", (2, 3, seq, 16))
    repeated = sketch.move(wide, "reshape", (6, seq, 16))
    definition = single(sketch.apply(ScalarFunction("exp"), repeated))
    assert str(definition) == "out[3*i0_0 + i0_1, i1, i2] = exp(k[i1, i0_0, i2])"
    for item in walk(definition.value):
        if isinstance(item.op, Load):
            assert not any(isinstance(a, FloorDiv | Remainder) for e in item.op.indices for a in e.atoms())


def test_guards_of_padding_go_to_the_load() -> None:
    sketch = Sketch()
    x = sketch.input("x", (4,))
    padded = sketch.apply(Mul(), *[sketch.move(x, "pad", (1,), (1,))] * 2)
    load = "x[i0 - 1 if i0 - 1 >= 0 and -1*i0 + 4 >= 0]"
    assert str(single(padded)) == f"out[i0] = Mul({load}, {load})"


def test_padding_of_a_computed_value_selects() -> None:
    sketch = Sketch()
    grown = sketch.move(sketch.apply(ScalarFunction("exp"), sketch.input("x", (4,))), "pad", (1,), (0,))
    definition = single(sketch.apply(ScalarFunction("exp"), grown))
    assert str(definition) == "out[i0] = exp(Select(Not(LessThan((i0 - 1), 0)), exp(x[i0 - 1 if i0 - 1 >= 0])))"


def test_bfloat16_computes_in_float32_and_rounds_where_it_is_stored() -> None:
    sketch = Sketch()
    x = sketch.input("x", (4, 8), bf16)
    total = sketch.apply(SumReduce((1,)), sketch.apply(Mul(), x, x))
    assert str(single(total)) == "out[i0] = bf16(Sum{r8_0}(Mul(f32(x[i0, r8_0]), f32(x[i0, r8_0]))))"


def test_an_explicit_rounding_is_kept() -> None:
    sketch = Sketch()
    x = sketch.input("x", (4,))
    rounded = sketch.apply(Contiguous(f32), sketch.apply(Contiguous(bf16), x))
    assert str(single(rounded)) == "out[i0] = f32(bf16(x[i0]))"


def test_random_bits_are_indexed_by_row_major_position() -> None:
    sketch = Sketch()
    key = sketch.input("key", (2,), u32)
    bits = sketch.apply(Random((3, 5)), key)
    values = {"key": np.array([7, 9], np.uint32)}
    transposed = sketch.move(bits, "permute", (1, 0))
    found = run((single(sketch.apply(Contiguous(i64), transposed)),), values)["out"]
    expected = interpret(Graph((("out", sketch.apply(Contiguous(i64), transposed)),)), values)[0]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("seq", [1, 3, 7])
def test_one_definition_serves_every_size(seq: int) -> None:
    sketch = Sketch()
    dim = Dim("seq", max=64)
    x = sketch.input("x", (as_size(dim), 4))
    total = sketch.apply(SumReduce((0,)), sketch.move(x, "reshape", (as_size(dim * 4),)))
    values = {"x": np.random.default_rng(seq).normal(size=(seq, 4)).astype("f")}
    found = run((single(total),), values, {dim: seq})["out"]
    np.testing.assert_allclose(found, values["x"].sum(), rtol=1e-5)
