"""Layers that leave numbers out at random in training.

The state of each is `random_state`'s: a key of its own and how often it has drawn.  One state gives one mask, so what is
computed again in a backward pass, or after a resume, is what it was.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from snell.frontend import Tensor, TensorLike, as_tensor, random, where, zeros_like
from snell.frontend.shapes import ShapeLike
from snell.nn.checking import expect_fraction, expect_rank
from snell.nn.keys import drawn_key, random_state
from snell.nn.layer import Layer, Params, State

__all__ = ["AlphaDropout", "ChannelDropout", "Dropout"]

# What selu tends to far below 0: -scale·alpha of Klambauer et al. (2017).
_SELU_FLOOR = -1.7580993408473766


@dataclass(frozen=True)
class Dropout(Layer):
    """In training each number becomes 0 with probability `rate`, and the others are divided by 1 - rate (Srivastava et
    al., 2014); otherwise x as it is.  Any shape.
    """

    rate: float = 0.5

    def __post_init__(self) -> None:
        expect_fraction(self, rate=self.rate)

    def initial_state(self, key: Tensor) -> dict[str, Any]:
        return random_state(key)

    def __call__(
        self, x: TensorLike, params: Params, state: State, *, train: bool = False
    ) -> tuple[Tensor, dict[str, Any]]:
        given = as_tensor(x)
        if not train:
            return given, dict(state)
        key, after = drawn_key(state)
        return _dropped(given, key, given.shape, self.rate), after


@dataclass(frozen=True)
class ChannelDropout(Layer):
    """As Dropout, of whole channels: (n, channels, positions…), with one to three axes of positions (Tompson et al., 2015).

    PyTorch's Dropout1d to Dropout3d.  Raises ShapeError for an x of fewer than two axes.
    """

    rate: float = 0.5

    def __post_init__(self) -> None:
        expect_fraction(self, rate=self.rate)

    def initial_state(self, key: Tensor) -> dict[str, Any]:
        return random_state(key)

    def __call__(
        self, x: TensorLike, params: Params, state: State, *, train: bool = False
    ) -> tuple[Tensor, dict[str, Any]]:
        given = expect_rank(self, x, 2, "(n, channels, …)")
        if not train:
            return given, dict(state)
        key, after = drawn_key(state)
        return _dropped(given, key, (*given.shape[:2], *[1] * (given.ndim - 2)), self.rate), after


@dataclass(frozen=True)
class AlphaDropout(Layer):
    """Dropout for networks of selu: numbers become the least that selu gives, and the result is scaled and shifted so that
    zero mean and unit variance stay (Klambauer et al., 2017).  Any shape.
    """

    rate: float = 0.5

    def __post_init__(self) -> None:
        expect_fraction(self, rate=self.rate)

    def initial_state(self, key: Tensor) -> dict[str, Any]:
        return random_state(key)

    def __call__(
        self, x: TensorLike, params: Params, state: State, *, train: bool = False
    ) -> tuple[Tensor, dict[str, Any]]:
        given = as_tensor(x)
        if not train:
            return given, dict(state)
        key, after = drawn_key(state)
        if self.rate == 1.0:
            return zeros_like(given), after
        kept = 1.0 - self.rate
        scale = 1.0 / math.sqrt(kept * (1.0 + self.rate * _SELU_FLOOR**2))
        shift = -scale * self.rate * _SELU_FLOOR
        keep = random.bernoulli(key, kept, given.shape)
        return where(keep, given, _SELU_FLOOR) * scale + shift, after


def _dropped(x: Tensor, key: Tensor, shape: ShapeLike, rate: float) -> Tensor:
    """x with 0 where a mask of the shape, which broadcasts to that of x, says so."""
    if rate == 1.0:
        return zeros_like(x)
    keep = random.bernoulli(key, 1.0 - rate, shape)
    return keep * (x * (1.0 / (1.0 - rate)))
