"""Indexing by integers that are data: gathers and scatters as sums over a comparison with an iota.

`Σ_j [j == idx]·x_j` costs no more than the elements read: the compiler turns the sum into an indexed load and its
transpose into a scatter-add.  Modes for an index outside its axis: "raise" (a recorded check fails; negative indices
count from the end), "wrap" (modulo the extent), "clip" (to the nearest element), "zero" (reads as 0, writes nothing).
"""

from __future__ import annotations

from collections.abc import Sequence

from snell.dtypes import bool_, f32, i8, i32, i64
from snell.errors import DTypeError, ShapeError, UnsupportedError
from snell.frontend.ops.comparison import clip, equal, less, logical_and, logical_not, logical_or, where
from snell.frontend.ops.creation import iota, size_of
from snell.frontend.ops.cumulative import cumsum
from snell.frontend.ops.division import floor_divide, modulo
from snell.frontend.ops.elementwise import astype, multiply
from snell.frontend.ops.movement import crop, flatten, movedim, reshape, unsqueeze, zero_pad
from snell.frontend.ops.reduction import any as any_of
from snell.frontend.ops.reduction import max as max_of
from snell.frontend.ops.reduction import raw_sum
from snell.frontend.promotion import DTypeLike, as_dtype, as_tensor, lift
from snell.frontend.shapes import SizeLike, known_size, normal_axis
from snell.frontend.tensor import Tensor, TensorLike
from snell.symbolic import Size, as_expr, as_size, product, show_shape

__all__ = [
    "Places", "as_indices", "embedding", "gather", "nonzero", "one_hot", "scatter", "scatter_add", "take", "take_along_axis",
    "update_rows",
]  # fmt: skip


def as_indices(x: Tensor, what: str) -> Tensor:
    """Integers wide enough to be compared with any position: i32 or i64."""
    if not x.dtype.is_integer:
        raise DTypeError(f"{what} expected integer indices, received {x.dtype}; cast them with .astype('i64')")
    if x.dtype in (i32, i64) and not x.weak:
        return x
    return astype(x, i32 if x.dtype.bits < 32 else i64)


class Places:
    """Indices as positions of an axis, and the condition under which they are ones (None: always)."""

    def __init__(self, indices: Tensor, extent: Size, mode: str, *, negative: bool = True) -> None:
        self.given = indices
        self.condition: Tensor | None = None
        self.extent = extent
        size = size_of(extent)
        match mode:
            case "raise":
                below = less(indices, -size if negative else 0)
                self.condition = logical_and(logical_not(below), less(indices, size))
                self.positions = where(less(indices, 0), indices + size, indices) if negative else indices
            case "wrap":
                self.positions = modulo(indices, size)
            case "clip":
                self.positions = clip(indices, 0, size - 1)
            case "zero":
                self.positions = indices
            case _:
                raise UnsupportedError(f"unknown mode {mode!r}; expected raise, wrap, clip or zero")

    def guard(self, result: Tensor, what: str) -> Tensor:
        """Record the check on a result that was computed with the positions."""
        if self.condition is not None:
            trace = result.trace
            condition, value = (as_tensor(t, trace).operand for t in (self.condition, self.given))
            message = f"{what}: index {{value}} is out of range for an axis of extent {self.extent}"
            trace.check(condition, value, message, result.operand.node)
        return result


def _selected_sum(mask: Tensor, values: Tensor) -> Tensor:
    """Σ over the last axis of the values where the mask holds (at one place, or nowhere)."""
    if values.dtype == bool_:
        return astype(raw_sum(multiply(mask, astype(values, i8)), -1), bool_)
    return raw_sum(multiply(mask, values), -1)


def take(x: TensorLike, indices: TensorLike, axis: int = 0, *, mode: str = "raise") -> Tensor:
    """Slices of x along `axis`: shape x.shape[:axis] + indices.shape + x.shape[axis+1:].

    Raises DTypeError for indices that are not integers; out of range, see the modes of this module.
    """
    tensor, idx = lift(x, indices)
    k = normal_axis(axis, tensor.ndim)
    places = Places(as_indices(idx, "take"), tensor.shape[k], mode)
    return places.guard(_picked(tensor, places.positions, k), "take")


