"""The inverse of the error function, in f32: what turns uniform numbers into those of a truncated normal distribution."""

from __future__ import annotations

import functools

from snell.frontend import Tensor, log1p, sqrt, where

__all__ = ["inverse_erf"]

# Giles, "Approximating the erfinv function" (2010), the single-precision version: relative error below 4e-7.  Highest
# power first, in w - 2.5 and √w - 3, where w = -ln(1 - x²).
_CENTRE = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 2.1858087e-04, -1.25372503e-03, -4.17768164e-03,
    2.46640727e-01, 1.50140941,
)  # fmt: skip
_TAILS = (
    -2.00214257e-04, 1.00950558e-04, 1.34934322e-03, -3.67342844e-03, 5.73950773e-03, -7.6224613e-03, 9.43887047e-03,
    1.00167406, 2.83297682,
)  # fmt: skip


def inverse_erf(x: Tensor) -> Tensor:
    """y with erf(y) = x, for f32 x in (-1, 1)."""
    w = -log1p(-(x * x))
    return x * where(w < 5.0, _polynomial(_CENTRE, w - 2.5), _polynomial(_TAILS, sqrt(w) - 3.0))


def _polynomial(coefficients: tuple[float, ...], x: Tensor) -> Tensor:
    return functools.reduce(lambda total, c: total * x + c, coefficients[1:], x * 0.0 + coefficients[0])
