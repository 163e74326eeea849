"""Shapes as users write them: axes counted from either end, sizes as integers, Dims or -1; errors name them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from snell.errors import ShapeError, SymbolicError
from snell.symbolic import Dim, Expr, Shape, Size, as_expr, as_size, product, show_shape

__all__ = [
    "AxisLike",
    "ShapeLike",
    "SizeLike",
    "as_shape",
    "flat_arguments",
    "known_size",
    "normal_axes",
    "normal_axis",
    "resolve_shape",
]

SizeLike = int | Dim | Expr
ShapeLike = SizeLike | Sequence[SizeLike]
AxisLike = int | Sequence[int] | None


def as_shape(shape: ShapeLike) -> Shape:
    """A shape of non-negative sizes; ShapeError for a negative one."""
    sizes = shape if isinstance(shape, Sequence) else (shape,)
    result = tuple(as_size(size) for size in sizes)
    for size in result:
        if isinstance(size, int) and size < 0:
            raise ShapeError(f"sizes must not be negative, received {show_shape(result)}")
    return result


def flat_arguments(arguments: tuple[ShapeLike, ...]) -> tuple[SizeLike, ...]:
    """`f(2, 3)` and `f((2, 3))` alike."""
    if len(arguments) == 1 and isinstance(arguments[0], Sequence):
        return tuple(arguments[0])
    return tuple(arguments)  # type: ignore[arg-type]  # a sequence among several arguments fails in as_size


def normal_axis(axis: int, rank: int) -> int:
    """The axis counted from the front; ShapeError where there is none."""
    if not -rank <= axis < rank:
        raise ShapeError(f"axis {axis} does not exist: the tensor has {rank} axes")
    return axis % rank


def normal_axes(axes: AxisLike, rank: int) -> tuple[int, ...]:
    """Axes counted from the front, sorted; every axis for None; ShapeError for one named twice."""
    if axes is None:
        return tuple(range(rank))
    given = tuple(axes) if isinstance(axes, Iterable) else (axes,)
    found = tuple(sorted(normal_axis(axis, rank) for axis in given))
    if len(set(found)) != len(found):
        raise ShapeError(f"axes {given} name an axis twice; give each once")
    return found


def known_size(size: Size, what: str) -> int:
    """The size as an integer; SymbolicError where only the run time knows it."""
    if isinstance(size, int):
        return size
    raise SymbolicError(f"{what} needs a known extent, received {size}; give a number, or pad to a fixed size")


def resolve_shape(source: Shape, target: Sequence[SizeLike]) -> Shape:
    """The target of a reshape, with at most one -1 computed from the number of elements."""
    unknown = [k for k, size in enumerate(target) if isinstance(size, int) and size == -1]
    if len(unknown) > 1:
        raise ShapeError(f"reshape can compute one size, received {tuple(map(str, target))}; give all but one")
    if not unknown:
        return as_shape(target)
    rest = product([as_expr(size) for k, size in enumerate(target) if k not in unknown])
    total = product(list(source))
    if rest == 0:
        raise ShapeError(f"reshape cannot compute -1 in {tuple(map(str, target))}: the other sizes hold 0 elements")
    missing = total // rest
    if missing * rest != total:
        kind = ShapeError if total.is_constant and rest.is_constant else SymbolicError
        raise kind(
            f"cannot reshape {show_shape(source)} to {tuple(map(str, target))}: "
            f"{rest} does not provably divide {total}; declare the extent as a product, such as 4*Dim('blocks')"
        )
    return as_shape([as_size(missing) if k in unknown else size for k, size in enumerate(target)])
