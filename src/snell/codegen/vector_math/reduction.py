"""Argument reduction by π/2 without branches, for every finite argument: x = (n + f)·π/2, |f| <= 1/2.

f32 computes in f64: x·(2/π)·2^-E·2^E is taken modulo 4 with the constant (2/π)·2^E mod 4 of the argument's range of
exponents, as two f64 values.  f64 multiplies the significand with the bits of 2/π that matter, in integers (Payne &
Hanek, "Radian reduction for trigonometric functions", SIGNUM 1983).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Final

from snell.codegen.assembler import Value
from snell.codegen.vector_math.arithmetic import Arithmetic
from snell.dtypes import f32, f64, i32

__all__ = ["Quarters", "quarters"]


@dataclass(frozen=True, slots=True)
class Quarters:
    """n (its low two bits count), the angle f·π/2, and what the angle's rounding lost (None: not wanted)."""

    count: Value
    angle: Value
    rest: Value | None


# (first |x| of the range, high, low): an integral x/2^E below 2^44 keeps the product's error under 2^-60 of a quarter,
# and the product's last bit under 1/256, so that rounding it hardly widens |f|.
_RANGES: Final = (
    (0.0, float.fromhex("0x1.45f306dc9c883p-1"), float.fromhex("-0x1.6b01ec5417056p-55")),
    (2.0**44, float.fromhex("0x1.b727220a94fe1p-23"), float.fromhex("0x1.d5f47d4d37703p-78")),
    (2.0**65, float.fromhex("0x1.1054a7f09d5f4p-42"), float.fromhex("0x1.f534ddc0db629p-96")),
    (2.0**86, float.fromhex("0x1.fc2757d1f534ep-64"), float.fromhex("-0x1.1f924eb53361ep-119")),
    (2.0**107, float.fromhex("0x1.7d1f534ddc0dbp-84"), float.fromhex("0x1.8a5664f10e410p-138")),
)
_HALF_PI: Final = float.fromhex("0x1.921fb54442d18p+0")
_HALF_PI_LOW: Final = float.fromhex("0x1.1a62633145c07p-54")
# 64 zero bits, then the bits of 2/π behind the binary point.
_TWO_OVER_PI: Final = (
    0x0, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561, 0xB7246E3A424DD2E0,
    0x06492EEA09D1921C, 0xFE1DEB1CB129A73E, 0xE88235F52EBB4484, 0xE99C7026B45F7E41, 0x3991D639835339F4,
    0x9C845F8BBDF9283B, 0x1FF897FFDE05980F, 0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7, 0x4F463F669E5FEA2D,
    0x7527BAC7EBE5F17B, 0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB,
)  # fmt: skip
_WINDOW: Final = 4
_LOW_WORD: Final = 0xFFFFFFFF


def quarters(a: Arithmetic, magnitude: Value, is_exact: bool = False) -> Quarters:
    """Reduce a non-negative argument; inf gives NaN.  `is_exact` asks for the rest in f32 too."""
    if a.dtype == f32:
        return _single(a, magnitude, is_exact)
    return _double(a, magnitude)


def _single(a: Arithmetic, magnitude: Value, is_exact: bool) -> Quarters:
    assembler, wide = a.assembler, Arithmetic(a.assembler, f64, a.lanes)
    x = assembler.convert("fpext", magnitude, f64)
    _, high_first, low_first = _RANGES[0]
    high, low = wide.value(high_first), wide.value(low_first)
    for first, high_here, low_here in _RANGES[1:]:
        is_below = wide.less(x, first)
        high, low = wide.select(is_below, high, high_here), wide.select(is_below, low, low_here)
    product = wide.mul(x, high)
    error = wide.fma(x, low, wide.fma(x, high, wide.sub(-0.0, product)))
    shifted = wide.add(product, wide.format.rounding)
    fraction = wide.add(wide.sub(product, wide.sub(shifted, wide.format.rounding)), error)
    count = assembler.convert("trunc", wide.bits(shifted), i32)
    exact = wide.mul(fraction, _HALF_PI)
    angle = assembler.convert("fptrunc", exact, f32)
    if not is_exact:
        return Quarters(count, angle, None)
    lost = wide.sub(exact, assembler.convert("fpext", angle, f64))
    return Quarters(count, angle, assembler.convert("fptrunc", lost, f32))


