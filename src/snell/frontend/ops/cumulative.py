"""Cumulative operations along an axis.

A running sum is two-level: triangular sums inside blocks of 64, then the running sum of the block totals, so it costs
64 additions an element at most (and log₆₄ n levels).  The others double their reach at each of log₂ n steps.  Sums and
products of f16 and bf16 accumulate in f32.
"""

from __future__ import annotations

from collections.abc import Callable

from snell.dtypes import bool_, i64, u64
from snell.errors import DTypeError
from snell.frontend.ops.comparison import maximum, minimum
from snell.frontend.ops.creation import tri
from snell.frontend.ops.elementwise import astype, multiply, wide
from snell.frontend.ops.joining import pad
from snell.frontend.ops.movement import crop, flatten, movedim, reshape, unsqueeze, zero_pad
from snell.frontend.ops.reduction import raw_sum
from snell.frontend.promotion import DTypeLike, as_tensor
from snell.frontend.shapes import known_size, normal_axis
from snell.frontend.tensor import Tensor, TensorLike
from snell.symbolic import as_expr, as_size

__all__ = ["cummax", "cummin", "cumprod", "cumsum"]

BLOCK = 64


def _accumulable(x: Tensor, dtype: DTypeLike | None) -> Tensor:
    if dtype is not None:
        return astype(x, dtype)
    return x if x.dtype.is_float or x.dtype == u64 else astype(x, i64)


def cumsum(
    x: TensorLike, axis: int | None = None, dtype: DTypeLike | None = None, *, exclusive: bool = False
) -> Tensor:
    """Sums of all elements up to each one (before it, if `exclusive`); integers and bool add up in i64.

    With no axis the tensor is flattened.  The extent may be a Dim.
    """
    tensor = as_tensor(x)
    if axis is None:
        return cumsum(flatten(tensor), 0, dtype, exclusive=exclusive)
    k = normal_axis(axis, tensor.ndim)
    terms = _accumulable(tensor, dtype)
    sums = _running_sum(movedim(wide(terms), k, -1), exclusive)
    return astype(movedim(sums, -1, k), terms.dtype)


def _running_sum(x: Tensor, exclusive: bool) -> Tensor:
    """Along the last axis."""
    extent = as_expr(x.shape[-1])
    if extent.bounds()[1] <= BLOCK:
        return _triangular_sum(x, exclusive)
    count = (extent + (BLOCK - 1)) // BLOCK
    padded = zero_pad(x, -1, 0, count * BLOCK - extent)
    blocks = reshape(padded, [*x.shape[:-1], as_size(count), BLOCK])
    before = _running_sum(raw_sum(blocks, -1), exclusive=True)
    sums = _triangular_sum(blocks, exclusive) + unsqueeze(before, -1)
    return crop(reshape(sums, padded.shape), -1, 0, x.shape[-1])


def _triangular_sum(x: Tensor, exclusive: bool) -> Tensor:
    mask = tri(x.shape[-1], x.shape[-1], -1 if exclusive else 0, trace=x.trace)
    # The mask selects: an inf or NaN further along does not reach back.
    return raw_sum(multiply(mask, unsqueeze(x, -2)), -1)


def _doubling(x: Tensor, axis: int, neutral: float, combine: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Hillis and Steele's scan: at step s each element takes in the one 2ˢ places before it."""
    extent, reach = known_size(x.shape[axis], "this cumulative operation"), 1
    while reach < extent:
        widths = [(reach if k == axis else 0, 0) for k in range(x.ndim)]
        shifted = crop(pad(x, widths, neutral), axis, 0, extent)
        x, reach = combine(x, shifted), reach * 2
    return x


def cumprod(x: TensorLike, axis: int | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """Products of all elements up to each one; integers and bool multiply in i64; the extent must be known."""
    tensor = as_tensor(x)
    if axis is None:
        return cumprod(flatten(tensor), 0, dtype)
    factors = _accumulable(tensor, dtype)
    return astype(_doubling(wide(factors), normal_axis(axis, tensor.ndim), 1, multiply), factors.dtype)


def cummax(x: TensorLike, axis: int) -> Tensor:
    """The greatest element so far, NaN from the first NaN on; the extent must be known."""
    tensor = _number(as_tensor(x))
    return _doubling(tensor, normal_axis(axis, tensor.ndim), tensor.dtype.lowest, maximum)


def cummin(x: TensorLike, axis: int) -> Tensor:
    """The least element so far, NaN from the first NaN on; the extent must be known."""
    tensor = _number(as_tensor(x))
    highest = -tensor.dtype.lowest if tensor.dtype.is_float else tensor.dtype.range[1]
    return _doubling(tensor, normal_axis(axis, tensor.ndim), highest, minimum)


def _number(x: Tensor) -> Tensor:
    if x.dtype == bool_:
        raise DTypeError("a running maximum expected numbers, received bool; cast to an integer first")
    return x
