"""Reading NumPy arrays through views over a block of coordinates.

A `Block` is a box of the consumer's coordinates with the run-time sizes.  Affine views without guards become NumPy
views (no copy, axes the view does not use have length 1); all others are gathered, with 0 where a guard fails.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from snell.errors import GraphError
from snell.graph.numeric import Array
from snell.symbolic import Axis, Dim, Expr, Size, View, as_expr

__all__ = ["Block", "affine_strides", "read", "size_of"]


@dataclass(frozen=True)
class Block:
    """The box `ranges` of coordinates of `shape`; `values` gives axes as open-mesh arrays and dims as integers."""

    axes: tuple[Axis, ...]
    ranges: tuple[range, ...]
    sizes: Mapping[Dim, int]
    values: dict[Any, Any] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        values: dict[Any, Any] = dict(self.sizes)
        rank = len(self.axes)
        for k, (axis, box) in enumerate(zip(self.axes, self.ranges, strict=True)):
            mesh = np.arange(box.start, box.stop, dtype=np.int64)
            values[axis] = mesh.reshape([-1 if j == k else 1 for j in range(rank)])
        object.__setattr__(self, "values", values)

    @staticmethod
    def of(shape: Sequence[Size], ranges: Sequence[range], sizes: Mapping[Dim, int]) -> Block:
        return Block(tuple(Axis(f"i{k}", size) for k, size in enumerate(shape)), tuple(ranges), sizes)

    @property
    def lengths(self) -> tuple[int, ...]:
        return tuple(len(box) for box in self.ranges)

    def evaluate(self, expression: Expr) -> Array:
        """The expression on the box, broadcastable to `lengths`."""
        return np.asarray(expression.evaluate(self.values))

    def mask(self, guards: Sequence[Expr]) -> Array:
        """Where every guard is non-negative, broadcastable to `lengths`."""
        result = np.asarray(True)
        for guard in guards:
            result = result & (self.evaluate(guard) >= 0)
        return result


def affine_strides(expression: Expr, sizes: Mapping[Dim, int]) -> tuple[dict[Axis, int], int] | None:
    """`Σ coefficient·axis + constant` with numeric coefficients, or None where the expression is not affine."""
    strides: dict[Axis, int] = {}
    constant = expression.constant
    for monomial, coefficient in expression.terms:
        axes = [atom for atom in monomial if isinstance(atom, Axis)]
        dims = [atom for atom in monomial if isinstance(atom, Dim)]
        if len(axes) > 1 or len(axes) + len(dims) != len(monomial):
            return None
        value = coefficient * math.prod(sizes[dim] for dim in dims)
        if axes:
            strides[axes[0]] = strides.get(axes[0], 0) + value
        else:
            constant += value
    return strides, constant


def read(source: Array, view: View, block: Block, masked: bool = False) -> Array:
    """`source` seen through `view` on `block`, broadcastable to the block; `masked` permits indices out of range."""
    if 0 in block.lengths:
        return np.zeros(block.lengths, source.dtype)
    if not view.guards:
        strided = _strided(source, view, block)
        if strided is not None:
            return strided
    return _gathered(source, view, block, masked)


def _strided(source: Array, view: View, block: Block) -> Array | None:
    strides = [0] * len(block.axes)
    start: list[int] = []
    for index, size, step in zip(view.indices, source.shape, source.strides, strict=True):
        affine = affine_strides(index, block.sizes)
        if affine is None:
            return None
        low = high = first = affine[1]
        for axis, coefficient in affine[0].items():
            k = block.axes.index(axis)
            ends = (coefficient * block.ranges[k].start, coefficient * (block.ranges[k].stop - 1))
            first, low, high = first + ends[0], low + min(ends), high + max(ends)
            strides[k] += coefficient * step
        if low < 0 or high >= size:
            return None
        start.append(first)
    corner = source[tuple(slice(s, s + 1) for s in start)]
    used = frozenset[Axis]().union(*(index.axes() for index in view.indices))
    lengths = [len(box) if axis in used else 1 for axis, box in zip(block.axes, block.ranges, strict=True)]
    return np.lib.stride_tricks.as_strided(corner, lengths, strides, writeable=False)


def _gathered(source: Array, view: View, block: Block, masked: bool) -> Array:
    mask = block.mask(view.guards)
    if not mask.any():
        return np.zeros((1,) * len(block.axes), source.dtype)
    indices: list[Array] = []
    for k, (index, size) in enumerate(zip(view.indices, source.shape, strict=True)):
        place = block.evaluate(index)
        outside = (place < 0) | (place >= size)
        if not masked and bool((outside & mask).any()):
            raise GraphError(f"index {index} of dimension {k} (extent {size}) is out of range in view {view}")
        indices.append(np.clip(place, 0, max(size - 1, 0)))
    if 0 in source.shape:
        raise GraphError(f"view {view} reads an empty array of shape {source.shape}")
    values = source[tuple(indices)] if indices else source
    values = values.reshape((1,) * (len(block.axes) - values.ndim) + values.shape)
    return values if not view.guards else np.where(mask, values, np.zeros((), source.dtype))


def size_of(size: Size, sizes: Mapping[Dim, int]) -> int:
    """The number a size stands for at run time."""
    return int(as_expr(size).evaluate(sizes))
