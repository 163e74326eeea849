"""Channels as pixels and back: the rearrangement by which a convolution computes a finer image (Shi et al., 2016)."""

from __future__ import annotations

from snell.errors import ShapeError
from snell.frontend.ops.movement import permute, reshape
from snell.frontend.promotion import as_tensor
from snell.frontend.tensor import Tensor, TensorLike
from snell.symbolic import as_expr, as_size, show_shape

__all__ = ["pixel_shuffle", "pixel_unshuffle"]


def pixel_shuffle(x: TensorLike, factor: int) -> Tensor:
    """(…, c·factor², h, w) → (…, c, h·factor, w·factor): result[c, h·f + a, w·f + b] = x[(c·f + a)·f + b, h, w].

    Raises ShapeError where factor² does not divide the channels.
    """
    tensor = as_tensor(x)
    _require_image(tensor, factor, "pixel_shuffle")
    *batch, channels, height, width = tensor.shape
    kept = as_expr(channels) // factor**2
    if kept * factor**2 != as_expr(channels):
        raise ShapeError(
            f"pixel_shuffle by {factor} expected a multiple of {factor**2} channels, received {show_shape(tensor.shape)}"
        )
    first = len(batch)
    split = reshape(tensor, [*batch, as_size(kept), factor, factor, height, width])
    order = (*range(first), first, first + 3, first + 1, first + 4, first + 2)
    extents = [as_size(as_expr(size) * factor) for size in (height, width)]
    return reshape(permute(split, order), [*batch, as_size(kept), *extents])


def pixel_unshuffle(x: TensorLike, factor: int) -> Tensor:
    """(…, c, h·factor, w·factor) → (…, c·factor², h, w): the inverse of `pixel_shuffle`.

    Raises ShapeError where the factor does not divide height and width.
    """
    tensor = as_tensor(x)
    _require_image(tensor, factor, "pixel_unshuffle")
    *batch, channels, height, width = tensor.shape
    rows, columns = as_expr(height) // factor, as_expr(width) // factor
    if rows * factor != as_expr(height) or columns * factor != as_expr(width):
        raise ShapeError(
            f"pixel_unshuffle by {factor} expected a height and a width that it divides, received "
            f"{show_shape(tensor.shape)}"
        )
    first = len(batch)
    split = reshape(tensor, [*batch, channels, as_size(rows), factor, as_size(columns), factor])
    order = (*range(first), first, first + 2, first + 4, first + 1, first + 3)
    extents = [as_size(as_expr(channels) * factor**2), as_size(rows), as_size(columns)]
    return reshape(permute(split, order), [*batch, *extents])


def _require_image(x: Tensor, factor: int, name: str) -> None:
    if x.ndim < 3 or factor < 1:
        raise ShapeError(
            f"{name} expected (…, channels, height, width) and a factor of at least 1, received "
            f"{show_shape(x.shape)} and {factor}"
        )
