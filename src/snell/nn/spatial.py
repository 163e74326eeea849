"""What layers over images have in common: options of one number or one an axis, and the check of their input.

Images are (n, channels, *spatial) with one, two or three spatial axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from snell.errors import ConfigError, ShapeError
from snell.frontend import Tensor, TensorLike, as_tensor, random
from snell.frontend.ops.convolution import Padding, padding_pairs
from snell.nn.layer import Layer
from snell.symbolic import show_shape

__all__ = ["Activation", "Numbers", "Padding", "activated", "borders", "image_of", "numbers", "uniform_within"]

Activation = Callable[[Tensor], Tensor]
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
            f"{type(layer).__name__} expected (n, {'channels' if channels is None else channels}, {axes}), "
            f"received {show_shape(image.shape)}"
        )
    return image


def activated(x: Tensor, activation: Activation | None) -> Tensor:
    """The activation of x, or x itself where there is none."""
    return x if activation is None else activation(x)


def uniform_within(key: Tensor, shape: Sequence[int], bound: float, dtype: object) -> Tensor:
    """Uniform numbers in [-bound, bound)."""
    return random.uniform(key, shape, dtype, -bound, bound)  # type: ignore[arg-type]  # a layer's dtype
