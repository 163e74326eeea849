"""Sorting along an axis by Batcher's bitonic network (1968): one compare-exchange step, repeated by a scan.

Elements are ordered by (value, original index), so the sort is stable.  NaN counts as greater than every number, as in
PyTorch: last in ascending order, first in descending.  Extents must be known.
"""

from __future__ import annotations

import math

import numpy as np

from snell.dtypes import DType, bool_, i32, i64, u8
from snell.errors import ShapeError
from snell.frontend.ops.comparison import (
    equal,
    isnan,
    less,
    logical_and,
    logical_not,
    logical_or,
    reversed_order,
    where,
)
from snell.frontend.ops.creation import iota
from snell.frontend.ops.elementwise import astype
from snell.frontend.ops.indexing import take, take_along_axis
from snell.frontend.ops.joining import pad
from snell.frontend.ops.movement import crop, movedim
from snell.frontend.ops.selection import first_places
from snell.frontend.promotion import as_tensor, broadcast
from snell.frontend.scan import scan
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

    Few are selected block by block (`selection`), in O(n); many are what a sort has first.

    Raises ShapeError where the axis holds fewer.
    """
    tensor = as_tensor(x)
    k = normal_axis(axis, tensor.ndim)
    extent = known_size(tensor.shape[k], "topk")
    if not 0 <= count <= extent:
        raise ShapeError(
            f"topk expected a count in 0..{tensor.shape[k]} for {show_shape(tensor.shape)}, received {count}"
        )
    if count <= _stages(extent):
        return _selected(tensor, k, count, largest)
    values, indices = _sorted(tensor, k, largest)
    return crop(values, k, 0, count), crop(indices, k, 0, count)


def _selected(x: Tensor, axis: int, count: int, descending: bool) -> tuple[Tensor, Tensor]:
    """The first elements of the order and their indices, each in one step of a scan."""
    extent = known_size(x.shape[axis], "topk")
    moved = movedim(x, axis, -1)
    keys, order = _keys(astype(moved, u8) if x.dtype == bool_ else moved, extent, descending)
    order = first_places(keys, order, count, _greatest(keys.dtype))
    indices = where(less(order, 0), order + extent, where(less(order, extent), order, order - extent))
    values = take_along_axis(moved, indices, -1, mode="zero")
    return movedim(values, -1, axis), movedim(astype(indices, i64), -1, axis)


def _stages(extent: int) -> int:
    """Steps in which a sort goes through all elements."""
    runs = max(0, extent - 1).bit_length()
    return runs * (runs + 1) // 2


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
    """Runs of length `run` are sorted in alternating directions, then merged pairwise; one scan step a stage."""
    runs = [1 << k for k in range(1, size.bit_length())]
    stages = [(run >> k, run) for run in runs for k in range(1, run.bit_length())]
    exact = np.float32 if size <= 1 << 24 else np.float64
    table = np.asarray([(distance, 1 / distance, 1 / run) for distance, run in stages], exact).reshape(-1, 3)
    (keys, order), _ = scan(_exchanged, (keys, order), table)
    return keys, order


def _exchanged(carry: tuple[Tensor, Tensor], stage: Tensor) -> tuple[tuple[Tensor, Tensor], None]:
    """Each element beside the one a distance of 2ᵏ away: the lesser stays below, or above in runs of odd number.

    `stage` holds the distance, its inverse and the inverse of the run, all powers of two and therefore exact.
    """
    keys, order = carry
    size = known_size(keys.shape[-1], "sort")
    distance = astype(astype(stage[0], i32), i64)
    block, run = (_block(size, stage[k]) for k in (1, 2))
    is_low = logical_not(_is_odd(block))
    other_key, other_order = (_partner(x, distance, is_low) for x in (keys, order))
    tied = logical_and(equal(keys, other_key), less(order, other_order))
    is_least = logical_or(less(keys, other_key), tied)
    # The lesser stays in an even block of a rising run, the greater in an odd one, and the reverse where runs fall.
    stays = _is_odd(block + run + astype(is_least, block.dtype))
    return (where(stays, keys, other_key), where(stays, order, other_order)), None


def _partner(x: Tensor, distance: Tensor, is_low: Tensor) -> Tensor:
    """The element `distance` further on, or back: both are read where they lie, none is gathered."""
    place = iota(x.shape[-1], i64, trace=x.trace)
    ahead, behind = (take(x, place + step, -1, mode="zero") for step in (distance, distance * -1))
    return where(is_low, ahead, behind)


def _block(size: int, inverse: Tensor) -> Tensor:
    """The number of the block of `1/inverse` positions in which each one lies."""
    return _truncated(astype(iota(size, i32, trace=inverse.trace), inverse.dtype) * inverse)


def _is_odd(number: Tensor) -> Tensor:
    """Of whole numbers in a float dtype: halves are exact, and an integer division of lanes is slow."""
    return less(_truncated(number * 0.5), number * 0.5)


def _truncated(number: Tensor) -> Tensor:
    return astype(astype(number, i32), number.dtype)
