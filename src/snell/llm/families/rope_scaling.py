"""Ways in which rotary frequencies are changed for texts longer than those a model was trained on first.

A scaling gives the numbers that frequency i, base^(-2i/n), is divided by, and the magnitude that sines and cosines
are multiplied by.  Two of them depend on the length of the text.  A cache keeps keys that are turned already, so that
length is the context which the model was opened with: every position keeps its meaning while a text grows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["Divided", "DynamicBase", "LongRope", "Scaling", "linear", "llama3", "longrope_magnitude", "yarn"]

Floats = npt.NDArray[np.float64]


class Scaling(Protocol):
    """How frequencies are changed."""

    @property
    def magnitude(self) -> float:
        """What sines and cosines are multiplied by."""
        ...

    def divisors(self, positions: int, base: float, dimensions: int) -> Floats:
        """(dimensions / 2,): what each frequency is divided by, in a context of so many positions."""
        ...


@dataclass(frozen=True, slots=True)
class Divided:
    """Fixed divisors, one for each frequency or one for all."""

    factors: tuple[float, ...]
    magnitude: float = 1.0

    def divisors(self, positions: int, base: float, dimensions: int) -> Floats:
        """As given."""
        return np.broadcast_to(np.asarray(self.factors, np.float64), (dimensions // 2,))


@dataclass(frozen=True, slots=True)
class DynamicBase:
    """NTK-aware: contexts beyond the ``trained`` positions raise the base, which leaves short wavelengths alone.

    https://www.reddit.com/r/LocalLLaMA/comments/14mrgpr
    """

    factor: float
    trained: int
    magnitude: float = 1.0

    def divisors(self, positions: int, base: float, dimensions: int) -> Floats:
        """1 up to the trained length."""
        stretch = self.factor * max(positions, self.trained) / self.trained - (self.factor - 1)
        raised = stretch ** (dimensions / (dimensions - 2))
        return raised ** (np.arange(0, dimensions, 2) / dimensions)


@dataclass(frozen=True, slots=True)
class LongRope:
    """Divisors that were searched for, of contexts up to the ``trained`` positions and beyond.

    https://arxiv.org/abs/2402.13753
    """

    short: tuple[float, ...]
    long: tuple[float, ...]
    trained: int
    magnitude: float

    def divisors(self, positions: int, base: float, dimensions: int) -> Floats:
        """The long ones where the context is longer than the trained one."""
        return np.asarray(self.long if positions > self.trained else self.short, np.float64)


def linear(factor: float) -> Scaling:
    """Every position is divided by the factor: https://arxiv.org/abs/2306.15595."""
    return Divided((factor,))


def longrope_magnitude(factor: float, trained: int) -> float:
    """What LongRoPE multiplies by when contexts are longer by the factor than the trained ones."""
    return math.sqrt(1 + math.log(factor) / math.log(trained)) if factor > 1 else 1.0


def yarn(
    factor: float,
    base: float,
    dimensions: int,
    trained: int,
    *,
    rotations: tuple[float, float] = (32.0, 1.0),
    magnitude: float | None = None,
    truncated: bool = True,
) -> Scaling:
    """Frequencies that turn more often than the first of ``rotations`` in the trained length stay, those that turn
    less often than the second are divided, those between are blended: https://arxiv.org/abs/2309.00071.
    """
    first, last = (dimensions * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(base)) for turns in rotations)
    if truncated:
        first, last = math.floor(first), math.ceil(last)
    low, high = max(first, 0), min(last, dimensions - 1)
    high = high + 0.001 if low == high else high
    blend = np.clip((np.arange(dimensions // 2) - low) / (high - low), 0, 1)
    divisors = 1 / (blend / factor + (1 - blend))
    if magnitude is None:
        magnitude = 0.1 * math.log(factor) + 1 if factor > 1 else 1.0
    return Divided(tuple(divisors.tolist()), magnitude)


def llama3(factor: float, base: float, dimensions: int, trained: int, bounds: tuple[float, float]) -> Scaling:
    """Llama 3.1: long wavelengths are divided by the factor, short ones kept, those between interpolated."""
    wavelengths = (2 * math.pi * base ** (2 * i / dimensions) for i in range(dimensions // 2))
    return Divided(tuple(_llama3_divisor(length, factor, bounds, trained) for length in wavelengths))


def _llama3_divisor(wavelength: float, factor: float, bounds: Sequence[float], trained: int) -> float:
    low, high = bounds
    if wavelength < trained / high:
        return 1.0
    if wavelength > trained / low:
        return factor
    smooth = (trained / wavelength - low) / (high - low)
    return 1 / ((1 - smooth) / factor + smooth)
