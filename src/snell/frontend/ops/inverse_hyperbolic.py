"""Inverse hyperbolic functions, accurate near 0 and without overflow."""

from __future__ import annotations

from snell.frontend.ops.comparison import maximum, where
from snell.frontend.ops.elementwise import LN_2, log, log1p, negative, sqrt, square
from snell.frontend.promotion import promote_float
from snell.frontend.tensor import Tensor, TensorLike

__all__ = ["acosh", "asinh", "atanh"]


def asinh(x: TensorLike) -> Tensor:
    """Inverse hyperbolic sine, ln(|x| + √(x²+1)) with the sign of x."""
    (y,) = promote_float(x)
    magnitude = maximum(y, negative(y))  # |y| with the derivative 1 at 0
    # log1p(a + a²/(1 + √(a²+1))) keeps small arguments; above 2²⁶ the square would overflow first where √ is a itself.
    large = magnitude > 2.0**26
    inner = magnitude + square(magnitude) / (1.0 + sqrt(square(magnitude) + 1.0))
    value = where(large, log(magnitude) + LN_2, log1p(inner))
    return where(y < 0, -value, value)


def acosh(x: TensorLike) -> Tensor:
    """Inverse hyperbolic cosine; NaN below 1."""
    (y,) = promote_float(x)
    t = y - 1.0
    large = y > 2.0**26
    # Two roots: the product of a very negative t and t + 2 would overflow to +inf, where the answer is NaN.
    return where(large, log(y) + LN_2, log1p(t + sqrt(t) * sqrt(t + 2.0)))


def atanh(x: TensorLike) -> Tensor:
    """Inverse hyperbolic tangent; ±inf at ±1, NaN outside."""
    (y,) = promote_float(x)
    return 0.5 * (log1p(y) - log1p(-y))