def _picked(x: Tensor, positions: Tensor, axis: int) -> Tensor:
    extent, after = x.shape[axis], x.ndim - axis - 1
    candidates = reshape(movedim(x, axis, -1), [*x.shape[:axis], *[1] * positions.ndim, *x.shape[axis + 1 :], extent])
    wanted = reshape(positions, [*positions.shape, *[1] * (after + 1)])
    return _selected_sum(equal(wanted, iota(extent, positions.dtype)), candidates)


def embedding(table: TensorLike, ids: TensorLike, *, mode: str = "raise") -> Tensor:
    """Rows of a (vocabulary, width) table: ids of any shape → (*ids.shape, width).  Negative ids are out of range."""
    rows, idx = lift(table, ids)
    if rows.ndim != 2:
        raise ShapeError(f"embedding expected a table (vocabulary, width), received {show_shape(rows.shape)}")
    places = Places(as_indices(idx, "embedding"), rows.shape[0], mode, negative=False)
    return places.guard(_picked(rows, places.positions, 0), "embedding")


def take_along_axis(x: TensorLike, indices: TensorLike, axis: int = -1, *, mode: str = "raise") -> Tensor:
    """result[…, k, …] = x[…, indices[…, k, …], …]; the other axes of x and indices broadcast."""
    tensor, idx = lift(x, indices)
    if tensor.ndim != idx.ndim:
        raise ShapeError(
            f"take_along_axis expected equal ranks, received {show_shape(tensor.shape)} and {show_shape(idx.shape)}"
        )
    k = normal_axis(axis, tensor.ndim)
    places = Places(as_indices(idx, "take_along_axis"), tensor.shape[k], mode)
    candidates = unsqueeze(movedim(tensor, k, -1), -2)
    wanted = unsqueeze(movedim(places.positions, k, -1), -1)
    picked = _selected_sum(equal(wanted, iota(tensor.shape[k], places.positions.dtype)), candidates)
    return places.guard(movedim(picked, -1, k), "take_along_axis")


def gather(x: TensorLike, indices: TensorLike, axis: int = -1) -> Tensor:
    """`take_along_axis` under PyTorch's name: result[…, k, …] = x[…, indices[…, k, …], …].

    As in PyTorch the other axes of the indices may be shorter than those of x, whose first elements they meet then.
    """
    tensor, idx = lift(x, indices)
    k = normal_axis(axis, tensor.ndim)
    if tensor.ndim == idx.ndim:
        for j in range(tensor.ndim):
            if j != k and tensor.shape[j] != idx.shape[j] and idx.shape[j] != 1:
                tensor = crop(tensor, j, 0, _shorter(idx.shape[j], tensor.shape[j], j))
            elif j != k and idx.shape[j] == 1:
                tensor = crop(tensor, j, 0, 1)
    return take_along_axis(tensor, idx, k)


def _shorter(size: Size, extent: Size, axis: int) -> Size:
    if not (as_expr(extent) - as_expr(size)).is_non_negative():
        raise ShapeError(f"gather expected indices of at most {extent} along axis {axis}, received {size}")
    return size


def one_hot(indices: TensorLike, count: SizeLike, dtype: DTypeLike = f32) -> Tensor:
    """(*shape,) → (*shape, count): 1 at the index, 0 elsewhere; all 0 for an index out of range."""
    idx = as_indices(as_tensor(indices), "one_hot")
    return astype(equal(unsqueeze(idx, -1), iota(count, idx.dtype)), as_dtype(dtype))


