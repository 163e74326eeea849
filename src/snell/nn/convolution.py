"""Convolutions over 1, 2 and 3 spatial axes.

    Conv2d(3, 16, 5, sn.relu, stride=2, padding=2)

Parameters are `weight` (out, in/groups, *kernel) and `bias` (out,), both uniform within ±1/√(in/groups · elements of the
kernel) at first, as in PyTorch.
"""

from __future__ import annotations

import abc
from dataclasses import KW_ONLY, dataclass
from typing import Any, final

from snell.dtypes import f32
from snell.errors import ConfigError
from snell.frontend import DTypeLike, Tensor, TensorLike, conv, pad
from snell.nn.initialisers import Initialiser
from snell.nn.kernel_parameters import kernel_parameters
from snell.nn.layer import Layer, Params, State
from snell.nn.linear import Activation, activated
from snell.nn.spatial import Numbers, Padding, borders, image_of, make_hashable, numbers

__all__ = ["Conv1d", "Conv2d", "Conv3d", "Convolution"]

# PyTorch's names of the paddings, and those of `sn.pad`.
_PADDING_MODES = {"zeros": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@dataclass(frozen=True)
class Convolution(Layer):
    """A convolution over `rank` spatial axes: (n, in_channels, *spatial) → (n, out_channels, *positions).

    `kernel_size`, `stride` and `dilation` are one integer or one an axis.  `padding` is one, one or a pair (before, after)
    an axis, "valid" (none) or "same" (with stride 1: extents stay); `padding_mode` says what stands there: "zeros",
    "reflect", "replicate" or "circular".  `groups` divides both numbers of channels.

    Raises ConfigError for options that mean nothing, ShapeError for an input of other axes or channels.
    """

    in_channels: int
    out_channels: int
    kernel_size: Numbers
    activation: Activation | None = None
    _: KW_ONLY
    stride: Numbers = 1
    padding: Padding = 0
    dilation: Numbers = 1
    groups: int = 1
    bias: bool = True
    padding_mode: str = "zeros"
    weight_init: Initialiser | None = None
    bias_init: Initialiser | None = None
    dtype: DTypeLike = f32

    @property
    @abc.abstractmethod
    def rank(self) -> int:
        """Number of spatial axes."""

    def __post_init__(self) -> None:
        name = type(self).__name__
        require_groups(name, self.in_channels, self.out_channels, self.groups)
        if self.padding_mode not in _PADDING_MODES:
            raise ConfigError(
                f"{name}: padding_mode expected {', '.join(_PADDING_MODES)}, received {self.padding_mode!r}"
            )
        lengths = numbers(self, "kernel_size", self.kernel_size, self.rank)
        strides = numbers(self, "stride", self.stride, self.rank)
        dilations = numbers(self, "dilation", self.dilation, self.rank)
        borders(self, self.padding, lengths, strides, dilations)
        make_hashable(self, "kernel_size", "stride", "padding", "dilation")

    @final
    def parameters(self, key: Tensor) -> dict[str, Any]:
        window = numbers(self, "kernel_size", self.kernel_size, self.rank)
        return kernel_parameters(self, key, (self.out_channels, self.in_channels // self.groups), window)

    @final
    def __call__(
        self, x: TensorLike, params: Params, state: State, *, train: bool = False
    ) -> tuple[Tensor, dict[str, Any]]:
        image = image_of(self, x, self.rank, self.in_channels)
        padding: Padding = self.padding
        if self.padding_mode != "zeros":
            options = ("kernel_size", "stride", "dilation")
            sizes = [numbers(self, name, getattr(self, name), self.rank) for name in options]
            image = pad(image, borders(self, padding, *sizes), mode=_PADDING_MODES[self.padding_mode])
            padding = 0
        result = conv(
            image,
            params["weight"],
            params.get("bias"),
            stride=self.stride,
            padding=padding,
            dilation=self.dilation,
            groups=self.groups,
        )
        return activated(result, self.activation), dict(state)


def require_groups(name: str, in_channels: int, out_channels: int, groups: int) -> None:
    """ConfigError unless the groups divide positive numbers of channels."""
    if min(in_channels, out_channels, groups) < 1 or in_channels % groups or out_channels % groups:
        raise ConfigError(
            f"{name} expected positive numbers of channels that `groups` divides, received {in_channels} and "
            f"{out_channels} channels and {groups} groups"
        )


@final
@dataclass(frozen=True)
class Conv1d(Convolution):
    """`Convolution` over (n, in_channels, length)."""

    rank = 1


@final
@dataclass(frozen=True)
class Conv2d(Convolution):
    """`Convolution` over (n, in_channels, height, width)."""

    rank = 2


@final
@dataclass(frozen=True)
class Conv3d(Convolution):
    """`Convolution` over (n, in_channels, depth, height, width)."""

    rank = 3
