"""Every operation and every cast of the emitter against NumPy's exact semantics, scalar and in lanes."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from tests.codegen.kernels import Array, Runner, levels, nest

from snell import dtypes
from snell.codegen.host import host_target
from snell.codegen.literals import literal, rounded
from snell.dtypes import DType, bf16, bool_, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64
from snell.graph.numeric import converted, narrowed, widened
from snell.graph.primitives import Add, LessThan, Mod, Mul, Op, Recip, Sqrt
from snell.loops.ir import Buffer, Kernel, Phase, Store
from snell.rewrite.term import (
    And,
    Cast,
    Divide,
    Equal,
    FloorDivide,
    Maximum,
    Not,
    Select,
    SelectElse,
    Subtract,
    Tensor,
    load,
    term,
)
from snell.symbolic import Axis, as_expr
from snell.targets import Target

INTEGERS = (i8, i16, i32, i64, u8, u16, u32, u64)
FLOATS = (f16, bf16, f32, f64)
PLAIN = (bool_, *INTEGERS, *FLOATS)
SPECIAL = (
    0.0,
    -0.0,
    math.inf,
    -math.inf,
    math.nan,
    1.0,
    -1.0,
    0.5,
    -2.5,
    3.0,
    -7.0,
    1e-40,
    1e30,
    -1e30,
    65504.0,
    65520.0,
)
SCHEDULES = ("i:1", "i:8 i:8v", "i:32 i:16v")


def samples(dtype: DType) -> Array:
    """Edge values and random ones."""
    generator = np.random.default_rng(7)
    if dtype == bool_:
        return generator.integers(0, 2, 40).astype(bool)
    if dtype.is_float:
        values = np.concatenate([SPECIAL, generator.standard_normal(20) * 10, generator.standard_normal(9) * 1e-7])
        return narrowed(values, dtype)
    low, high = (int(bound) for bound in dtype.range)
    edges = [0, 1, 2, 3, 5, 7, low, low + 1, high, high - 1, *([-1, -2, -3, -7] if low else [])]
    drawn = [int(x) for x in generator.integers(low, high, 20, dtype=dtype.numpy)]
    return np.array(edges + drawn, dtype.numpy)


def apply(
    op: Op, operands: list[tuple[DType, Array]], result: DType, schedule: str, target: Target | None = None
) -> Array:
    """`op` on each element, through memory."""
    count = len(operands[0][1])
    i = Axis("i", count)
    tensors = [Tensor(f"x{k}", (count,), dtype) for k, (dtype, _) in enumerate(operands)]
    out = Tensor("out", (count,), result)
    value = term(op, tuple(load(tensor, (as_expr(i),)) for tensor in tensors), result)
    body = nest(levels(schedule, (i,)), Store(out, (as_expr(i),), value))
    buffers = (*(Buffer(t, t.shape) for t in tensors), Buffer(out, out.shape, writable=True))
    arrays = {f"x{k}": np.ascontiguousarray(a) for k, (_, a) in enumerate(operands)}
    arrays["out"] = np.zeros(count, result.numpy)
    Runner(Kernel("op", buffers, (), (Phase((), body),)), target)(arrays)
    return arrays["out"]


def pairs(dtype: DType) -> tuple[Array, Array]:
    values = samples(dtype)
    table = list(itertools.product(values, values))
    return np.array([a for a, _ in table], dtype.numpy), np.array([b for _, b in table], dtype.numpy)


def same(actual: Array, expected: Array) -> None:
    """Equal values, NaN equal to NaN, zeros by value."""
    wide = actual.astype(np.float64) if actual.dtype.kind not in "biu" else actual
    np.testing.assert_array_equal(wide, expected.astype(wide.dtype) if wide.dtype.kind == "f" else expected)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("source", PLAIN, ids=str)
def test_a_cast_rounds_once_saturates_and_wraps_as_the_reference_does(source: DType, schedule: str) -> None:
    values = samples(source)
    for target in PLAIN:
        expected = narrowed(converted(widened(values, source), source, target), target)
        same(apply(Cast(), [(source, values)], target, schedule), expected)


@pytest.mark.parametrize("narrow", [f16, bf16], ids=str)
@pytest.mark.parametrize("has_f16c", [True, False])
def test_every_half_precision_value_survives_widening_and_rounding(narrow: DType, has_f16c: bool) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(narrow.numpy)
    target = _without_f16c() if not has_f16c else None
    wide = apply(Cast(), [(narrow, every)], f32, "i:8 i:8v", target)
    np.testing.assert_array_equal(wide, every.astype(np.float32))
    back = apply(Cast(), [(f32, wide)], narrow, "i:8 i:8v", target)
    finite = ~np.isnan(wide)
    np.testing.assert_array_equal(back.view(np.uint16)[finite], every.view(np.uint16)[finite])
    assert np.isnan(back[~finite].astype(np.float32)).all()


def _without_f16c() -> Target:
    return replace(host_target(), has_f16c=False)


@pytest.mark.parametrize("narrow", [f16, bf16], ids=str)
@pytest.mark.parametrize("wide", [f32, f64], ids=str)
@pytest.mark.parametrize("has_f16c", [True, False])
def test_rounding_to_half_precision_is_to_nearest_even_from_either_width(
    narrow: DType, wide: DType, has_f16c: bool
) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(narrow.numpy).astype(np.float64)
    ordered = np.unique(every[np.isfinite(every)])
    middle = (ordered[1:] + ordered[:-1]) / 2
    values = np.concatenate([middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf)]).astype(wide.numpy)
    expected = np.array([rounded(float(v), narrow) for v in values.astype(np.float64)])
    actual = apply(Cast(), [(wide, values)], narrow, "i:16 i:8v", None if has_f16c else _without_f16c())
    np.testing.assert_array_equal(actual.astype(np.float64), expected)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_arithmetic_wraps_and_divides_with_pythons_signs(dtype: DType, schedule: str) -> None:
    a, b = pairs(dtype)
    low, high = (int(bound) for bound in dtype.range)

    def wrap(value: int) -> int:
        return (value - low) % (high - low + 1) + low

    exact = [(int(x), int(y)) for x, y in zip(a, b, strict=True)]
    table: dict[Op, list[int]] = {
        Add(): [wrap(x + y) for x, y in exact],
        Subtract(): [wrap(x - y) for x, y in exact],
        Mul(): [wrap(x * y) for x, y in exact],
        FloorDivide(): [wrap(x // y) if y else 0 for x, y in exact],
        Mod(): [x % y if y else 0 for x, y in exact],
        Maximum(): [max(x, y) for x, y in exact],
    }
    for op, expected in table.items():
        same(apply(op, [(dtype, a), (dtype, b)], dtype, schedule), np.array(expected, dtype.numpy))
    for op, predicate in ((LessThan(), np.less), (Equal(), np.equal)):
        same(apply(op, [(dtype, a), (dtype, b)], bool_, schedule), predicate(a, b))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_float_arithmetic_follows_numpy_on_special_values(dtype: DType, schedule: str) -> None:
    a, b = pairs(dtype)
    compute = np.float32 if dtype.bits <= 32 else np.float64
    x, y = a.astype(compute), b.astype(compute)
    with np.errstate(all="ignore"):
        table: dict[Op, Array] = {
            Add(): x + y,
            Subtract(): x - y,
            Mul(): x * y,
            Divide(): x / y,
            Maximum(): np.maximum(x, y),
            Mod(): np.mod(x, y),
        }
        for op, expected in table.items():
            actual = apply(op, [(dtype, a), (dtype, b)], dtype, schedule)
            same(actual, expected.astype(dtype.numpy).astype(np.float64))
        same(apply(Recip(), [(dtype, a)], dtype, schedule), (1 / x).astype(dtype.numpy).astype(np.float64))
        same(apply(Sqrt(), [(dtype, a)], dtype, schedule), np.sqrt(x).astype(dtype.numpy).astype(np.float64))
    same(apply(LessThan(), [(dtype, a), (dtype, b)], bool_, schedule), np.less(x, y))
    same(apply(Equal(), [(dtype, a), (dtype, b)], bool_, schedule), np.equal(x, y))


def test_float_modulo_gives_a_zero_the_sign_of_its_divisor() -> None:
    a, b = np.array([4, -4, 0.0, -0.0], np.float32), np.array([-2, 2, -3, 3], np.float32)
    actual = apply(Mod(), [(f32, a), (f32, b)], f32, "i:4v")
    np.testing.assert_array_equal(np.signbit(actual), np.signbit(np.mod(a, b)))


def test_float_modulo_is_exact_for_the_widest_quotients() -> None:
    a = np.array([3.4e38, -3.4e38, 1e38, 7.0, 1e10], np.float32)
    b = np.array([1e-45, 1.7e-38, 3.0, 1e-40, np.pi], np.float32)
    np.testing.assert_array_equal(apply(Mod(), [(f32, a), (f32, b)], f32, "i:8v"), np.mod(a.astype(np.float64), b))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_bool_selects_even_against_infinity_and_nan(schedule: str) -> None:
    mask, values = np.tile([True, False], 18), np.resize(np.array([np.inf, np.nan, 1.0, -np.inf], np.float32), 36)
    expected = np.where(mask, values, np.float32(0))
    same(apply(Mul(), [(bool_, mask), (f32, values)], f32, schedule), expected)
    same(apply(Select(), [(bool_, mask), (f32, values)], f32, schedule), expected)
    other = np.arange(36, dtype=np.float32)
    chosen = apply(SelectElse(), [(bool_, mask), (f32, values), (f32, other)], f32, schedule)
    same(chosen, np.where(mask, values, other))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_bools_combine_and_compare_as_zero_and_one(schedule: str) -> None:
    a, b = (np.array(column) for column in zip(*itertools.product([False, True], repeat=2), strict=True))
    a, b = np.tile(a, 9), np.tile(b, 9)
    for op, expected in ((And(), a & b), (Mul(), a & b), (LessThan(), ~a & b), (Equal(), a == b)):
        same(apply(op, [(bool_, a), (bool_, b)], bool_, schedule), expected)
    same(apply(Not(), [(bool_, a)], bool_, schedule), ~a)


def test_constants_are_rounded_once_from_their_exact_value() -> None:
    tie_and_a_bit = Fraction(1) + Fraction(1, 1 << 24) + Fraction(1, 1 << 60)
    assert rounded(tie_and_a_bit, f32) == float(np.nextafter(np.float32(1), np.float32(2)))
    assert rounded(Fraction(1, 3), f64) == 1 / 3
    assert rounded(10**40, f32) == math.inf
    assert rounded(Fraction(1, 10**46), f32) == 0.0
    assert literal(-1, u8) == "255"
    assert literal(Fraction(1, 2), bf16) == str(0x3F00)
    assert [dtypes.from_name(name) for name in ("f16", "bf16")] == [f16, bf16]
    assert float(ml_dtypes.bfloat16(rounded(Fraction(1, 3), bf16))) == rounded(Fraction(1, 3), bf16)
