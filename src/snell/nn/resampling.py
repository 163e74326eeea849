"""Finer and coarser images: interpolation, and channels as pixels.  No layer here has parameters or state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, final

from snell.errors import ConfigError, ShapeError
from snell.frontend import Tensor, TensorLike, as_tensor, interpolate, pixel_shuffle, pixel_unshuffle
from snell.nn.layer import Layer, Params, State
from snell.nn.spatial import image_of, make_hashable
from snell.symbolic import show_shape

__all__ = ["PixelShuffle", "PixelUnshuffle", "Upsample"]

# PyTorch names the straight lines by the number of axes, which the input says as well.
_LINEAR = {"linear": None, "bilinear": 2, "trilinear": 3}


@final
@dataclass(frozen=True)
class Upsample(Layer):
    """(n, channels, *spatial) → (n, channels, *size), or the extents times `scale_factor`, rounded down.

    `mode` is "nearest" or "linear" ("bilinear" and "trilinear" also check the number of axes); `align_corners` keeps first
    and last elements in their places.  Raises ConfigError unless one of size and scale is given, of 1 to 3 positive
    numbers, ShapeError for an input of other axes.
    """

    size: int | Sequence[int] | None = None
    scale_factor: float | Sequence[float] | None = None
    _: KW_ONLY
    mode: str = "nearest"
    align_corners: bool = False

    def __post_init__(self) -> None:
        modes = ("nearest", *_LINEAR)
        if self.mode not in modes or (self.align_corners and self.mode == "nearest"):
            raise ConfigError(
                f"Upsample expected mode {', '.join(modes)}, and align_corners with a linear one alone; received "
                f"{self.mode!r}, align_corners={self.align_corners}"
            )
        given = self.size if self.scale_factor is None else self.scale_factor
        values = tuple(given) if isinstance(given, Sequence) else (given,)
        one_of_them = (self.size is None) != (self.scale_factor is None)
        if not one_of_them or len(values) not in (1, 2, 3) or any(value is None or value <= 0 for value in values):
            raise ConfigError(
                "Upsample expected either size or scale_factor, one positive number or one a spatial axis; received "
                f"size={self.size!r}, scale_factor={self.scale_factor!r}"
            )
        make_hashable(self, "size", "scale_factor")

    def __call__(
        self, x: TensorLike, params: Params, state: State, *, train: bool = False
    ) -> tuple[Tensor, dict[str, Any]]:
        given = self.size if self.scale_factor is None else self.scale_factor
        rank = len(given) if isinstance(given, Sequence) else _LINEAR.get(self.mode)
        image = image_of(self, x, rank)
        mode = "nearest" if self.mode == "nearest" else "linear"
        options: dict[str, Any] = {"scale": self.scale_factor, "mode": mode, "align_corners": self.align_corners}
        return interpolate(image, self.size, **options), dict(state)


@final
@dataclass(frozen=True)
class PixelShuffle(Layer):
    """(…, c·factor², h, w) → (…, c, h·factor, w·factor).  ShapeError where factor² does not divide the channels."""

    upscale_factor: int

    def __post_init__(self) -> None:
        _require_factor(self, self.upscale_factor)

    def __call__(
        self, x: TensorLike, params: Params, state: State, *, train: bool = False
    ) -> tuple[Tensor, dict[str, Any]]:
        return pixel_shuffle(_pixels(self, x), self.upscale_factor), dict(state)


@final
@dataclass(frozen=True)
class PixelUnshuffle(Layer):
    """(…, c, h·factor, w·factor) → (…, c·factor², h, w).  ShapeError where the factor divides not both extents."""

    downscale_factor: int

    def __post_init__(self) -> None:
        _require_factor(self, self.downscale_factor)

    def __call__(
        self, x: TensorLike, params: Params, state: State, *, train: bool = False
    ) -> tuple[Tensor, dict[str, Any]]:
        return pixel_unshuffle(_pixels(self, x), self.downscale_factor), dict(state)


def _require_factor(layer: Layer, factor: int) -> None:
    if factor < 1:
        raise ConfigError(f"{type(layer).__name__} expected a factor of at least 1, received {factor}")


def _pixels(layer: Layer, x: TensorLike) -> Tensor:
    image = as_tensor(x)
    if image.ndim < 3:
        raise ShapeError(
            f"{type(layer).__name__} expected (…, channels, height, width), received {show_shape(image.shape)}"
        )
    return image
