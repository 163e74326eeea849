"""Views: the index map from a consumer's coordinates to a producer's, with a validity mask.

Every movement (reshape, permute, expand, slice with any step, pad, sliding window) is a view on an edge.  A view reads
`producer[indices(coordinates)]` where every guard is `>= 0`, and 0 elsewhere.  Composition is substitution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from snell.errors import ShapeError, SymbolicError
from snell.symbolic.expression import Axis, Expr, Integer, as_expr, as_size, product

__all__ = ["Shape", "Size", "View", "coordinates", "show_shape"]

Size = int | Expr
Shape = tuple[Size, ...]


@lru_cache(maxsize=1 << 14)
def coordinates(shape: Shape) -> tuple[Expr, ...]:
    """The canonical coordinate expressions of a shape (0 on axes of extent 1)."""
    return tuple(as_expr(Axis(f"i{k}", size)) for k, size in enumerate(shape))


def show_shape(shape: Shape) -> str:
    """`(2, seq, 64)`."""
    return "(" + ", ".join(str(size) for size in shape) + ("," if len(shape) == 1 else "") + ")"


@dataclass(frozen=True, slots=True)
class View:
    """`result[i0, i1, …] = source[indices]` where all `guards >= 0`, else 0.

    `shape` is the shape the consumer sees; `indices` has one entry per source dimension, over `coordinates(shape)`.
    """

    shape: Shape
    indices: tuple[Expr, ...]
    guards: tuple[Expr, ...] = ()

    @staticmethod
    def identity(shape: Shape) -> View:
        return View(shape, coordinates(shape))

    @property
    def is_identity(self) -> bool:
        """True where each position reads the same position of the source, which may be larger: `Operand.is_whole`."""
        return not self.guards and self.indices == coordinates(self.shape)

    def then(self, outer: View) -> View:
        """The view that applies `self` to the source first and `outer` to its result."""
        return _composed(self, outer)

    def permute(self, order: Sequence[int]) -> View:
        if sorted(order) != list(range(len(self.shape))):
            raise ShapeError(
                f"permute expected each axis of {show_shape(self.shape)} exactly once, received {tuple(order)}; "
                f"give a permutation of 0..{len(self.shape) - 1}"
            )
        shape = tuple(self.shape[k] for k in order)
        place = coordinates(shape)
        indices = [place[list(order).index(k)] for k in range(len(order))]
        return self.then(View(shape, tuple(indices)))

    def expand(self, shape: Shape) -> View:
        """Broadcast axes of extent 1 (and missing leading axes) to `shape`."""
        offset = len(shape) - len(self.shape)
        place = coordinates(shape)
        indices: list[Expr] = []
        for k, size in enumerate(self.shape):
            target = shape[k + offset] if 0 <= k + offset < len(shape) else None
            if offset < 0 or (size != target and size != 1):
                raise ShapeError(
                    f"cannot expand {show_shape(self.shape)} to {show_shape(shape)}: axis {k} has extent {size}, "
                    f"expected 1 or {target}; reshape first"
                )
            indices.append(as_expr(0) if size == 1 else place[k + offset])
        return self.then(View(shape, tuple(indices)))

    def reshape(self, shape: Shape) -> View:
        """Row-major reshape; both shapes must hold provably the same number of elements."""
        shape = tuple(shape)
        return self if shape == self.shape else self.then(_reshaping(self.shape, shape))

    def slice(self, starts: Sequence[Integer], sizes: Sequence[Integer], steps: Sequence[int]) -> View:
        """`result[i] = source[start + step*i]` per axis; bounds are the caller's duty."""
        shape = tuple(as_size(size) for size in sizes)
        place = coordinates(shape)
        moved = (c * step + as_expr(start) for c, start, step in zip(place, starts, steps, strict=True))
        return self.then(View(shape, tuple(moved)))

    def pad(self, before: Sequence[Integer], after: Sequence[Integer]) -> View:
        """Zeros around each axis; negative amounts crop."""
        shape = tuple(as_size(as_expr(lo) + n + hi) for n, lo, hi in zip(self.shape, before, after, strict=True))
        place = coordinates(shape)
        indices = tuple(c - as_expr(lo) for c, lo in zip(place, before, strict=True))
        guards: list[Expr] = []
        for index, size in zip(indices, self.shape, strict=True):
            guards += [index, as_expr(size) - 1 - index]
        return self.then(View(shape, indices, _kept_guards(tuple(guards))))

    def window(self, axis: int, length: int, step: int = 1, dilation: int = 1) -> View:
        """Sliding windows along `axis`: its extent becomes the number of windows, a last axis holds each window."""
        extent = as_expr(self.shape[axis])
        count = as_size((extent - (dilation * (length - 1) + 1)) // step + 1)
        shape = (*self.shape[:axis], count, *self.shape[axis + 1 :], length)
        place = coordinates(shape)
        indices = [*place[:-1]]
        indices[axis] = place[axis] * step + place[-1] * dilation
        return self.then(View(shape, tuple(indices)))

    def __str__(self) -> str:
        guard = " if " + " and ".join(f"{g} >= 0" for g in self.guards) if self.guards else ""
        return f"{show_shape(self.shape)} -> [{', '.join(str(i) for i in self.indices)}]{guard}"


@lru_cache(maxsize=1 << 15)
def _composed(inner: View, outer: View) -> View:
    """Substitution of the outer indices for the coordinates of the inner view's result; graphs repeat few views."""
    pairs = zip(inner.shape, outer.indices, strict=True)
    mapping = {Axis(f"i{k}", size): index for k, (size, index) in enumerate(pairs)}
    indices = tuple(index.substitute(mapping) for index in inner.indices)  # type: ignore[arg-type]
    moved = tuple(guard.substitute(mapping) for guard in inner.guards)  # type: ignore[arg-type]
    return View(outer.shape, indices, _kept_guards(outer.guards + moved))


@lru_cache(maxsize=1 << 14)
def _reshaping(source: Shape, target: Shape) -> View:
    """The view of a dense source under another shape."""
    before, after = product(source), product(target)
    if before != after:
        kind = ShapeError if before.is_constant and after.is_constant else SymbolicError
        raise kind(
            f"cannot reshape {show_shape(source)} ({before} elements) to {show_shape(target)} "
            f"({after} elements); the products of the sizes must be equal for every value of the dims"
        )
    if before == 0:
        return View(target, tuple(as_expr(0) for _ in source), (as_expr(-1),))
    return View(target, _reshaped_indices(source, target))


def _kept_guards(guards: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Drop guards that always hold and repeats; one that never holds stands alone."""
    if any(guard.bounds()[1] < 0 for guard in guards):
        return (as_expr(-1),)
    return tuple(dict.fromkeys(guard for guard in guards if not guard.is_non_negative()))


def _reshaped_indices(source: Shape, target: Shape) -> tuple[Expr, ...]:
    """Row-major index of the target's coordinates, split by the source's strides."""
    flat = as_expr(0)
    for size, coordinate in zip(target, coordinates(target), strict=True):
        flat = flat * as_expr(size) + coordinate
    indices: list[Expr] = []
    for k, size in enumerate(source):
        quotient = flat // product(list(source[k + 1 :]))
        indices.append(as_expr(0) if size == 1 else (quotient if k == 0 else quotient % as_expr(size)))
    return tuple(indices)
