"""asin, acos and atan: a polynomial near 0, other arguments brought there by the half angle or the angle difference."""

from __future__ import annotations

import math
from typing import Final

from snell.codegen.assembler import Value
from snell.codegen.vector_math import coefficients
from snell.codegen.vector_math.arithmetic import Arithmetic

__all__ = ["acos", "asin", "atan"]

# π/2 as the sum of two values of the dtype.
_HALF_PI: Final = {
    "f32": (float.fromhex("0x1.921fb6p+0"), float.fromhex("-0x1.777a5cp-25")),
    "f64": (float.fromhex("0x1.921fb54442d18p+0"), float.fromhex("0x1.1a62633145c07p-54")),
}


def asin(a: Arithmetic, x: Value) -> Value:
    """Arc sine; NaN outside [-1, 1]."""
    root, tail, is_large = _asin_core(a, x)
    return a.with_sign_of(a.select(is_large, _minus(a, 1.0, 2.0, root, tail), a.add(root, tail)), x)


def acos(a: Arithmetic, x: Value) -> Value:
    """Arc cosine; NaN outside [-1, 1]."""
    root, tail, is_large = _asin_core(a, x)
    double = a.mul(a.add(root, tail), 2.0)
    large = a.select(a.is_negative(x), _minus(a, 2.0, 2.0, root, tail), double)
    near = _minus(a, 1.0, 1.0, a.with_sign_of(root, x), a.with_sign_of(tail, x))
    return a.select(is_large, large, near)


def atan(a: Arithmetic, x: Value) -> Value:
    """Arc tangent: beyond tan(3π/8) from -1/x, beyond tan(π/8) from (x-1)/(x+1)."""
    magnitude = a.magnitude(x)
    is_far, is_middle = a.less(1 + math.sqrt(2), magnitude), a.less(math.sqrt(2) - 1, magnitude)
    numerator = a.select(is_far, -1.0, a.select(is_middle, a.sub(magnitude, 1.0), magnitude))
    denominator = a.select(is_far, magnitude, a.select(is_middle, a.add(magnitude, 1.0), 1.0))
    high, low = _HALF_PI[a.dtype.name]
    base = a.select(is_far, high, a.select(is_middle, high / 2, 0.0))
    rest = a.select(is_far, low, a.select(is_middle, low / 2, 0.0))
    t = a.div(numerator, denominator)
    square = a.mul(t, t)
    curved = a.fma(a.mul(a.polynomial(square, coefficients.ATAN), square), t, rest)
    return a.with_sign_of(a.add(base, a.add(t, curved)), x)


def _asin_core(a: Arithmetic, x: Value) -> tuple[Value, Value, Value]:
    """asin(root) = root + tail for root = |x| up to 0.5, else √((1-|x|)/2), half the complement's angle; and which."""
    magnitude = a.magnitude(x)
    is_large = a.less(0.5, magnitude)
    square = a.select(is_large, a.fma(magnitude, -0.5, 0.5), a.mul(x, x))
    root = a.select(is_large, a.sqrt(square), magnitude)
    return root, a.mul(a.mul(a.polynomial(square, coefficients.ASIN), square), root), is_large


def _minus(a: Arithmetic, quarters: float, factor: float, root: Value, tail: Value) -> Value:
    """quarters·π/2 - factor·(root + tail), with π/2 to twice the precision and the large terms first."""
    high, low = _HALF_PI[a.dtype.name]
    return a.add(a.fma(root, -factor, quarters * high), a.fma(tail, -factor, quarters * low))
