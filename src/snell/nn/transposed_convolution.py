"""Transposed convolutions over 1, 2 and 3 spatial axes: the gradient of a convolution as a layer.

Parameters are `weight` (in, out/groups, *kernel) and `bias` (out,), both uniform within ±1/√(out/groups · elements of the
kernel) at first, as in PyTorch.
"""

from __future__ import annotations

import abc
from dataclasses import KW_ONLY, dataclass
from typing import Any, final

from snell.dtypes import f32
from snell.errors import ConfigError
from snell.frontend import DTypeLike, Tensor, TensorLike, conv_transpose
from snell.nn.convolution import require_groups
from snell.nn.initialisers import Initialiser
from snell.nn.kernel_parameters import kernel_parameters
from snell.nn.layer import Layer, Params, State
from snell.nn.linear import Activation, activated
from snell.nn.spatial import Numbers, Padding, borders, image_of, make_hashable, numbers

__all__ = ["ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "TransposedConvolution"]


@dataclass(frozen=True)
class TransposedConvolution(Layer):
    """A transposed convolution over `rank` axes: (n, in_channels, *positions) → (n, out_channels, *spatial).

    Each extent becomes (extent - 1)·stride - padding + dilation·(kernel - 1) + output_padding + 1, the padding of both
    ends counted.  `padding` is one integer, one or a pair (before, after) an axis, "valid" (none) or "same" (extents times
    the stride).  `output_padding`, below the stride or the dilation, makes up for what a strided convolution left over.

    Raises ConfigError for options that mean nothing, ShapeError for an input of other axes or channels.
    """

    in_channels: int
    out_channels: int
    kernel_size: Numbers
    activation: Activation | None = None
    _: KW_ONLY
    stride: Numbers = 1
    padding: Padding = 0
    output_padding: Numbers = 0
    dilation: Numbers = 1
    groups: int = 1
    bias: bool = True
    weight_init: Initialiser | None = None
    bias_init: Initialiser | None = None
    dtype: DTypeLike = f32

    @property
    @abc.abstractmethod
    def rank(self) -> int:
        """Number of spatial axes."""

    def __post_init__(self) -> None:
        require_groups(type(self).__name__, self.in_channels, self.out_channels, self.groups)
        lengths = numbers(self, "kernel_size", self.kernel_size, self.rank)
        strides = numbers(self, "stride", self.stride, self.rank)
        dilations = numbers(self, "dilation", self.dilation, self.rank)
        extra = numbers(self, "output_padding", self.output_padding, self.rank, 0)
        if any(more >= max(pair) for more, *pair in zip(extra, strides, dilations, strict=True)):
            raise ConfigError(
                f"{type(self).__name__}: output_padding expected numbers below the stride {strides} or the dilation "
                f"{dilations}, received {extra}"
            )
        if self.padding != "same":
            borders(self, self.padding, lengths, strides, dilations)
        make_hashable(self, "kernel_size", "stride", "padding", "output_padding", "dilation")

    @final
    def parameters(self, key: Tensor) -> dict[str, Any]:
        window = numbers(self, "kernel_size", self.kernel_size, self.rank)
        return kernel_parameters(self, key, (self.in_channels, self.out_channels // self.groups), window)

    @final
    def __call__(
        self, x: TensorLike, params: Params, state: State, *, train: bool = False
    ) -> tuple[Tensor, dict[str, Any]]:
        result = conv_transpose(
            image_of(self, x, self.rank, self.in_channels),
            params["weight"],
            params.get("bias"),
            stride=self.stride,
            padding=self._same() if self.padding == "same" else self.padding,
            output_padding=self.output_padding,
            dilation=self.dilation,
            groups=self.groups,
        )
        return activated(result, self.activation), dict(state)

    def _same(self) -> list[tuple[int, int]]:
        """What is cut off each end so that extents are multiplied by the stride; below 0, what is added."""
        options = ("kernel_size", "stride", "dilation", "output_padding")
        columns = [numbers(self, name, getattr(self, name), self.rank, 0) for name in options]
        rows = zip(*columns, strict=True)
        totals = [dilation * (length - 1) + 1 - stride + more for length, stride, dilation, more in rows]
        return [(total // 2, total - total // 2) for total in totals]


@final
@dataclass(frozen=True)
class ConvTranspose1d(TransposedConvolution):
    """`TransposedConvolution` over (n, in_channels, positions)."""

    rank = 1


@final
@dataclass(frozen=True)
class ConvTranspose2d(TransposedConvolution):
    """`TransposedConvolution` over (n, in_channels, rows, columns)."""

    rank = 2


@final
@dataclass(frozen=True)
class ConvTranspose3d(TransposedConvolution):
    """`TransposedConvolution` over (n, in_channels, layers, rows, columns)."""

    rank = 3
