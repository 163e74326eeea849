"""What layers over images have in common: options of one number or one an axis, and the check of their input.

Images are (n, channels, *spatial) with one, two or three spatial axes.
"""

from __future__ import annotations

from collections.abc import Sequence

from snell.errors import ConfigError, ShapeError
from snell.frontend import Tensor, TensorLike, as_tensor
from snell.frontend.ops.convolution import Padding, padding_pairs
from snell.nn.label import label
from snell.nn.layer import Layer
from snell.symbolic import show_shape

__all__ = ["Numbers", "Padding", "borders", "image_of", "make_hashable", "numbers"]

Numbers = int | Sequence[int]
"""One integer for all spatial axes, or one an axis."""

_AXES = {1: "length", 2: "height, width", 3: "depth, height, width"}


def numbers(layer: Layer, name: str, value: Numbers, rank: int, least: int = 1) -> tuple[int, ...]:
    """An option as one integer a spatial axis; ConfigError where it is not, or where one is below `least`."""
    values = (value,) * rank if isinstance(value, int) else tuple(value)
    if len(values) != rank or any(not isinstance(one, int) or one < least for one in values):
        raise ConfigError(
            f"{type(layer).__name__}: {name} expected 1 or {rank} integers of at least {least}, received {value!r}"
        )
    return values


def make_hashable(layer: Layer, *fields: str) -> None:
    """Options that were given as lists become tuples, so that the layer can be hashed."""
    for field in fields:
        value = getattr(layer, field)
        if isinstance(value, Sequence) and not isinstance(value, str):
            items = tuple(tuple(one) if isinstance(one, Sequence) else one for one in value)
            object.__setattr__(layer, field, items)


def borders(
    layer: Layer, padding: Padding, lengths: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[tuple[int, int], ...]:
    """Elements (before, after) each spatial axis; ConfigError where `padding` says none."""
    spans = [dilation * (length - 1) + 1 for dilation, length in zip(dilations, lengths, strict=True)]
    try:
        return tuple(padding_pairs(padding, spans, strides))
    except ShapeError as error:
        raise ConfigError(f"{type(layer).__name__}: {error}") from error


def image_of(layer: Layer, x: TensorLike, rank: int | None = None, channels: int | None = None) -> Tensor:
    """The input of a layer; ShapeError unless it is (n, channels, *spatial) with `rank` spatial axes (None: any)."""
    image = as_tensor(x)
    fits = image.ndim >= 3 if rank is None else image.ndim == rank + 2
    if not fits or (channels is not None and image.shape[1] != channels):
        axes = "*spatial" if rank is None else _AXES[rank]
        raise ShapeError(
            f"{label(layer)} expected x of shape (n, {'channels' if channels is None else channels}, {axes}), "
            f"received {image.dtype}{show_shape(image.shape)}"
        )
    return image
