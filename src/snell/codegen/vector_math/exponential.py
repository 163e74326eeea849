"""exp2, exp, expm1 and what is made of them: sinh, cosh, tanh and sigmoid.

A power 2^n is multiplied on by the target's instruction, or in two steps, the first away from the end of the range that
the argument's sign points to: overflow gives inf, and denormal results are rounded once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from snell.codegen.assembler import Value
from snell.codegen.vector_math import coefficients
from snell.codegen.vector_math.arithmetic import Arithmetic

__all__ = ["cosh", "exp", "exp2", "expm1", "sigmoid", "sinh", "tanh"]


@dataclass(frozen=True, slots=True)
class _Limits:
    """Where exponentials end in a dtype.

    `log2_max`: 2^x overflows from here on; `log2_min`: rounds to 0 below; `max` and `min`: the same for e^x;
    `one`: |x| from which e^-x vanishes beside 1; `ln2_high` has trailing zeros, so that n·ln2_high is exact.
    """

    log2_max: float
    log2_min: float
    max: float
    min: float
    one: float
    ln2_high: float
    ln2_low: float


# ln 2 in two parts after Cody & Waite, Software Manual for the Elementary Functions (1980).
_LIMITS: Final = {
    "f32": _Limits(128.0, -150.0, 89.0, -104.0, 18.0, float.fromhex("0x1.62e4p-1"), float.fromhex("0x1.7f7d1cf8p-20")),
    "f64": _Limits(
        1024.0, -1075.0, 710.0, -746.0, 40.0,
        float.fromhex("0x1.62e42fefa38p-1"), float.fromhex("0x1.ef35793c7673p-45"),
    ),
}  # fmt: skip
_LOG2_E: Final = 1.4426950408889634


def exp2(a: Arithmetic, x: Value) -> Value:
    """2^x."""
    limits = _LIMITS[a.dtype.name]
    x = a.at_least(a.at_most(x, limits.log2_max), limits.log2_min)
    shifted, whole = _nearest_integer(a, a.add(x, a.format.rounding + 2 * a.format.bias))
    fraction = a.sub(x, whole)
    return _scale(a, a.fma(a.polynomial(fraction, coefficients.EXP2), fraction, 1.0), shifted, whole, x)


def exp(a: Arithmetic, x: Value, halvings: int = 0) -> Value:
    """e^x / 2^halvings; the division keeps sinh and cosh in range where e^x overflows."""
    limits = _LIMITS[a.dtype.name]
    x = a.at_least(a.at_most(x, limits.max + halvings), limits.min)
    shifted, whole, fraction = _reduce(a, x)
    if halvings:
        shifted, whole = a.integer_op("sub", shifted, halvings), a.sub(whole, float(halvings))
    tail = a.fma(a.polynomial(fraction, coefficients.EXP), fraction, 1.0)
    return _scale(a, a.fma(tail, fraction, 1.0), shifted, whole, x)


def expm1(a: Arithmetic, x: Value) -> Value:
    """e^x - 1, relatively accurate at 0."""
    return a.with_sign_of(_expm1(a, x), x)


def sinh(a: Arithmetic, x: Value) -> Value:
    """(e^x - e^-x) / 2: a polynomial below 1, the definition above."""
    magnitude, square = a.magnitude(x), a.mul(x, x)
    half = exp(a, magnitude, halvings=1)
    large = a.sub(half, a.div(0.25, half))
    small = a.fma(a.mul(a.polynomial(square, coefficients.SINH), square), magnitude, magnitude)
    return a.with_sign_of(a.select(a.less(magnitude, 1.0), small, large), x)


def cosh(a: Arithmetic, x: Value) -> Value:
    """(e^x + e^-x) / 2."""
    half = exp(a, a.magnitude(x), halvings=1)
    return a.add(half, a.div(0.25, half))


def tanh(a: Arithmetic, x: Value) -> Value:
    """A polynomial below 0.625, 1 - 2/(e^2|x| + 1) above, where that loses nothing."""
    magnitude, square = a.magnitude(x), a.mul(x, x)
    small = a.fma(a.mul(a.polynomial(square, coefficients.TANH), square), magnitude, magnitude)
    bounded = a.at_most(magnitude, _LIMITS[a.dtype.name].one)
    large = a.sub(1.0, a.div(2.0, a.add(exp(a, a.add(bounded, bounded)), 1.0)))
    return a.with_sign_of(a.select(a.less(magnitude, 0.625), small, large), x)


def sigmoid(a: Arithmetic, x: Value) -> Value:
    """1 / (1 + e^-x), as e^x / (1 + e^x) for negative x so that small results keep their relative accuracy."""
    decay = exp(a, a.from_bits(a.integer_op("or", a.bits(x), a.format.sign_bit)))
    return a.div(a.select(a.is_negative(x), decay, 1.0), a.add(decay, 1.0))


def _expm1(a: Arithmetic, x: Value) -> Value:
    limits = _LIMITS[a.dtype.name]
    x = a.at_least(a.at_most(x, limits.max), -limits.one)
    shifted, _, fraction = _reduce(a, x)
    minus_one = a.fma(a.mul(a.polynomial(fraction, coefficients.EXP), fraction), fraction, fraction)
    # In halves, since 2^n overflows one step before e^x does: 2·(2^(n-1)·(e^r - 1) + (2^(n-1) - 1/2)).
    half = a.from_bits(a.integer_op("shl", a.integer_op("sub", shifted, a.format.bias + 1), a.format.mantissa))
    result = a.fma(minus_one, half, a.sub(half, 0.5))
    return a.add(result, result)


def _reduce(a: Arithmetic, x: Value) -> tuple[Value, Value, Value]:
    """x = n·ln 2 + r: the shifted n (see `_nearest_integer`), n as a float, and r."""
    limits = _LIMITS[a.dtype.name]
    shifted, whole = _nearest_integer(a, a.fma(x, _LOG2_E, a.format.rounding + 2 * a.format.bias))
    return shifted, whole, a.fma(whole, -limits.ln2_low, a.fma(whole, -limits.ln2_high, x))


def _nearest_integer(a: Arithmetic, shifted: Value) -> tuple[Value, Value]:
    """From t = x + 1.5·2^mantissa + 2·bias: bits whose low part is round(x) + 2·bias, and round(x) as a float."""
    return a.bits(shifted), a.sub(shifted, a.format.rounding + 2 * a.format.bias)


def _scale(a: Arithmetic, significand: Value, shifted: Value, whole: Value, x: Value) -> Value:
    """significand · 2^n for significands near 1: `whole` is n, `shifted` holds n + 2·bias in its low bits; x has n's sign."""
    scaled = a.scaled(significand, whole)
    if scaled is not None:
        return scaled
    back = a.select(a.is_negative(x), 2.0 ** -(a.format.mantissa + 10), 4.0)
    exponent = a.integer_op("shl", shifted, a.format.mantissa)
    away = a.from_bits(a.integer_op("sub", exponent, a.bits(back)))
    return a.mul(a.mul(significand, away), back)