def _double(a: Arithmetic, magnitude: Value) -> Quarters:
    bits = a.bits(magnitude)
    # The window begins at the bit of 2/π whose product with the significand's last bit weighs 2: E - 2 behind the
    # point.
    exponent = a.integer_op("lshr", bits, a.format.mantissa)
    start = a.integer_op("sub", exponent, a.format.bias + a.format.mantissa + 2 - 64)
    significand = a.integer_op("or", a.integer_op("and", bits, (1 << 52) - 1), 1 << 52)
    high, low = _product(a, significand, _window(a, start))
    count = a.integer_op("lshr", a.integer_op("add", high, 1 << 61), 62)
    fraction, rest = _fraction(a, a.integer_op("sub", high, a.integer_op("shl", count, 62)), low)
    angle = a.mul(fraction, _HALF_PI)
    error = a.fma(fraction, _HALF_PI, a.sub(-0.0, angle))
    error = a.fma(fraction, _HALF_PI_LOW, a.fma(rest, _HALF_PI, error))
    # Below π/4 there is nothing to reduce (and the window would begin before the table); inf must become NaN.
    is_small = a.less(magnitude, _HALF_PI / 2)
    angle = a.select(is_small, magnitude, a.add(angle, a.sub(magnitude, magnitude)))
    return Quarters(a.select(is_small, a.integer(0), count), angle, a.select(is_small, 0.0, error))


def _window(a: Arithmetic, start: Value) -> list[Value]:
    """The 64-bit words of 2/π from bit `start` on: a barrel shifter, by words and then by bits."""
    words = [a.integer(word) for word in _TWO_OVER_PI]
    index = a.integer_op("lshr", start, 6)
    for step in (16, 8, 4, 2, 1):
        is_set = a.assembler.compare("icmp", "ne", a.integer_op("and", index, step), a.integer(0))
        keep = _WINDOW + step - 1
        words = [
            a.assembler.select(is_set, words[i + step], words[i]) if i + step < len(words) else words[i]
            for i in range(min(keep, len(words)))
        ]
    shift = a.integer_op("and", start, 63)
    # Two shifts, since a shift by 64 is undefined.
    rest = a.integer_op("sub", a.integer(63), shift)
    return [
        a.integer_op("or", a.integer_op("shl", here, shift), a.integer_op("lshr", a.integer_op("lshr", after, 1), rest))
        for here, after in itertools.pairwise(words)
    ]


def _product(a: Arithmetic, significand: Value, window: list[Value]) -> tuple[Value, Value]:
    """Upper 128 of the 192 low bits of significand · window, by 32-bit digits."""
    low, high = a.integer_op("and", significand, _LOW_WORD), a.integer_op("lshr", significand, 32)
    digits = [
        digit for word in window for digit in (a.integer_op("lshr", word, 32), a.integer_op("and", word, _LOW_WORD))
    ]
    products = [a.integer_op("mul", low, digit) for digit in digits]
    sums: list[Value] = []
    carry: Value | None = None
    for i in (4, 3, 2, 1, 0):
        above = a.integer_op("lshr", products[i + 1], 32)
        column = a.integer_op("add", a.integer_op("mul", high, digits[i + 1]), above)
        column = a.integer_op("add", column, a.integer_op("and", products[i], _LOW_WORD))
        column = column if carry is None else a.integer_op("add", column, carry)
        carry = a.integer_op("lshr", column, 32)
        sums.insert(0, column)
    return _joined(a, sums[0], sums[1]), _joined(a, sums[2], sums[3])


def _joined(a: Arithmetic, upper: Value, lower: Value) -> Value:
    """The low halves of two words, side by side."""
    return a.integer_op("or", a.integer_op("shl", upper, 32), a.integer_op("and", lower, _LOW_WORD))


def _fraction(a: Arithmetic, high: Value, low: Value) -> tuple[Value, Value]:
    """The signed 128-bit number (high, low)·2^-126 as a sum of two floats."""
    upper = a.integer_op("lshr", a.integer_op("xor", high, a.format.sign_bit), 32)
    top = a.mul(a.sub(_as_float(a, upper), 2.0**31), 2.0**-30)
    middle = a.mul(_as_float(a, a.integer_op("and", high, _LOW_WORD)), 2.0**-62)
    bottom = a.mul(_as_float(a, a.integer_op("lshr", low, 32)), 2.0**-94)
    last = a.mul(_as_float(a, a.integer_op("and", low, _LOW_WORD)), 2.0**-126)
    total = a.add(top, middle)
    lost = a.add(a.sub(middle, a.sub(total, top)), a.add(bottom, last))
    fraction = a.add(total, lost)
    return fraction, a.sub(lost, a.sub(fraction, total))


def _as_float(a: Arithmetic, small: Value) -> Value:
    """An integer in 0..2^32 as a float: put under the exponent of 2^52."""
    return a.sub(a.from_bits(a.integer_op("or", small, 0x433 << 52)), 2.0**52)