def _hits(x: Tensor, idx: Tensor, updates: Tensor, axis: int, mode: str) -> tuple[Places, Tensor, Tensor]:
    """Places; hits (extent, 1…, n) and updates (…, 1, …, n) over (before, extent, after, n updates)."""
    expected = (*x.shape[:axis], *idx.shape, *x.shape[axis + 1 :])
    if updates.shape != expected:
        updates = updates.seen_through(updates.operand.view.expand(expected))
    places = Places(as_indices(idx, "scatter"), x.shape[axis], mode)
    count = as_size(product(list(idx.shape)))
    flat = reshape(updates, [*x.shape[:axis], count, *x.shape[axis + 1 :]])
    moved = unsqueeze(movedim(flat, axis, -1), axis)
    positions = reshape(places.positions, [1] * (x.ndim - axis) + [count])
    rows = reshape(iota(x.shape[axis], positions.dtype), [x.shape[axis], *[1] * (x.ndim - axis)])
    return places, equal(positions, rows), moved


def scatter_add(
    x: TensorLike, indices: TensorLike, updates: TensorLike, axis: int = 0, *, mode: str = "raise"
) -> Tensor:
    """x with updates (x.shape[:axis] + indices.shape + x.shape[axis+1:]) added at the indices; repeats add up."""
    tensor, idx, given = lift(x, indices, updates)
    k = normal_axis(axis, tensor.ndim)
    places, hits, moved = _hits(tensor, idx, astype(given, tensor.dtype), k, mode)
    return places.guard(tensor + raw_sum(multiply(hits, moved), -1), "scatter_add")


def scatter(x: TensorLike, indices: TensorLike, updates: TensorLike, axis: int = 0, *, mode: str = "raise") -> Tensor:
    """x with its slices at the indices replaced by updates; of several at one index the last wins."""
    tensor, idx, given = lift(x, indices, updates)
    k = normal_axis(axis, tensor.ndim)
    places, hits, moved = _hits(tensor, idx, astype(given, tensor.dtype), k, mode)
    order = iota(hits.shape[-1], i64, trace=tensor.trace)
    last = max_of(multiply(hits, order), -1, keepdims=True) if hits.shape[-1] != 0 else size_of(0)
    chosen = logical_and(hits, equal(order, last))
    value = _selected_sum(chosen, moved)
    return places.guard(where(any_of(hits, -1), value, tensor), "scatter")


def nonzero(mask: TensorLike, size: SizeLike, fill: int = 0) -> tuple[Tensor, ...]:
    """Indices of the true elements (i64, one tensor (size,) an axis), in row-major order.

    The first `size` of them; `fill` stands where there are fewer.  Extents after the first must be known.
    """
    condition = astype(as_tensor(mask), bool_)
    flags = flatten(condition)
    place = cumsum(flags, 0) - 1
    slots = unsqueeze(iota(size, i64, trace=flags.trace), 1)
    hits = logical_and(flags, equal(place, slots))
    flat = raw_sum(multiply(hits, iota(flags.shape[0], i64, trace=flags.trace)), -1)
    found = any_of(hits, -1)
    return tuple(where(found, index, fill) for index in _unravelled(flat, condition.shape))


def _unravelled(flat: Tensor, shape: Sequence[Size]) -> list[Tensor]:
    if 0 in shape:
        return [flat] * len(shape)  # there is no element, and a modulo by an extent of 0 would fail its check
    indices: list[Tensor] = []
    for k in range(len(shape)):
        stride = known_size(as_size(product(list(shape[k + 1 :]))), "nonzero")
        index = flat if stride == 1 else floor_divide(flat, stride)
        indices.append(index if k == 0 else modulo(index, known_size(shape[k], "nonzero")))
    return indices


