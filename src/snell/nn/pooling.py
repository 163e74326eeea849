"""Pools as layers: windows of 1 to 3 spatial axes, all positions, or as many windows as are asked for.

None has parameters or state.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, final

from snell.errors import ConfigError
from snell.frontend import (
    Tensor,
    TensorLike,
    adaptive_avg_pool,
    adaptive_max_pool,
    avg_pool,
    global_avg_pool,
    global_max_pool,
    max_pool,
    reshape,
)
from snell.nn.layer import Layer, Params, State
from snell.nn.spatial import Numbers, Padding, borders, image_of, make_hashable, numbers

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d", "AdaptivePool", "AvgPool", "AvgPool1d", "AvgPool2d", "AvgPool3d", "GlobalAvgPool",
    "GlobalMaxPool", "MaxPool", "MaxPool1d", "MaxPool2d", "MaxPool3d",
]  # fmt: skip


@dataclass(frozen=True)
class MaxPool(Layer):
    """The greatest element of each window: (n, channels, *spatial) → (n, channels, *positions).

    The stride defaults to the window; padding never wins; with `ceil_mode` a last window may reach beyond the end.
    Raises ConfigError for options that mean nothing, ShapeError for an input of other axes.
    """

    kernel_size: Numbers
    stride: Numbers | None = None
    padding: Padding = 0
    dilation: Numbers = 1
    _: KW_ONLY
    ceil_mode: bool = False

    @property
    @abc.abstractmethod
    def rank(self) -> int:
        """Number of spatial axes."""

    def __post_init__(self) -> None:
        _require_windows(self, self.kernel_size, self.stride, self.padding, self.rank, self.dilation)
        make_hashable(self, "kernel_size", "stride", "padding", "dilation")

    @final
    def __call__(
        self, x: TensorLike, params: Params, state: State, *, train: bool = False
    ) -> tuple[Tensor, dict[str, Any]]:
        result = max_pool(
            image_of(self, x, self.rank),
            self.kernel_size,
            stride=self.stride,
            padding=self.padding,
            dilation=self.dilation,
            ceil_mode=self.ceil_mode,
        )
        return result, dict(state)


@dataclass(frozen=True)
class AvgPool(Layer):
    """The mean of each window: (n, channels, *spatial) → (n, channels, *positions).

    The stride defaults to the window; padding counts as zeros unless `count_include_pad` is false.  Raises ConfigError
    for options that mean nothing, ShapeError for an input of other axes.
    """

    kernel_size: Numbers
    stride: Numbers | None = None
    padding: Padding = 0
    _: KW_ONLY
    ceil_mode: bool = False
    count_include_pad: bool = True

    @property
    @abc.abstractmethod
    def rank(self) -> int:
        """Number of spatial axes."""

    def __post_init__(self) -> None:
        _require_windows(self, self.kernel_size, self.stride, self.padding, self.rank)
        make_hashable(self, "kernel_size", "stride", "padding")

    @final
    def __call__(
        self, x: TensorLike, params: Params, state: State, *, train: bool = False
    ) -> tuple[Tensor, dict[str, Any]]:
        result = avg_pool(
            image_of(self, x, self.rank),
            self.kernel_size,
            stride=self.stride,
            padding=self.padding,
            ceil_mode=self.ceil_mode,
            count_include_pad=self.count_include_pad,
        )
        return result, dict(state)


def _require_windows(
    layer: Layer, size: Numbers, stride: Numbers | None, padding: Padding, rank: int, dilation: Numbers = 1
) -> None:
    """ConfigError where the options mean nothing."""
    lengths = numbers(layer, "kernel_size", size, rank)
    strides = lengths if stride is None else numbers(layer, "stride", stride, rank)
    borders(layer, padding, lengths, strides, numbers(layer, "dilation", dilation, rank))


@dataclass(frozen=True)
class AdaptivePool(Layer):
    """Windows chosen so that the result has given extents: (n, channels, *spatial) → (n, channels, *output_size).

    `output_size` is one number or one a spatial axis, None where an axis keeps its extent.  Raises ConfigError for
    another number of sizes, ShapeError for an input of other axes.
    """

    output_size: int | Sequence[int | None]

    @property
    @abc.abstractmethod
    def rank(self) -> int:
        """Number of spatial axes."""

    @property
    @abc.abstractmethod
    def pool(self) -> Callable[[Tensor, Sequence[int | None]], Tensor]:
        """What is made of each window."""

    def __post_init__(self) -> None:
        given = self.output_size
        sizes = (given,) * self.rank if isinstance(given, int) else tuple(given)
        if len(sizes) != self.rank or any(size is not None and size < 1 for size in sizes):
            raise ConfigError(
                f"{type(self).__name__}: output_size expected 1 or {self.rank} sizes of at least 1 (None keeps an "
                f"extent), received {given!r}"
            )
        make_hashable(self, "output_size")

    @final
    def __call__(
        self, x: TensorLike, params: Params, state: State, *, train: bool = False
    ) -> tuple[Tensor, dict[str, Any]]:
        return self.pool(image_of(self, x, self.rank), self.output_size), dict(state)  # type: ignore[arg-type]  # in its one form


@final
@dataclass(frozen=True)
class GlobalAvgPool(Layer):
    """The mean over all positions: (n, channels, *spatial) → (n, channels, 1, …), or (n, channels) without `keepdims`."""

    keepdims: bool = True

    def __call__(
        self, x: TensorLike, params: Params, state: State, *, train: bool = False
    ) -> tuple[Tensor, dict[str, Any]]:
        return _kept(global_avg_pool(image_of(self, x)), self.keepdims), dict(state)


@final
@dataclass(frozen=True)
class GlobalMaxPool(Layer):
    """The greatest element over all positions: (n, channels, *spatial) → (n, channels, 1, …), or (n, channels)."""

    keepdims: bool = True

    def __call__(
        self, x: TensorLike, params: Params, state: State, *, train: bool = False
    ) -> tuple[Tensor, dict[str, Any]]:
        return _kept(global_max_pool(image_of(self, x)), self.keepdims), dict(state)


def _kept(pooled: Tensor, keepdims: bool) -> Tensor:
    return pooled if keepdims else reshape(pooled, pooled.shape[:2])


@final
@dataclass(frozen=True)
class MaxPool1d(MaxPool):
    """`MaxPool` over 1 spatial axis."""

    rank = 1


@final
@dataclass(frozen=True)
class AvgPool1d(AvgPool):
    """`AvgPool` over 1 spatial axis."""

    rank = 1


@final
@dataclass(frozen=True)
class MaxPool2d(MaxPool):
    """`MaxPool` over 2 spatial axes."""

    rank = 2


@final
@dataclass(frozen=True)
class AvgPool2d(AvgPool):
    """`AvgPool` over 2 spatial axes."""

    rank = 2


@final
@dataclass(frozen=True)
class MaxPool3d(MaxPool):
    """`MaxPool` over 3 spatial axes."""

    rank = 3


@final
@dataclass(frozen=True)
class AvgPool3d(AvgPool):
    """`AvgPool` over 3 spatial axes."""

    rank = 3


@final
@dataclass(frozen=True)
class AdaptiveMaxPool1d(AdaptivePool):
    """The greatest element of each adaptive window over 1 spatial axis."""

    rank = 1
    pool = staticmethod(adaptive_max_pool)


@final
@dataclass(frozen=True)
class AdaptiveMaxPool2d(AdaptivePool):
    """The greatest element of each adaptive window over 2 spatial axes."""

    rank = 2
    pool = staticmethod(adaptive_max_pool)


@final
@dataclass(frozen=True)
class AdaptiveMaxPool3d(AdaptivePool):
    """The greatest element of each adaptive window over 3 spatial axes."""

    rank = 3
    pool = staticmethod(adaptive_max_pool)


@final
@dataclass(frozen=True)
class AdaptiveAvgPool1d(AdaptivePool):
    """The mean of each adaptive window over 1 spatial axis."""

    rank = 1
    pool = staticmethod(adaptive_avg_pool)


@final
@dataclass(frozen=True)
class AdaptiveAvgPool2d(AdaptivePool):
    """The mean of each adaptive window over 2 spatial axes."""

    rank = 2
    pool = staticmethod(adaptive_avg_pool)


@final
@dataclass(frozen=True)
class AdaptiveAvgPool3d(AdaptivePool):
    """The mean of each adaptive window over 3 spatial axes."""

    rank = 3
    pool = staticmethod(adaptive_avg_pool)
