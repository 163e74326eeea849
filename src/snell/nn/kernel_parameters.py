"""What convolutions and transposed convolutions hold: a kernel and a bias."""

from __future__ import annotations

import math
from typing import Any, Protocol

from snell.frontend import DTypeLike, Tensor
from snell.nn.initialisers import Initialiser, Uniform
from snell.nn.keys import named_key

__all__ = ["kernel_parameters"]


class _Options(Protocol):
    """The fields of a layer that say what its parameters are."""

    @property
    def out_channels(self) -> int: ...
    @property
    def bias(self) -> bool: ...
    @property
    def weight_init(self) -> Initialiser | None: ...
    @property
    def bias_init(self) -> Initialiser | None: ...
    @property
    def dtype(self) -> DTypeLike: ...


def kernel_parameters(
    layer: _Options, key: Tensor, channels: tuple[int, int], window: tuple[int, ...]
) -> dict[str, Any]:
    """`weight` (*channels, *window) and `bias` (out,), by default uniform within ±1/√(elements of weight[0]).

    PyTorch's default, Kaiming's uniform initialisation with slope √5, is the same for both layouts.
    """
    bound = 1.0 / math.sqrt(channels[1] * math.prod(window))
    usual = Uniform(-bound, bound)
    found = {"weight": (layer.weight_init or usual)(named_key(key, "weight"), (*channels, *window), layer.dtype)}
    if layer.bias:
        found["bias"] = (layer.bias_init or usual)(named_key(key, "bias"), (layer.out_channels,), layer.dtype)
    return found