def update_rows(
    cache: TensorLike, rows: TensorLike, start: SizeLike | Tensor, axis: int = -2, *, mode: str = "zero"
) -> Tensor:
    """The cache with rows start, start+1, … along `axis` replaced: `where(start <= i < start+n, shifted rows, cache)`.

    This is the normal form of an in-place update: with a donated cache only those rows are written.  `start` is a size,
    or an integer tensor that broadcasts to the axes before `axis` (each sequence of a batch at its own place), where rows
    outside of the cache are dropped (mode "zero") or fail a check of the program ("raise").  Raises ShapeError where the
    other extents differ or a size puts rows outside: where they stand or, for Dims, as a check of the program.
    """
    old, new = lift(cache, rows)
    k = normal_axis(axis, old.ndim)
    new = astype(new, old.dtype)
    shape = tuple(new.shape[k] if j == k else size for j, size in enumerate(old.shape))
    fits = new.ndim == old.ndim and all(size in (1, wanted) for size, wanted in zip(new.shape, shape, strict=True))
    if not fits:
        raise ShapeError(
            f"update_rows expected rows {show_shape(shape)} for axis {k}, received {show_shape(new.shape)}"
        )
    new = new.seen_through(new.operand.view.expand(shape))
    place = reshape(iota(old.shape[k], i64, trace=old.trace), [old.shape[k], *[1] * (old.ndim - k - 1)])
    if isinstance(start, Tensor):
        given = as_indices(start, "update_rows")
        offset = place - _aligned_start(given, k, old.ndim)
        inside = logical_and(logical_not(less(offset, 0)), less(offset, size_of(new.shape[k])))
        updated = where(inside, _rows_at(new, offset, k), old)
        return _guarded_start(updated, given, new.shape[k], old.shape[k], mode)
    low = as_size(start)
    high = as_size(as_expr(start) + new.shape[k])
    _check_fits(low, high, old.shape[k])
    inside = logical_and(logical_not(less(place, size_of(low))), less(place, size_of(high)))
    updated = where(inside, zero_pad(new, k, low, as_size(as_expr(old.shape[k]) - high)), old)
    return _guarded_end(updated, high, old.shape[k])


def _check_fits(low: Size, high: Size, extent: Size) -> None:
    """Refuse rows that lie outside of the cache whatever the sizes are."""
    room = as_expr(extent) - high
    if as_expr(low).bounds()[1] < 0 or room.bounds()[1] < 0:
        raise ShapeError(f"update_rows expected rows inside of extent {extent}, received rows {low}..{high}")


def _guarded_end(updated: Tensor, high: Size, extent: Size) -> Tensor:
    """Check at run time that the rows end inside of the cache, unless the sizes prove it."""
    if not (as_expr(extent) - high).is_non_negative():
        trace = updated.trace
        end, size = (as_tensor(size_of(value), trace) for value in (high, extent))
        message = f"update_rows: the last row would end at {{value}}, beyond the cache's extent {extent}"
        trace.check(logical_not(less(size, end)).operand, end.operand, message, updated.operand.node)
    return updated


def _guarded_start(updated: Tensor, start: Tensor, count: Size, extent: Size, mode: str) -> Tensor:
    """Check at run time that all rows lie inside of the cache, where the mode asks for it."""
    if mode not in ("raise", "zero"):
        raise UnsupportedError(f"update_rows expected mode 'raise' or 'zero', received {mode!r}")
    if mode == "raise":
        trace = updated.trace
        beyond = less(size_of(as_size(as_expr(extent) - count)), start)
        condition, value = (
            as_tensor(t, trace).operand for t in (logical_not(logical_or(less(start, 0), beyond)), start)
        )
        message = f"update_rows: {count} rows from {{value}} on do not fit into the cache's extent {extent}"
        trace.check(condition, value, message, updated.operand.node)
    return updated


def _aligned_start(start: Tensor, axis: int, rank: int) -> Tensor:
    """Starts over the leading axes, beside (…, extent of `axis`, …)."""
    if start.ndim > axis:
        raise ShapeError(
            f"update_rows expected a start over at most {axis} leading axes, received {show_shape(start.shape)}"
        )
    leading = reshape(start, [*start.shape, *[1] * (axis - start.ndim)])
    return astype(reshape(leading, [*leading.shape, *[1] * (rank - axis)]), i64)


def _rows_at(rows: Tensor, offset: Tensor, axis: int) -> Tensor:
    """rows[…, offset, …] along the axis, 0 where there is none."""
    candidates = unsqueeze(movedim(rows, axis, -1), axis)
    wanted = unsqueeze(offset, -1)
    return _selected_sum(equal(wanted, iota(rows.shape[axis], i64, trace=rows.trace)), candidates)
