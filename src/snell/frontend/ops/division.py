"""Remainders and floor division.

The primitive remainder follows Python's sign rule.  Integer division is exact for every pair of every dtype, though
there is no integer division among the primitives; the compiler recovers the machine's from this spelling.
"""

from __future__ import annotations

from snell.dtypes import f64, i64
from snell.frontend.ops.comparison import absolute, equal, isfinite, less, maximum, where
from snell.frontend.ops.elementwise import astype, negative, reciprocal
from snell.frontend.promotion import apply, known_scalar, meet
from snell.frontend.tensor import Tensor, TensorLike
from snell.graph.primitives import Mod

__all__ = ["floor_divide", "fmod", "modulo"]


def _guard_divisor(result: Tensor, divisor: Tensor) -> None:
    """Record that an integer divisor must not be 0, unless it is known not to be."""
    known = known_scalar(divisor)
    if known:
        return
    is_zero_free = (divisor < 0) | (divisor > 0)
    message = "integer division by zero: the divisor is {value}"
    result.trace.check(is_zero_free.operand, divisor.operand, message, result.operand.node)


def modulo(a: TensorLike, b: TensorLike) -> Tensor:
    """Remainder with the divisor's sign (Python's rule).  Integer modulo 0 is 0 and fails a check."""
    x, y = meet(a, b)
    result = apply(Mod(), x, y)
    if not x.dtype.is_float:
        _guard_divisor(result, y)
    return result


def fmod(a: TensorLike, b: TensorLike) -> Tensor:
    """Remainder with the dividend's sign (C's rule).  Integer remainder by 0 is 0 and fails a check."""
    x, y = meet(a, b)
    if not x.dtype.is_float:
        remainder = modulo(x, y)
        return remainder - _crosses(x, y, remainder) * y
    # |a| mod |b| is exact; the other way round, a small remainder would be lost against b.
    remainder = modulo(maximum(x, negative(x)), absolute(y))  # the derivative at x = 0 is 1, that of |x| would be 0
    return where(less(x, 0), negative(remainder), remainder)


def floor_divide(a: TensorLike, b: TensorLike) -> Tensor:
    """⌊a/b⌋, exact for every pair of integers.  Integer division by 0 is 0 and fails a check; floats follow IEEE."""
    x, y = meet(a, b)
    return _floor_divide_floats(x, y) if x.dtype.is_float else _floor_divide_integers(x, y)


def _floor_divide_floats(a: Tensor, b: Tensor) -> Tensor:
    """The exact multiple (a - a mod b)/b, rounded to the integer it is; a/b itself where b is 0."""
    remainder = fmod(a, b)
    crosses = ((remainder < 0) & (b > 0)) | ((remainder > 0) & (b < 0))
    quotient = (a - remainder) / b - astype(crosses, a.dtype)
    # The quotient is a whole number but for its own rounding.
    nearest = quotient - isfinite(quotient) * (modulo(quotient + 0.5, 1.0) - 0.5)
    return where(equal(b, 0.0), a / b, nearest)


def _crosses(a: Tensor, b: Tensor, remainder: Tensor) -> Tensor:
    """Where Python's remainder and C's differ: the signs of a and b do, and a is no multiple."""
    return ((a < 0) ^ (b < 0)) & ((remainder < 0) | (remainder > 0))


def _floor_divide_integers(a: Tensor, b: Tensor) -> Tensor:
    """⌊a/b⌋ through float64: the multiple a - rem is divided exactly, in two steps where it exceeds float64's integers.

    `rem` has the sign of a, so that a - rem never overflows.  The first quotient is an underestimate by at most 2^-50
    of itself, the second divides what is left, which is an exact multiple below 2^14·b.
    """
    remainder = apply(Mod(), a, b)
    crosses = _crosses(a, b, remainder)
    multiple = a - (remainder - crosses * b)
    inverse = reciprocal(astype(b, f64))
    if a.dtype.bits < 64:
        quotient = astype(astype(multiple, f64) * inverse * (1 + 2.0**-40), i64)
        quotient = astype(quotient, a.dtype)
    else:
        first = astype(astype(multiple, f64) * inverse * (1 - 2.0**-50), a.dtype)
        rest = multiple - first * b
        quotient = first + astype(astype(rest, f64) * inverse * (1 + 2.0**-20), a.dtype)
    is_nonzero = (b < 0) | (b > 0)
    result = is_nonzero * (quotient - astype(crosses, a.dtype))
    _guard_divisor(result, b)
    return result
