"""Shape classes and layouts: the sizes a case has, and how its arguments lie under the operation.

A layout is a view between an input and the operation, so each one tests the view's arithmetic in the kernel.
"""

from __future__ import annotations

from enum import Enum

from snell.frontend import Tensor, expand, flip, pad, permute
from snell.symbolic import Dim, Shape, Size, as_expr, as_size

__all__ = ["Layout", "ShapeClass", "concrete", "extents", "stored_shape", "symbolic", "through"]


class ShapeClass(Enum):
    """Extents by class; an operation of rank r takes the last r."""

    SCALAR = ()
    ONE = (1, 1, 1, 1)
    SMALL = (2, 3, 3, 5)
    PRIME = (2, 3, 7, 13)
    VECTOR = (2, 4, 8, 16)
    EMPTY_ROWS = (0, 3, 3, 5)
    EMPTY_COLUMNS = (2, 3, 3, 0)
    BIGGER = (2, 4, 19, 133)


class Layout(Enum):
    """Where the elements of an argument lie in the input's memory."""

    CONTIGUOUS = "as they are"
    TRANSPOSED = "axes in reverse order"
    REVERSED = "every second element of the last axis, backwards (backwards alone where the axis is symbolic)"
    BROADCAST = "the first axis repeated from one row"
    PADDED = "the last axis shifted by one behind a zero (a one where the domain has no zero)"


def extents(shape_class: ShapeClass, rank: int | None) -> tuple[int, ...] | None:
    """The shape of a class at a rank (None: the operation takes any), or None where they do not go together."""
    if shape_class is ShapeClass.SCALAR:
        return () if rank in (None, 0) else None
    if rank == 0:
        return None
    sizes = shape_class.value[-(rank or 2) :]
    if shape_class is ShapeClass.EMPTY_ROWS and 0 not in sizes:
        return (0, *sizes[1:])
    if shape_class is ShapeClass.BIGGER and rank == 1:
        return (1031,)
    return sizes


def symbolic(sizes: tuple[int, ...], axes: frozenset[int], label: str) -> tuple[Shape, dict[Dim, int]]:
    """The shape with a Dim for each of these axes, and the Dims' values."""
    values: dict[Dim, int] = {}
    shape: list[Size] = []
    for axis, size in enumerate(sizes):
        if axis not in axes:
            shape.append(size)
            continue
        dim = Dim(f"{label}_{axis}", min=min(size, 1), max=4096, typical=(max(1, size),))
        values[dim] = size
        shape.append(as_size(as_expr(dim)))
    return tuple(shape), values


def concrete(shape: Shape, values: dict[Dim, int]) -> tuple[int, ...]:
    """The run-time shape."""
    return tuple(int(as_expr(size).evaluate(values)) for size in shape)


def stored_shape(layout: Layout, shape: Shape) -> Shape:
    """The shape of the input behind an argument of `shape`."""
    if not shape:
        return shape
    match layout:
        case Layout.CONTIGUOUS | Layout.PADDED:
            return shape
        case Layout.TRANSPOSED:
            return shape[::-1]
        case Layout.REVERSED:
            last = shape[-1]
            return (*shape[:-1], 2 * last if isinstance(last, int) else last)
        case Layout.BROADCAST:
            return (1, *shape[1:])


def through(layout: Layout, stored: Tensor, shape: Shape, border: int) -> Tensor:
    """The argument of `shape` that an input of `stored_shape` becomes; `border` is what padding puts in."""
    if not shape:
        return stored
    match layout:
        case Layout.CONTIGUOUS:
            return stored
        case Layout.TRANSPOSED:
            return permute(stored, tuple(range(len(shape)))[::-1])
        case Layout.REVERSED:
            return stored[..., ::-2] if isinstance(shape[-1], int) else flip(stored, -1)
        case Layout.BROADCAST:
            return expand(stored, shape)
        case Layout.PADDED:
            return pad(pad(stored, [(1, 0)], border), [(0, -1)])
