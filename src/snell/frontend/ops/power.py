"""Powers: a known small exponent is a few products; otherwise exp2(b·log2|a|) with IEEE's special cases.

Within 1 ULP in float32 and narrower.  In float64, which has no wider dtype, the error grows with |b·log2 a|, to 2¹⁰ ULP.
Integers to integer powers are products of squares, and wrap.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from snell.dtypes import bf16, f16, f32, f64
from snell.errors import DTypeError
from snell.frontend.custom import differentiated_as
from snell.frontend.ops.comparison import equal, isinf, less, logical_and, logical_not, logical_or, where
from snell.frontend.ops.division import modulo
from snell.frontend.ops.elementwise import astype, exp2, log2, multiply, negative, reciprocal, sqrt, square
from snell.frontend.ops.rounding import floor
from snell.frontend.promotion import known_scalar, lift, meet, scalar_like
from snell.frontend.tensor import Tensor, TensorLike

__all__ = ["power"]

LARGEST_UNROLLED = 64


def power(a: TensorLike, b: TensorLike) -> Tensor:
    """a**b.  1 for b = 0 or a = 1 whatever the other; NaN for a negative base and a fraction.

    Integers with integers stay integers and wrap; a negative known exponent needs floats (DTypeError).
    """
    base, exponent = lift(a, b)
    known = known_scalar(exponent) if exponent.weak and exponent.ndim == 0 else None
    if known is not None and base.dtype.is_float and not (isinstance(known, float) and not math.isfinite(known)):
        simple = _known_power(base, Fraction(known))
        if simple is not None:
            return simple
    x, y = meet(base, exponent)
    if x.dtype.is_float:
        return _float_power(x, y)
    if x.dtype.kind == "bool":
        raise DTypeError("power expected numbers, received bool; cast to an integer first")
    return _integer_power(x, y)


def _known_power(x: Tensor, exponent: Fraction) -> Tensor | None:
    if exponent == Fraction(1, 2):
        return sqrt(x)
    if exponent == Fraction(-1, 2):
        return reciprocal(sqrt(x))
    if exponent.denominator != 1 or abs(exponent) > LARGEST_UNROLLED:
        return None
    count = abs(int(exponent))
    if count == 0:
        return scalar_like(x, 1).expand(x.shape)
    result, factor = None, x
    while count:
        if count & 1:
            result = factor if result is None else multiply(result, factor)
        count >>= 1
        factor = square(factor) if count else factor
    assert result is not None  # the loop runs at least once
    return result if exponent > 0 else reciprocal(result)


def _float_power(a: Tensor, b: Tensor) -> Tensor:
    """The value with IEEE's special cases, which the derivative has none of but at a = 0."""
    is_whole = equal(floor(b), b)
    half = multiply(b, 0.5)
    is_odd = logical_and(is_whole, logical_not(equal(floor(half), half)))
    below = less(a, 0.0)
    # The reciprocal shows the sign of a zero, which an odd power keeps.
    is_signed = logical_or(below, less(reciprocal(a), 0.0))
    undefined = logical_and(logical_and(below, less(-math.inf, a)), logical_not(is_whole))
    size = where(is_signed, negative(a), a)
    magnitude = _magnitude(size, b)

    def signed(positive: Tensor) -> Tensor:
        return where(logical_and(is_signed, is_odd), negative(positive), positive)

    value = where(undefined, math.nan, signed(magnitude))
    unit = logical_or(equal(a, 1.0), logical_and(equal(a, -1.0), isinf(b)))
    # The first power is a itself: near the greatest float the rounded logarithm would overflow.
    value = where(logical_or(equal(b, 0.0), unit), 1.0, where(equal(b, 1.0), a, value))
    smooth = where(equal(a, 0.0), _at_zero(a, size, b, signed), signed(magnitude))
    return differentiated_as(value, where(undefined, multiply(a, math.nan), smooth))


def _magnitude(size: Tensor, b: Tensor) -> Tensor:
    """size^b, worked out in the next wider dtype: what rounding the logarithm loses, the exponent magnifies."""
    wide = {f16: f32, bf16: f32, f32: f64}.get(size.dtype, size.dtype)
    return astype(exp2(multiply(astype(b, wide), log2(astype(size, wide)))), size.dtype)


def _at_zero(a: Tensor, size: Tensor, b: Tensor, signed: Callable[[Tensor], Tensor]) -> Tensor:
    """What has the derivative of a^b at a = 0, where that of the logarithm is none: inf below 1, -inf below 0."""
    above = where(equal(b, 1.0), a, where(equal(b, 2.0), square(a), 0.0))
    below_one = where(less(b, 0.0), signed(reciprocal(size)), where(equal(b, 0.0), 1.0, sqrt(size)))
    return where(less(b, 1.0), below_one, above)


def _integer_power(a: Tensor, b: Tensor) -> Tensor:
    """Products of the squares that the exponent's bits select; 0 for a negative exponent, except of ±1."""
    known = known_scalar(b)
    if known is not None and known < 0:
        raise DTypeError(f"an integer to the power {known} is no integer; cast the base to a float first")
    result, factor = scalar_like(a, 1).expand(a.shape), a
    bits = int(known).bit_length() if known is not None else b.dtype.bits - (b.dtype.kind == "int")
    for k in range(bits):
        if known_scalar(factor) == 0:
            result = where(less(b, 1 << k), result, 0)  # every higher bit multiplies by 0
            break
        result = where(_has_bit(b, k), multiply(result, factor), result)
        factor = _squared(factor) if k + 1 < bits else factor
    if b.dtype.kind == "uint":
        return result
    is_unit = logical_or(equal(a, 1), equal(a, -1)) if a.dtype.kind == "int" else equal(a, 1)
    return multiply(logical_or(logical_not(less(b, 0)), is_unit), result)


def _squared(factor: Tensor) -> Tensor:
    """The square; of a constant a constant, wrapped to its dtype."""
    known = known_scalar(factor)
    if known is None:
        return square(factor)
    low, _ = factor.dtype.range
    wrapped = (int(known) ** 2 - int(low)) % (1 << factor.dtype.bits) + int(low)
    return scalar_like(factor, wrapped).expand(factor.shape)


def _has_bit(b: Tensor, bit: int) -> Tensor:
    if bit + 1 < b.dtype.bits - 1:
        return logical_not(less(modulo(b, 1 << (bit + 1)), 1 << bit))
    return _has_top_bit(b, bit)


def _has_top_bit(b: Tensor, bit: int) -> Tensor:
    """Bit `bit` where 2^(bit+1) does not fit the dtype."""
    if b.dtype.kind == "uint" and bit + 1 < b.dtype.bits:
        return logical_not(less(modulo(b, 1 << (bit + 1)), 1 << bit))
    return logical_not(less(b, 1 << bit))
