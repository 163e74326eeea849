"""Sorting along an axis by Batcher's bitonic network (1968): O(log² n) compare-exchange steps on views.

Elements are ordered by (value, original index), so the sort is stable.  NaN counts as greater than every number, as in
PyTorch: last in ascending order, first in descending.  Extents must be known.  A loop over `scan` may replace the
network; `sort`, `argsort` and `topk` are its only callers.
"""

from __future__ import annotations

import math

from snell.dtypes import DType, bool_, i32, u8
from snell.errors import ShapeError
from snell.frontend.ops.comparison import (
    isnan,
    less,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    reversed_order,
    where,
)
from snell.frontend.ops.creation import iota
from snell.frontend.ops.division import modulo
from snell.frontend.ops.elementwise import astype
from snell.frontend.ops.joining import pad, stack
from snell.frontend.ops.movement import crop, movedim, reshape
from snell.frontend.promotion import as_tensor, broadcast
from snell.frontend.shapes import known_size, normal_axis
from snell.frontend.tensor import Tensor, TensorLike
from snell.symbolic import show_shape

__all__ = ["argsort", "sort", "topk"]


def sort(x: TensorLike, axis: int = -1, *, descending: bool = False) -> Tensor:
    """The elements in order along the axis."""
    return _sorted(as_tensor(x), axis, descending)[0]


def argsort(x: TensorLike, axis: int = -1, *, descending: bool = False) -> Tensor:
    """i64 indices that put the elements in order; equal elements keep their order."""
    return _sorted(as_tensor(x), axis, descending)[1]


def topk(x: TensorLike, count: int, axis: int = -1, *, largest: bool = True) -> tuple[Tensor, Tensor]:
    """The `count` greatest (least) elements in order, and their i64 indices; the first among equals comes first.

    Raises ShapeError where the axis holds fewer.
    """
    tensor = as_tensor(x)
    k = normal_axis(axis, tensor.ndim)
    if not 0 <= count <= known_size(tensor.shape[k], "topk"):
        raise ShapeError(
            f"topk expected a count in 0..{tensor.shape[k]} for {show_shape(tensor.shape)}, received {count}"
        )
    values, indices = _sorted(tensor, k, largest)
    return crop(values, k, 0, count), crop(indices, k, 0, count)


def _sorted(x: Tensor, axis: int, descending: bool) -> tuple[Tensor, Tensor]:
    k = normal_axis(axis, x.ndim)
    extent = known_size(x.shape[k], "sort")
    moved = movedim(astype(x, u8) if x.dtype == bool_ else x, k, -1)
    keys, order = _keys(moved, extent, descending)
    size = 1 << max(0, extent - 1).bit_length()
    keys, order = _network(_padded(keys, size), _filled(order, size), size)
    keys, order = crop(keys, -1, 0, extent), crop(order, -1, 0, extent)
    values = reversed_order(keys) if descending else keys
    if x.dtype.is_float:
        is_nan = less(order, 0) if descending else logical_not(less(order, extent))
        order = where(is_nan, order + (extent if descending else -extent), order)
        values = where(is_nan, math.nan, values)
    return movedim(astype(values, x.dtype), -1, k), movedim(astype(order, "i64"), -1, k)


def _keys(x: Tensor, extent: int, descending: bool) -> tuple[Tensor, Tensor]:
    """Values to sort upwards, and indices that break ties; NaN becomes ±inf, its index beyond the others."""
    order = broadcast(iota(extent, i32, trace=x.trace), x)[0]
    keys = reversed_order(x) if descending else x
    if not x.dtype.is_float:
        return keys, order
    shift = -extent if descending else extent
    is_nan = isnan(x)
    return where(is_nan, -math.inf if descending else math.inf, keys), where(is_nan, order + shift, order)


def _padded(keys: Tensor, size: int) -> Tensor:
    """Greatest keys up to a power of two; `_filled` gives them indices beyond every element's."""
    return _extended(keys, size, _greatest(keys.dtype))


def _filled(order: Tensor, size: int) -> Tensor:
    return _extended(order, size, order.dtype.range[1])


def _extended(x: Tensor, size: int, value: float) -> Tensor:
    extra = size - known_size(x.shape[-1], "sort")
    return pad(x, [(0, extra)], value) if extra else x


def _greatest(dtype: DType) -> float:
    return math.inf if dtype.is_float else dtype.range[1]


def _network(keys: Tensor, order: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Runs of length `run` are sorted in alternating directions, then merged pairwise."""
    run = 2
    while run <= size:
        distance = run // 2
        while distance:
            keys, order = _exchange(keys, order, run, distance)
            distance //= 2
        run *= 2
    return keys, order


def _exchange(keys: Tensor, order: Tensor, run: int, distance: int) -> tuple[Tensor, Tensor]:
    """Compare elements `distance` apart; runs with an odd number are put in falling order."""
    size = known_size(keys.shape[-1], "sort")
    blocks = size // (2 * distance)
    shape = [*keys.shape[:-1], blocks, 2, distance]
    low_key, high_key = (crop(reshape(keys, shape), -2, k, 1) for k in (0, 1))
    low_order, high_order = (crop(reshape(order, shape), -2, k, 1) for k in (0, 1))
    tied = logical_and(logical_not(less(low_key, high_key)), less(high_order, low_order))
    swap = logical_or(less(high_key, low_key), tied)
    if run < size:
        block = iota(blocks, i32, trace=keys.trace) * (2 * distance)
        falls = logical_not(less(modulo(block, 2 * run), run))
        swap = logical_xor(swap, reshape(falls, [blocks, 1, 1]))
    exchanged = [
        stack([where(swap, high, low), where(swap, low, high)], -2)
        for low, high in ((low_key, high_key), (low_order, high_order))
    ]
    return reshape(exchanged[0], keys.shape), reshape(exchanged[1], order.shape)
