"""log, log2 and log1p: x = 2^k·(1 + u) with 1 + u in [2/3, 4/3), a polynomial in u, and k put back in two parts."""

from __future__ import annotations

import math
from typing import Final

from snell.codegen.assembler import Value
from snell.codegen.vector_math import coefficients
from snell.codegen.vector_math.arithmetic import Arithmetic

__all__ = ["log", "log1p", "log2"]

# log2(e) in two parts, the first with half of the significand.
_LOG2_E: Final = {
    "f32": (float.fromhex("0x1.715476p+0"), float.fromhex("0x1.4ae0bfp-26")),
    "f64": (float.fromhex("0x1.71547652b82fep+0"), float.fromhex("0x1.777d0ffda0d24p-56")),
}
_LN2: Final = {
    "f32": (float.fromhex("0x1.62e4p-1"), float.fromhex("0x1.7f7d1cf8p-20")),
    "f64": (float.fromhex("0x1.62e42fefa38p-1"), float.fromhex("0x1.ef35793c7673p-45")),
}
# log1p leaves the 1 away where it cannot matter, and scales there so that 2^-k stays normal.
_LARGE: Final = 2.0**60
_SHRINK: Final = 64


def log(a: Arithmetic, x: Value) -> Value:
    """Natural logarithm; -inf at ±0, NaN below."""
    u, k = _split(a, x)
    return _special(a, x, _natural(a, u, k), pole=0.0)


def log2(a: Arithmetic, x: Value) -> Value:
    """Logarithm to base 2: exact at powers of 2."""
    u, k = _split(a, x)
    high, low = _LOG2_E[a.dtype.name]
    tail = a.mul(a.mul(u, u), a.fma(a.polynomial(u, coefficients.LOG), u, -0.5))
    product = a.mul(u, high)
    error = a.fma(u, high, a.sub(-0.0, product))
    rest = a.fma(tail, high, a.fma(u, low, error))
    return _special(a, x, a.add(k, a.add(product, rest)), pole=0.0)


def log1p(a: Arithmetic, x: Value) -> Value:
    """log(1 + x), relatively accurate at 0: u is formed from x itself, not from the rounded 1 + x."""
    is_large = a.less(_LARGE, x)
    scaled = a.select(is_large, a.mul(x, 2.0**-_SHRINK), x)
    one = a.select(is_large, 0.0, 1.0)
    exponent_bits, k = _exponent(a, a.bits(a.add(scaled, one)), a.select(is_large, float(_SHRINK), 0.0))
    power = a.from_bits(a.integer_op("sub", a.integer(2 * _one_bits(a)), exponent_bits))
    u = a.fma(scaled, power, a.fma(one, power, -1.0))
    return a.with_sign_of(_special(a, x, _natural(a, u, k), pole=-1.0), x)


def _natural(a: Arithmetic, u: Value, k: Value) -> Value:
    """k·ln 2 + log(1 + u)."""
    high, low = _LN2[a.dtype.name]
    quadratic = a.fma(a.polynomial(u, coefficients.LOG), u, -0.5)
    rest = a.fma(a.mul(u, u), quadratic, a.fma(k, low, u))
    return a.fma(k, high, rest)


def _split(a: Arithmetic, x: Value) -> tuple[Value, Value]:
    """u and k of a positive x; denormals are scaled up first."""
    shift = a.format.mantissa + 1
    is_denormal = a.less(x, 2.0 ** (1 - a.format.bias))
    bits = a.bits(a.select(is_denormal, a.mul(x, 2.0**shift), x))
    exponent_bits, k = _exponent(a, bits, a.select(is_denormal, -float(shift), 0.0))
    significand = a.integer_op("add", a.integer_op("sub", bits, exponent_bits), _one_bits(a))
    return a.sub(a.from_bits(significand), 1.0), k


def _exponent(a: Arithmetic, bits: Value, extra: Value) -> tuple[Value, Value]:
    """Biased exponent bits, in place, of x / (2/3), and that exponent, unbiased, plus `extra` as a float."""
    mantissa = a.format.mantissa
    two_thirds = _one_bits(a) - (1 << mantissa) + (1 << mantissa) // 3
    moved = a.integer_op("add", bits, _one_bits(a) - two_thirds)
    biased = a.integer_op("lshr", moved, mantissa)
    # An integer below 2^mantissa, put under the exponent of 2^mantissa, is a float without a conversion.
    magic = (a.format.bias + mantissa) << mantissa
    lifted = a.from_bits(a.integer_op("or", biased, magic))
    k = a.add(a.sub(lifted, 2.0**mantissa + a.format.bias), extra)
    return a.integer_op("shl", biased, mantissa), k


def _one_bits(a: Arithmetic) -> int:
    return a.format.bias << a.format.mantissa


def _special(a: Arithmetic, x: Value, result: Value, pole: float) -> Value:
    """-inf at the pole, NaN below and for NaN, inf at inf."""
    assembler = a.assembler
    finite = a.select(a.less(x, math.inf), result, x)
    outside = a.select(assembler.compare("fcmp", "oeq", x, a.value(pole)), -math.inf, math.nan)
    return a.select(assembler.compare("fcmp", "ole", x, a.value(pole)), outside, finite)
