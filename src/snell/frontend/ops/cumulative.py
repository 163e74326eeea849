"""Cumulative operations along an axis, two-level: inside blocks of 64, then over the totals of the blocks.

Inside a block each element takes in the one 1, 2, 4, … places before it (Hillis and Steele, 1986), so a running value
costs 7 operations an element (and log₆₄ n levels), whatever the extent, which may be a Dim.  Sums and products of f16
and bf16 accumulate in f32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from snell.dtypes import bool_, i64, u64
from snell.errors import DTypeError
from snell.frontend.ops.comparison import maximum, reversed_order
from snell.frontend.ops.elementwise import add, astype, multiply, wide
from snell.frontend.ops.joining import pad
from snell.frontend.ops.movement import crop, flatten, movedim, reshape, unsqueeze
from snell.frontend.ops.reduction import prod, raw_max, raw_sum
from snell.frontend.promotion import DTypeLike, as_tensor
from snell.frontend.shapes import normal_axis
from snell.frontend.tensor import Tensor, TensorLike
from snell.symbolic import as_expr, as_size

__all__ = ["cummax", "cummin", "cumprod", "cumsum"]

BLOCK = 64


@dataclass(frozen=True, slots=True)
class _Scan:
    """An associative operation: of two values, over nothing, and over a whole axis."""

    combine: Callable[[Tensor, Tensor], Tensor]
    neutral: float
    total: Callable[[Tensor, int], Tensor]

    def along(self, x: Tensor, axis: int) -> Tensor:
        """The running values, each element's own included."""
        return movedim(self._over(movedim(x, axis, -1), exclusive=False), -1, axis)

    def before(self, x: Tensor, axis: int) -> Tensor:
        """The running values, each element's own left out."""
        return movedim(self._over(movedim(x, axis, -1), exclusive=True), -1, axis)

    def _over(self, x: Tensor, *, exclusive: bool) -> Tensor:
        extent = as_expr(x.shape[-1])
        if extent.bounds()[1] <= BLOCK:
            return self._within(x, exclusive)
        count = (extent + (BLOCK - 1)) // BLOCK
        padded = pad(x, [(0, as_size(count * BLOCK - extent))], self.neutral)
        blocks = reshape(padded, [*x.shape[:-1], as_size(count), BLOCK])
        before = self._over(self.total(blocks, -1), exclusive=True)
        joined = self.combine(self._within(blocks, exclusive), unsqueeze(before, -1))
        return crop(reshape(joined, padded.shape), -1, 0, x.shape[-1])

    def _within(self, x: Tensor, exclusive: bool) -> Tensor:
        """Along the last axis, of at most a block."""
        longest, reach = as_expr(x.shape[-1]).bounds()[1], 1
        if exclusive:
            x = self._shifted(x, 1)
        while reach < longest:
            x, reach = self.combine(x, self._shifted(x, reach)), reach * 2
        return x

    def _shifted(self, x: Tensor, places: int) -> Tensor:
        """Each element's predecessor `places` before it, the neutral value where there is none."""
        return crop(pad(x, [(places, 0)], self.neutral), -1, 0, x.shape[-1])


_SUM = _Scan(add, 0, raw_sum)
_PRODUCT = _Scan(multiply, 1, prod)


def _accumulable(x: Tensor, dtype: DTypeLike | None) -> Tensor:
    if dtype is not None:
        return astype(x, dtype)
    return x if x.dtype.is_float or x.dtype == u64 else astype(x, i64)


def cumsum(
    x: TensorLike, axis: int | None = None, dtype: DTypeLike | None = None, *, exclusive: bool = False
) -> Tensor:
    """Sums of all elements up to each one (before it, if `exclusive`); integers and bool add up in i64.

    With no axis the tensor is flattened.
    """
    tensor = as_tensor(x)
    if axis is None:
        return cumsum(flatten(tensor), 0, dtype, exclusive=exclusive)
    terms = _accumulable(tensor, dtype)
    scan = _SUM.before if exclusive else _SUM.along
    return astype(scan(wide(terms), normal_axis(axis, tensor.ndim)), terms.dtype)


def cumprod(x: TensorLike, axis: int | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """Products of all elements up to each one; integers and bool multiply in i64.

    With no axis the tensor is flattened.
    """
    tensor = as_tensor(x)
    if axis is None:
        return cumprod(flatten(tensor), 0, dtype)
    factors = _accumulable(tensor, dtype)
    return astype(_PRODUCT.along(wide(factors), normal_axis(axis, tensor.ndim)), factors.dtype)


def cummax(x: TensorLike, axis: int) -> Tensor:
    """The greatest element so far, NaN from the first NaN on."""
    tensor = _number(as_tensor(x))
    return _Scan(maximum, tensor.dtype.lowest, raw_max).along(tensor, normal_axis(axis, tensor.ndim))


def cummin(x: TensorLike, axis: int) -> Tensor:
    """The least element so far, NaN from the first NaN on."""
    return reversed_order(cummax(reversed_order(_number(as_tensor(x))), axis))


def _number(x: Tensor) -> Tensor:
    if x.dtype == bool_:
        raise DTypeError("a running maximum expected numbers, received bool; cast to an integer first")
    return x
