"""Two-operand product sums by matrix multiplication: `Σ_J a·b` where every summed axis occurs in both operands."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from snell.graph.numeric import Array
from snell.graph.strided import Block, affine_strides
from snell.symbolic import Axis, View

__all__ = ["is_contraction", "product_sum"]

LARGEST_COPY = 1 << 27


def is_contraction(a: View, b: View, axes: Sequence[int], block: Block) -> bool:
    """True where both views are affine without guards, use every reduced axis, and are of moderate size."""
    for view in (a, b):
        if view.guards or any(affine_strides(index, block.sizes) is None for index in view.indices):
            return False
        used = _used_axes(view)
        if any(block.axes[k] not in used for k in axes if len(block.ranges[k]) != 1):
            return False
        if math.prod(n for axis, n in zip(block.axes, block.lengths, strict=True) if axis in used) > LARGEST_COPY:
            return False
    return True


def _used_axes(view: View) -> frozenset[Axis]:
    return frozenset[Axis]().union(*(index.axes() for index in view.indices))


def product_sum(a: Array, b: Array, axes: Sequence[int]) -> Array:
    """`(a*b).sum(axes)` of open-mesh operands of one rank (length 1 where an operand does not use an axis)."""
    rank = a.ndim
    summed = [k for k in range(rank) if k in axes]
    kept = [k for k in range(rank) if k not in axes]
    batch = [k for k in kept if (a.shape[k] == 1) == (b.shape[k] == 1)]
    rows = [k for k in kept if k not in batch and b.shape[k] == 1]
    columns = [k for k in kept if k not in batch and a.shape[k] == 1]
    batch_shape = [a.shape[k] for k in batch]
    length = math.prod(a.shape[k] for k in summed)
    left = a.transpose(batch + rows + summed + columns).reshape([*batch_shape, -1 if length else 0, length])
    right = b.transpose(batch + summed + columns + rows).reshape([*batch_shape, length, -1 if length else 0])
    result = np.matmul(left, right)
    split = result.reshape([*batch_shape, *(a.shape[k] for k in rows), *(b.shape[k] for k in columns)])
    order = batch + rows + columns
    return split.transpose([order.index(k) for k in kept])
