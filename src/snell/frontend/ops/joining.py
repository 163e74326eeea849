"""Joining and splitting tensors along an axis."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from snell.dtypes import bool_
from snell.errors import ShapeError
from snell.frontend.ops.comparison import less, where
from snell.frontend.ops.creation import full_like, iota
from snell.frontend.ops.elementwise import astype
from snell.frontend.ops.movement import crop, flip, reshape, unsqueeze, zero_pad
from snell.frontend.promotion import as_tensor, promote
from snell.frontend.shapes import SizeLike, known_size, normal_axis
from snell.frontend.tensor import Tensor, TensorLike
from snell.symbolic import as_expr, as_size, show_shape

__all__ = ["chunk", "concatenate", "pad", "split", "stack"]


def concatenate(tensors: Sequence[TensorLike], axis: int = 0) -> Tensor:
    """The tensors one after another along `axis`; their other extents must be equal.

    Each tensor is padded to the whole extent, and the position selects one of them: values move unchanged, -0 and NaN
    included.
    """
    if not tensors:
        raise ShapeError("concatenate expected at least one tensor, received none")
    parts = promote(*tensors)
    k = normal_axis(axis, parts[0].ndim)
    _check_joinable(parts, k)
    parts = [part for part in parts if part.shape[k] != 0] or parts[:1]
    total = functools.reduce(lambda a, b: a + b, [as_expr(part.shape[k]) for part in parts])
    place = reshape(iota(as_size(total), trace=parts[0].trace), [as_size(total), *[1] * (parts[0].ndim - k - 1)])
    before = as_expr(parts[0].shape[k])
    joined = zero_pad(parts[0], k, 0, total - before)
    for part in parts[1:]:
        extent = as_expr(part.shape[k])
        padded = zero_pad(part, k, before, total - before - extent)
        joined = where(less(place, as_size(before)), joined, padded)
        before = before + extent
    return joined


def _check_joinable(parts: Sequence[Tensor], axis: int) -> None:
    expected = parts[0].shape
    for part in parts[1:]:
        same = part.ndim == len(expected) and all(j == axis or size == expected[j] for j, size in enumerate(part.shape))
        if not same:
            raise ShapeError(
                f"cannot concatenate {show_shape(expected)} and {show_shape(part.shape)} along axis {axis}: "
                "all other extents must be equal"
            )


def stack(tensors: Sequence[TensorLike], axis: int = 0) -> Tensor:
    """Tensors of one shape along a new axis."""
    if not tensors:
        raise ShapeError("stack expected at least one tensor, received none")
    parts = promote(*tensors)
    shapes = {part.shape for part in parts}
    if len(shapes) > 1:
        raise ShapeError(f"stack expected tensors of one shape, received {', '.join(sorted(map(show_shape, shapes)))}")
    place = normal_axis(axis, parts[0].ndim + 1)
    return concatenate([unsqueeze(part, place) for part in parts], place)


def split(x: TensorLike, sizes: SizeLike | Sequence[SizeLike], axis: int = 0) -> tuple[Tensor, ...]:
    """Pieces along `axis`: of the given sizes, or of one size each (the last may be smaller).

    Raises ShapeError where the sizes do not add up to the extent.
    """
    tensor = as_tensor(x)
    k = normal_axis(axis, tensor.ndim)
    extent = tensor.shape[k]
    if isinstance(sizes, Sequence):
        pieces = [as_size(size) for size in sizes]
    else:
        length, whole = known_size(as_size(sizes), "split"), known_size(extent, "split into equal pieces")
        if length < 1:
            raise ShapeError(f"split expected a size of at least 1, received {length}")
        pieces = [min(length, whole - start) for start in range(0, whole, length)] or [0]
    total = functools.reduce(lambda a, b: a + as_expr(b), pieces, as_expr(0))
    if total != as_expr(extent):
        raise ShapeError(f"split sizes {show_shape(tuple(pieces))} add up to {total}, axis {k} has extent {extent}")
    results: list[Tensor] = []
    start = as_expr(0)
    for size in pieces:
        results.append(crop(tensor, k, start, size))
        start = start + size
    return tuple(results)


def chunk(x: TensorLike, count: int, axis: int = 0) -> tuple[Tensor, ...]:
    """`count` equal pieces along `axis`, whose extent must be a multiple of it (a Dim's `multiple` counts)."""
    tensor = as_tensor(x)
    extent = as_expr(tensor.shape[normal_axis(axis, tensor.ndim)])
    size = extent // count
    if size * count != extent:
        raise ShapeError(f"chunk expected an extent that {count} divides, received {extent}; use split with sizes")
    return split(tensor, [as_size(size)] * count, axis)


Widths = Sequence[tuple[SizeLike, SizeLike]]


def pad(x: TensorLike, widths: Widths, value: TensorLike = 0, mode: str = "constant") -> Tensor:
    """(before, after) elements around each axis; fewer pairs than axes pad the last ones.  Negative widths crop.

    Modes: "constant" (`value`), "edge" (the border's), "reflect" (mirrored, without the border), "wrap" (periodic).
    """
    tensor = as_tensor(x)
    pairs = [(0, 0)] * (tensor.ndim - len(widths)) + list(widths)
    if len(pairs) != tensor.ndim:
        raise ShapeError(
            f"pad expected at most {tensor.ndim} pairs for {show_shape(tensor.shape)}, received {len(widths)}"
        )
    if mode == "constant":
        return _pad_constant(tensor, pairs, value)
    for axis, (before, after) in enumerate(pairs):
        if before != 0 or after != 0:
            low, high = (known_size(as_size(width), f"pad mode {mode!r}") for width in (before, after))
            tensor = _pad_repeating(tensor, axis, low, high, mode)
    return tensor


def _pad_constant(x: Tensor, pairs: Widths, value: TensorLike) -> Tensor:
    low, high = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    padded = x.seen_through(x.operand.view.pad(low, high))
    if not isinstance(value, Tensor) and value == 0 and not np.signbit(value):
        return padded
    inside = full_like(x, True, bool_)
    inside = inside.seen_through(inside.operand.view.pad(low, high))
    fill = astype(as_tensor(value), x.dtype)
    return where(inside, padded, fill)


def _pad_repeating(x: Tensor, axis: int, before: int, after: int, mode: str) -> Tensor:
    extent = x.shape[axis]
    longest = max(before, after) + (1 if mode == "reflect" else 0)
    if mode != "edge" and isinstance(extent, int) and longest > extent:
        raise ShapeError(f"pad mode {mode!r} of ({before}, {after}) reaches beyond axis {axis} of extent {extent}")
    end = as_expr(extent)
    match mode:
        case "edge":
            first, last = crop(x, axis, 0, 1), crop(x, axis, end - 1, 1)
            shape = list(x.shape)
            front, back = (
                part.expand([size if k == axis else s for k, s in enumerate(shape)])
                for part, size in ((first, before), (last, after))
            )
        case "reflect":
            front, back = flip(crop(x, axis, 1, before), axis), flip(crop(x, axis, end - 1 - after, after), axis)
        case "wrap":
            front, back = crop(x, axis, end - before, before), crop(x, axis, 0, after)
        case _:
            raise ShapeError(f"unknown pad mode {mode!r}; expected constant, edge, reflect or wrap")
    return concatenate([front, x, back], axis)
