"""Rounding to integers, exact for every float: huge values, ±inf and NaN stay as they are.

All come from x mod 1, which is exact; the mask selects it for finite x only.
"""

from __future__ import annotations

from snell.frontend.ops.comparison import equal, isfinite, less, logical_and, logical_or
from snell.frontend.ops.division import modulo
from snell.frontend.ops.elementwise import add, astype, multiply, negative, subtract
from snell.frontend.promotion import as_tensor
from snell.frontend.tensor import Tensor, TensorLike

__all__ = ["ceil", "floor", "round", "trunc"]


def _fraction(x: Tensor) -> Tensor:
    """x - ⌊x⌋; 0 for ±inf and NaN."""
    return multiply(isfinite(x), modulo(x, 1.0))


def floor(x: TensorLike) -> Tensor:
    """The greatest integer not above x, in the dtype of x; integers as they are."""
    tensor = as_tensor(x)
    return subtract(tensor, _fraction(tensor)) if tensor.dtype.is_float else tensor


def ceil(x: TensorLike) -> Tensor:
    """The least integer not below x, in the dtype of x; integers as they are."""
    tensor = as_tensor(x)
    return negative(floor(negative(tensor))) if tensor.dtype.is_float else tensor


def trunc(x: TensorLike) -> Tensor:
    """x without its fraction (towards 0), in the dtype of x; integers as they are."""
    tensor = as_tensor(x)
    if not tensor.dtype.is_float:
        return tensor
    down = floor(tensor)
    up = logical_and(less(tensor, 0.0), less(down, tensor))
    return add(down, astype(up, tensor.dtype))


def round(x: TensorLike) -> Tensor:
    """The nearest integer, halves to the even one, in the dtype of x; integers as they are."""
    tensor = as_tensor(x)
    if not tensor.dtype.is_float:
        return tensor
    fraction, down = _fraction(tensor), floor(tensor)
    odd = equal(modulo(down, 2.0), 1.0)
    up = logical_or(less(0.5, fraction), logical_and(equal(fraction, 0.5), odd))
    return add(down, astype(up, tensor.dtype))
