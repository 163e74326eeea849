"""Subscripts: `x[...]` with integers, slices of any step, `...`, None, integer arrays and known boolean arrays.

Slices are views.  Integer arrays follow NumPy: they broadcast together, and their axes stand where the first of them
was if they are adjacent, else in front.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Any, cast

import numpy as np

from snell.dtypes import bool_, i64
from snell.errors import DTypeError, OutOfRangeError, ShapeError, SymbolicError, UnsupportedError
from snell.frontend.ops.elementwise import astype
from snell.frontend.ops.indexing import Places, as_indices, take
from snell.frontend.ops.movement import movedim, permute, reshape
from snell.frontend.promotion import broadcast, lift
from snell.frontend.tensor import Tensor
from snell.symbolic import Dim, Expr, Shape, Size, as_expr, as_size, product, show_shape

__all__ = ["Joint", "Subscript", "getitem", "is_mask"]


def getitem(x: Tensor, index: Any) -> Tensor:
    """x[index].  Raises OutOfRangeError for a known integer outside its axis, ShapeError for too many indices,
    SymbolicError where a bound cannot be proved to lie inside a symbolic axis, ShapeError for a mask whose value only
    the run time knows."""
    subscript = Subscript.of(x, index)
    moved = x.seen_through(x.operand.view.slice(subscript.starts, subscript.sizes, subscript.steps))
    sliced = reshape(moved, subscript.shape)
    return subscript.joint(sliced).picked() if subscript.arrays else sliced


@dataclass(frozen=True, slots=True)
class Subscript:
    """An index understood: per axis a start, a size and a step; the shape after integers and None.

    `arrays` are integer arrays by axis of that shape; they select along it afterwards.
    """

    starts: tuple[Expr, ...]
    sizes: tuple[Size, ...]
    steps: tuple[int, ...]
    shape: Shape
    arrays: dict[int, Any]

    @staticmethod
    def of(x: Tensor, index: Any) -> Subscript:
        entries = _spelled_out(x, cast("tuple[Any, ...]", index) if isinstance(index, tuple) else (index,))
        return _basic(x, entries)

    def is_whole_beside_arrays(self, x: Tensor) -> bool:
        """Whether all that is not an integer array is a whole axis of x."""
        return self.shape == self.sizes == x.shape and all(step == 1 for step in self.steps)

    def joint(self, x: Tensor) -> Joint:
        """The integer arrays as one index of the axes they take together, those axes of x merged in front."""
        return _joint(x, self.arrays)


@dataclass(frozen=True, slots=True)
class Joint:
    """`merged` is the tensor with the indexed axes as one in front, `positions` one index of it, in any shape."""

    merged: Tensor
    positions: Tensor
    order: tuple[int, ...]
    start: int
    places: tuple[Places, ...]

    @property
    def rank(self) -> int:
        return self.positions.ndim

    @property
    def shape(self) -> Shape:
        """Of what is read or written: the axes of the arrays stand from `start` on."""
        rest = self.merged.shape[1:]
        return (*rest[: self.start], *self.positions.shape, *rest[self.start :])

    def guard(self, result: Tensor) -> Tensor:
        """The result, with the check that each array stays inside its axis."""
        for place in self.places:
            result = place.guard(result, "a subscript")
        return result

    def picked(self) -> Tensor:
        """What is read."""
        found = self.guard(take(self.merged, self.positions, 0, mode="zero"))
        return movedim(found, range(self.rank), range(self.start, self.start + self.rank)) if self.start else found


def _consumed(entry: Any) -> int:
    """How many axes an entry takes."""
    if entry is None or entry is Ellipsis:
        return 0
    return entry.ndim if isinstance(entry, np.ndarray | Tensor) and is_mask(entry) else 1


def is_mask(entry: Any) -> bool:
    """Whether an index array is one of bools."""
    return (entry.dtype == bool_) if isinstance(entry, Tensor) else entry.dtype == np.bool_


def _spelled_out(x: Tensor, index: tuple[Any, ...]) -> list[Any]:
    """One entry an axis, the ellipsis as full slices, lists as arrays, masks as integer arrays."""
    entries = [_normal(entry) for entry in index]
    taken = sum(_consumed(entry) for entry in entries)
    if taken > x.ndim:
        raise ShapeError(f"{taken} indices for shape {show_shape(x.shape)}; give at most {x.ndim}")
    places = [k for k, entry in enumerate(entries) if isinstance(entry, EllipsisType)]
    if len(places) > 1:
        raise ShapeError("an index holds `...` once at most")
    fill: list[Any] = [slice(None)] * (x.ndim - taken)
    at = places[0] if places else len(entries)
    spelled: list[Any] = [*entries[:at], *fill, *entries[at + len(places) :]]
    return [part for entry in spelled for part in _without_mask(entry)]


def _normal(entry: Any) -> Any:
    if isinstance(entry, list):
        return np.asarray(cast("list[Any]", entry))
    return cast("Any", entry).item() if isinstance(entry, np.generic) else entry


def _without_mask(entry: Any) -> Sequence[Any]:
    if isinstance(entry, bool):
        raise UnsupportedError("a Python bool is no index here; use unsqueeze or where")
    if not isinstance(entry, np.ndarray | Tensor) or not is_mask(entry):
        return [entry]
    if isinstance(entry, Tensor) and entry.trace.evaluator is None:
        raise ShapeError(
            "how many elements a traced mask selects is only known at run time; use where(mask, x, 0), "
            "nonzero(mask, size=...) with take, or an assignment x[mask] = value"
        )
    return list(np.nonzero(np.asarray(cast("Any", entry))))


def _basic(x: Tensor, entries: Sequence[Any]) -> Subscript:
    """Slices, integers, None and arrays, told apart."""
    starts: list[Expr] = []
    sizes: list[Size] = []
    steps: list[int] = []
    shape: list[Size] = []
    arrays: dict[int, Any] = {}
    axis = 0
    for entry in entries:
        if entry is None:
            shape.append(1)
            continue
        extent = x.shape[axis]
        start, size, step = 0, extent, 1
        match entry:
            case slice():
                start, size, step = _bounds(cast("slice[Any, Any, Any]", entry), extent, axis)
                shape.append(size)
            case int() | Dim() | Expr():
                start, size = _position(entry, extent, axis), 1
            case np.ndarray() | Tensor():
                arrays[len(shape)] = entry
                shape.append(size)
            case _:
                raise UnsupportedError(f"cannot index with {type(entry).__name__}; use integers, slices or arrays")
        starts, sizes, steps = [*starts, as_expr(start)], [*sizes, size], [*steps, step]
        axis += 1
    return Subscript(tuple(starts), tuple(sizes), tuple(steps), tuple(shape), arrays)


def _position(entry: int | Dim | Expr, extent: Size, axis: int) -> Expr:
    index = as_expr(entry)
    if index.bounds()[1] < 0:
        index = index + extent
    if index.is_non_negative() and (as_expr(extent) - 1 - index).is_non_negative():
        return index
    if index.is_constant and isinstance(extent, int):
        raise OutOfRangeError(f"index {entry} is out of range for axis {axis} of extent {extent}")
    raise SymbolicError(
        f"cannot prove that index {entry} lies inside axis {axis} of extent {extent}; give the Dim a min or max"
    )


def _bounds(entry: slice, extent: Size, axis: int) -> tuple[Expr, Size, int]:
    """Start, size and step of a slice, as Python's `slice.indices` for known extents."""
    step = 1 if entry.step is None else int(entry.step)
    if step == 0:
        raise ShapeError("a slice step must not be 0")
    given = [bound for bound in (entry.start, entry.stop) if bound is not None]
    if isinstance(extent, int) and all(isinstance(bound, int | np.integer) for bound in given):
        chosen = range(*entry.indices(extent))
        return as_expr(chosen.start if len(chosen) else 0), len(chosen), step
    low = _bound(entry.start, extent, axis, as_expr(0 if step > 0 else as_expr(extent) - 1), 0 if step > 0 else -1)
    high = _bound(entry.stop, extent, axis, as_expr(extent if step > 0 else -1), 0 if step > 0 else -1)
    span = high - low if step > 0 else low - high
    if not span.is_non_negative():
        raise SymbolicError(f"cannot prove that slice {low}..{high} of axis {axis} is not reversed; order its bounds")
    return low, as_size((span + (abs(step) - 1)) // abs(step)), step


def _bound(bound: Any, extent: Size, axis: int, default: Expr, lowest: int) -> Expr:
    """A slice bound as a position; Python clamps it, so it must provably need no clamping here."""
    if bound is None:
        return default
    position = as_expr(bound)
    if position.bounds()[1] < 0:
        position = position + extent
    if (position - lowest).is_non_negative() and (as_expr(extent) - position).is_non_negative():
        return position
    raise SymbolicError(
        f"cannot prove that {bound} lies inside axis {axis} of extent {extent}; give the Dim a min or max"
    )


def _joint(x: Tensor, arrays: dict[int, Any]) -> Joint:
    axes = sorted(arrays)
    tensors = broadcast(*lift(*[_checked_known(arrays[k], x.shape[k], k) for k in axes]))
    order = (*axes, *(k for k in range(x.ndim) if k not in axes))
    rest = [x.shape[k] for k in order[len(axes) :]]
    places = [
        Places(as_indices(tensor, "a subscript"), x.shape[k], "zero" if _is_checked(arrays[k], x.shape[k]) else "raise")
        for k, tensor in zip(axes, tensors, strict=True)
    ]
    merged = reshape(permute(x, order), [as_size(product([x.shape[k] for k in axes])), *rest])
    positions = _combined([place.positions for place in places], [x.shape[k] for k in axes])
    adjacent = axes == list(range(axes[0], axes[0] + len(axes)))
    return Joint(merged, positions, order, axes[0] if adjacent else 0, tuple(places))


def _combined(positions: Sequence[Tensor], extents: Sequence[Size]) -> Tensor:
    """The row-major index of positions along several axes."""
    if len(positions) == 1:
        return positions[0]
    flat = astype(positions[0], i64)
    for tensor, extent in zip(positions[1:], extents[1:], strict=True):
        flat = flat * extent + tensor
    return flat


def _is_checked(entry: Any, extent: Size) -> bool:
    """Whether `_checked_known` has proved an index array to lie inside its axis."""
    return not isinstance(entry, Tensor) and isinstance(extent, int)


def _checked_known(entry: Any, extent: Size, axis: int) -> Any:
    """NumPy indices are checked here, where the user wrote them, and counted from the front."""
    if isinstance(entry, Tensor) or not isinstance(extent, int):
        return entry
    if entry.dtype.kind not in "iu" and entry.size:
        raise DTypeError(
            f"an index array expected integers or bool, received {entry.dtype}; cast it with .astype('i64')"
        )
    if entry.size and not (-extent <= entry.min() and entry.max() < extent):
        raise OutOfRangeError(
            f"indices {entry.min()}..{entry.max()} are out of range for axis {axis} of extent {extent}"
        )
    places = entry.astype(np.int64)
    return np.where(places < 0, places + extent, places)
