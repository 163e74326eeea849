"""The reference interpreter: casts, selections, integers, checks, planes, and reductions evaluated three ways."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from tests.graph.programs import Array, Sketch, programs

from snell.dtypes import DType, bf16, bool_, f16, f32, f64, i8, i16, i32, i64, u1, u2, u4, u8, u32
from snell.errors import DTypeError, GraphError, OutOfRangeError, ShapeError
from snell.graph.interpret import interpret
from snell.graph.node import Check, Graph, Operand
from snell.graph.philox import philox_blocks
from snell.graph.planes import unpacked
from snell.graph.primitives import (
    Add,
    Contiguous,
    Exp2,
    LessThan,
    MaxReduce,
    Mod,
    Mul,
    Random,
    Recip,
    Storage,
    SumReduce,
)
from snell.symbolic import Dim, as_size


def one(operand: Operand, **inputs: Any) -> Array:
    return interpret(Graph((("out", operand),)), {name: np.asarray(v) for name, v in inputs.items()})[0]


def cast(values: Any, source: DType, target: DType) -> Array:
    sketch = Sketch()
    array = np.asarray(values, source.numpy)
    return one(sketch.apply(Contiguous(target), sketch.input("x", array.shape, source)), x=array)


@given(programs())
@settings(max_examples=150, deadline=None)
def test_blocks_and_contractions_do_not_change_the_meaning(case: tuple[Graph, dict[str, Array]]) -> None:
    graph, values = case
    plain = interpret(graph, values, contractions=False)
    for options in ({}, {"block_bytes": 64}, {"block_bytes": 64, "contractions": False}):
        for found, expected in zip(interpret(graph, values, **options), plain, strict=True):
            np.testing.assert_allclose(found.astype("d"), expected.astype("d"), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"contractions": False}, {"contractions": False, "block_bytes": 4096}])
def test_a_batched_matrix_product_over_a_symbolic_axis(options: dict[str, Any]) -> None:
    sketch, generator = Sketch(), np.random.default_rng(0)
    seq = Dim("seq", max=64)
    a, b = sketch.input("a", (3, as_size(seq), 8)), sketch.input("b", (3, 8, 5))
    wide = (3, as_size(seq), 8, 5)
    left = sketch.move(sketch.move(a, "reshape", (3, as_size(seq), 8, 1)), "expand", wide)
    right = sketch.move(sketch.move(b, "reshape", (3, 1, 8, 5)), "expand", wide)
    total = sketch.apply(SumReduce((2,)), sketch.apply(Mul(), left, right))
    values = {"a": generator.normal(size=(3, 7, 8)).astype("f"), "b": generator.normal(size=(3, 8, 5)).astype("f")}
    (found,) = interpret(Graph((("y", total),)), values, **options)
    np.testing.assert_allclose(found, np.matmul(values["a"].astype("d"), values["b"]), rtol=1e-6)


def test_arithmetic_is_rounded_only_at_explicit_casts_and_at_the_ends() -> None:
    sketch = Sketch()
    x = sketch.input("x", (1,))
    grown = sketch.apply(Add(), x, sketch.constant(1e8, f32, (1,)))
    back = sketch.apply(Add(), grown, sketch.constant(-1e8, f32, (1,)))
    assert one(back, x=np.float32([0.125])) == 0.125
    stored = sketch.apply(Contiguous(f32), sketch.apply(Contiguous(bf16), x))
    assert one(stored, x=np.float32([1.01])) == np.float32(ml_dtypes.bfloat16(1.01))


def test_float_to_integer_truncates_saturates_and_maps_nan_to_zero() -> None:
    values = [1.9, -1.9, 1e20, -1e20, np.nan, np.inf, -np.inf, 127.5, -128.5]
    assert cast(values, f32, i8).tolist() == [1, -1, 127, -128, 0, 127, -128, 127, -128]
    assert cast(values, f32, u8).tolist() == [1, 0, 255, 0, 0, 255, 0, 127, 0]
    assert cast([2.0**63, -(2.0**63), 2.0**62], f64, i64).tolist() == [2**63 - 1, -(2**63), 2**62]


def test_integer_casts_wrap_and_to_bool_compare_with_zero() -> None:
    assert cast([300, -1, 128], i32, u8).tolist() == [44, 255, 128]
    assert cast([128, 255], u8, i8).tolist() == [-128, -1]
    assert cast([0, 3, -1], i32, bool_).tolist() == [False, True, True]
    assert cast([2**24 + 1], i64, f32).tolist() == [2**24]
    assert cast([70000.0], f32, f16).tolist() == [np.inf]


def test_multiplying_by_bool_selects_whatever_the_other_holds() -> None:
    sketch = Sketch()
    x = sketch.input("x", (4,))
    kept = sketch.apply(Mul(), sketch.input("c", (4,), bool_), x)
    found = one(kept, x=np.float32([np.nan, np.inf, 2, np.nan]), c=[False, False, True, True])
    np.testing.assert_array_equal(found, [0, 0, 2, np.nan])


def test_modulo_has_the_divisors_sign_and_is_zero_by_zero() -> None:
    sketch = Sketch()
    remainder = sketch.apply(Mod(), sketch.input("a", (5,), i32), sketch.input("b", (5,), i32))
    least = -(2**31)
    assert one(remainder, a=np.int32([-7, 7, 5, least, 0]), b=np.int32([2, -2, 0, -1, 3])).tolist() == [1, -1, 0, 0, 0]


def test_integers_wrap_in_their_dtype() -> None:
    sketch = Sketch()
    x = sketch.input("x", (2,), i8)
    assert one(sketch.apply(SumReduce((0,)), x), x=np.int8([100, 100])) == -56
    assert one(sketch.apply(Mul(), x, x), x=np.int8([100, 3])).tolist() == [16, 9]


def test_maximum_propagates_nan_and_has_an_identity() -> None:
    sketch = Sketch()
    x = sketch.input("x", (2, 3))
    top = sketch.apply(MaxReduce((1,)), x)
    np.testing.assert_array_equal(one(top, x=np.float32([[1, np.nan, 3], [-1, -2, -3]])), [np.nan, -1])
    size = as_size(Dim("n", min=0, max=4))
    empty = sketch.apply(MaxReduce((0,)), sketch.input("e", (size,), i16))
    assert one(empty, e=np.zeros(0, np.int16)) == -(2**15)
    assert one(sketch.apply(SumReduce((0,)), sketch.input("s", (size,))), s=np.zeros(0, np.float32)) == 0


def test_comparison_is_false_on_nan_and_division_by_zero_is_signed() -> None:
    sketch = Sketch()
    x, y = sketch.input("x", (2,)), sketch.input("y", (2,))
    less = sketch.apply(LessThan(), x, y)
    assert one(less, x=np.float32([np.nan, 1]), y=np.float32([1, 2])).tolist() == [False, True]
    assert one(sketch.apply(Recip(), x), x=np.float32([0.0, -0.0])).tolist() == [np.inf, -np.inf]


def test_a_failing_check_is_raised_with_its_value() -> None:
    sketch = Sketch()
    ids = sketch.input("ids", (3,), i64)
    condition = sketch.apply(LessThan(), ids, sketch.constant(10, i64, (3,)))
    graph = Graph((("y", ids),), (Check(condition, ids, "index out of range for 10 rows"),))
    assert interpret(graph, {"ids": np.array([1, 2, 9])})[0].tolist() == [1, 2, 9]
    with pytest.raises(OutOfRangeError, match="index out of range for 10 rows: 12"):
        interpret(graph, {"ids": np.array([1, 12, 11])})


def test_wrong_inputs_are_named() -> None:
    graph = Graph((("y", Sketch().input("x", (2, 3))),))
    with pytest.raises(GraphError, match="input 'x' was not given"):
        interpret(graph, {})
    with pytest.raises(ShapeError, match=r"input 'x' expected shape \(2, 3\)"):
        interpret(graph, {"x": np.zeros((3, 2), np.float32)})
    with pytest.raises(DTypeError, match="input 'x' expected f32, received float64"):
        interpret(graph, {"x": np.zeros((2, 3))})


@pytest.mark.parametrize(("counter", "key", "words"), [
    ((0, 0, 0, 0), (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0), "d16cfe09 94fdcceb 5001e420 24126ea1"),
])  # fmt: skip
def test_philox_gives_the_published_words(counter: tuple[int, ...], key: tuple[int, int], words: str) -> None:
    found = philox_blocks(np.array(counter, np.uint32), key)
    assert " ".join(f"{word:08x}" for word in found) == words


def test_a_random_element_depends_on_its_row_major_index_alone() -> None:
    sketch = Sketch()
    key = sketch.input("key", (2,), u32)
    square, row = (one(sketch.apply(Random(s), key), key=np.uint32([1, 2])) for s in ((3, 7), (21,)))
    np.testing.assert_array_equal(square.reshape(-1), row)
    block = philox_blocks(np.array([2, 0, 0, 0], np.uint32), (1, 2))
    np.testing.assert_array_equal(row[8:12], block)


@pytest.mark.parametrize("dtype", [u1, u2, u4, u8, i8, f16, bf16, f32])
def test_planes_unpack_fields_at_bit_strides(dtype: DType) -> None:
    raw = np.random.default_rng(3).integers(0, 255, 64).astype(np.uint8)
    found = unpacked(raw, Storage(4, (128, dtype.bits)), (3, 4), dtype)
    for i in range(3):
        for k in range(4):
            bit = 8 * 4 + 128 * i + dtype.bits * k
            word = int.from_bytes(raw[bit // 8 : bit // 8 + 4].tobytes(), "little") >> (bit % 8)
            field = word & ((1 << dtype.bits) - 1)
            expected = np.asarray(field, f"u{max(1, dtype.bits // 8)}").reshape(1).view(dtype.numpy)[0]
            assert found[i, k].tobytes() == expected.tobytes()


def test_a_plane_beyond_its_bytes_is_refused() -> None:
    with pytest.raises(ShapeError, match="ends at bit 40, but the array has 4 bytes"):
        unpacked(np.zeros(4, np.uint8), Storage(1, (8,)), (4,), u8)


def test_a_plane_input_is_given_as_its_bytes() -> None:
    sketch = Sketch()
    plane = sketch.input("w", (4,), u4, storage=Storage(0, (4,)))
    wide = sketch.apply(Contiguous(i32), plane)
    assert one(wide, w=np.uint8([0x21, 0x43])).tolist() == [1, 2, 3, 4]


def test_deep_graphs_do_not_exhaust_the_stack() -> None:
    sketch = Sketch()
    value = sketch.input("x", (1,))
    for _ in range(3000):
        value = sketch.apply(Add(), value, sketch.constant(1, f32, (1,)))
    assert one(sketch.apply(Exp2(), sketch.apply(Mul(), value, sketch.constant(0, f32, (1,)))), x=np.float32([0])) == 1
