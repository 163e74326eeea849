"""Rotary position embeddings (Su et al., 2021, https://arxiv.org/abs/2104.09864).

Pairs of coordinates turn by position times a frequency.  With C = (c, c, …) and S = (-s, s, …) the turned vector is
x·C + swapped(x)·S, where `swapped` exchanges the two members of each pair: a view.  C and S are tables computed at
load in float64, because an angle of position 8,000 in float32 is wrong by 5e-4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from snell.errors import UnsupportedError
from snell.llm.hyperparameters import Hyperparameters

if TYPE_CHECKING:
    from snell.frontend.tensor import Tensor

__all__ = ["Pairing", "Rotary", "rotary_from_config", "rotated"]


class Pairing(Enum):
    """Which coordinates form a pair: neighbours (2i, 2i+1), or (i, i + half)."""

    NEIGHBOURS = "neighbours"
    HALVES = "halves"


@dataclass(frozen=True, slots=True)
class Rotary:
    """``dimensions`` of each head turn, all of them; frequency i is base^(-2i/dimensions) / divisors[i]."""

    dimensions: int
    base: float
    pairing: Pairing
    divisors: tuple[float, ...] = ()

    def tables(self, positions: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """C and S, each f32 (positions, dimensions)."""
        exponents = np.arange(0, self.dimensions, 2) / self.dimensions
        frequencies = self.base**-exponents / np.asarray(self.divisors or (1.0,))
        angles = np.arange(positions)[:, None] * frequencies
        cosine, sine = np.cos(angles), np.sin(angles)
        axis = 2 if self.pairing is Pairing.NEIGHBOURS else 1
        shape = (positions, self.dimensions)
        pairs = (np.stack([cosine, cosine], axis), np.stack([-sine, sine], axis))
        same, swapped = (pair.reshape(shape).astype(np.float32) for pair in pairs)
        return same, swapped

    def swapped(self, x: Tensor) -> Tensor:
        """The last axis with the members of each pair exchanged."""
        half = self.dimensions // 2
        inner = (half, 2) if self.pairing is Pairing.NEIGHBOURS else (2, half)
        axis = -1 if self.pairing is Pairing.NEIGHBOURS else -2
        return x.reshape(*x.shape[:-1], *inner).flip(axis).reshape(*x.shape)


def rotated(x: Tensor, rotary: Rotary, same: Tensor, swapped: Tensor) -> Tensor:
    """(…, tokens, dimensions) turned by the tables' rows for the tokens, each (tokens, dimensions)."""
    return x * same + rotary.swapped(x) * swapped


def rotary_from_config(config: Hyperparameters, dimensions: int) -> Rotary:
    """The embedding that a ``config.json`` describes; Hugging Face models pair halves.

    Transformers 5 writes ``rope_parameters``, earlier versions ``rope_theta`` and ``rope_scaling``.
    """
    parameters = config.group("rope_parameters" if "rope_parameters" in config else "rope_scaling")
    base = parameters.number("rope_theta", config.number("rope_theta", 10000.0))
    kind = parameters.text("rope_type", parameters.text("type", "default"))
    match kind:
        case "default":
            divisors: tuple[float, ...] = ()
        case "linear":
            divisors = (parameters.number("factor"),) * (dimensions // 2)
        case "llama3":
            divisors = _llama3_divisors(parameters, base, dimensions)
        case _:
            raise UnsupportedError(f"{parameters.where}: rope_type {kind!r}; supported are default, linear and llama3")
    return Rotary(dimensions, base, Pairing.HALVES, divisors)


def _llama3_divisors(parameters: Hyperparameters, base: float, dimensions: int) -> tuple[float, ...]:
    """Llama 3.1: long wavelengths are divided by the factor, short ones kept, those between interpolated."""
    factor = parameters.number("factor")
    low, high = parameters.number("low_freq_factor"), parameters.number("high_freq_factor")
    trained = parameters.integer("original_max_position_embeddings")
    return tuple(
        _llama3_divisor(2 * math.pi * base ** (2 * i / dimensions), factor, (low, high), trained)
        for i in range(dimensions // 2)
    )


def _llama3_divisor(wavelength: float, factor: float, bounds: Sequence[float], trained: int) -> float:
    low, high = bounds
    if wavelength < trained / high:
        return 1.0
    if wavelength > trained / low:
        return factor
    smooth = (trained / wavelength - low) / (high - low)
    return 1 / ((1 - smooth) / factor + smooth)
