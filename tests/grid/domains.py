"""Random data of the grid: what values an argument may hold, chosen so that the right answer is sharp.

Floats are multiples of 1/8 of modest size, so that sums and products are exact and a wrong element cannot hide in a
tolerance; `SPECIAL` and `MODERATE` add the values other systems get wrong.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Any

import ml_dtypes
import numpy as np

from snell.dtypes import DType
from snell.symbolic import Size

__all__ = ["Below", "Domain", "draw"]

Array = np.ndarray[Any, np.dtype[Any]]


class Domain(Enum):
    """What an argument may hold; integers and bool take the nearest meaning."""

    SPECIAL = "any number: NaN, ±inf, ±0, denormals and the greatest among them; integers of the full range"
    MODERATE = "NaN, ±inf and ±0 among small numbers"
    PLAIN = "small finite numbers of both signs"
    POSITIVE = "small numbers above zero"
    NONZERO = "small numbers of both signs, never zero"
    UNIT = "-1..1"
    COUNT = "integers 0..3"


@dataclass(frozen=True, slots=True)
class Below:
    """Integers 0..extent-1 (all zero where the extent is 0)."""

    extent: Size


_ODD = (math.nan, math.inf, -math.inf, 0.0, -0.0)


def draw(domain: Domain, dtype: DType, shape: tuple[int, ...], random: np.random.Generator) -> Array:
    """An array of the domain."""
    if dtype.kind == "bool":
        return random.random(shape) < 0.5
    values = _floats(domain, dtype, shape, random) if dtype.is_float else _integers(domain, dtype, shape, random)
    return values.astype(dtype.numpy)


def _floats(domain: Domain, dtype: DType, shape: tuple[int, ...], random: np.random.Generator) -> Array:
    match domain:
        case Domain.COUNT:
            return random.integers(0, 4, shape).astype(np.float64)
        case Domain.POSITIVE:
            return random.integers(1, 33, shape) / 8.0
        case Domain.UNIT:
            return random.integers(-8, 9, shape) / 8.0
        case Domain.NONZERO:
            return random.integers(1, 33, shape) / 8.0 * random.choice([-1.0, 1.0], shape)
        case Domain.PLAIN:
            return random.integers(-32, 33, shape) / 8.0
        case Domain.MODERATE:
            return _mixed(random.integers(-32, 33, shape) / 8.0, _ODD, random)
        case Domain.SPECIAL:
            info = ml_dtypes.finfo(dtype.numpy)
            least, top = float(info.smallest_subnormal), float(info.max)
            extremes = (*_ODD, least, -3 * least, top, -top, 1.0, -1.0, 0.5, -2.5)
            return _mixed(random.integers(-32, 33, shape) / 8.0, extremes, random)


def _integers(domain: Domain, dtype: DType, shape: tuple[int, ...], random: np.random.Generator) -> Array:
    low, high = (int(bound) for bound in dtype.range)
    signed = low < 0
    match domain:
        case Domain.SPECIAL:
            whole = random.integers(low, high, shape, dtype.numpy, endpoint=True)
            extremes = (low, low + 1, high, high - 1, 0, 1, -1 if signed else 2, 7)
            return _mixed(whole, extremes, random)
        case Domain.POSITIVE:
            return random.integers(1, 9, shape)
        case Domain.NONZERO:
            return random.integers(1, 9, shape) * (random.choice([-1, 1], shape) if signed else 1)
        case Domain.UNIT:
            return random.integers(-1 if signed else 0, 2, shape)
        case Domain.COUNT:
            return random.integers(0, 4, shape)
        case Domain.PLAIN | Domain.MODERATE:
            return random.integers(-8 if signed else 0, 9, shape)


def _mixed(values: Array, extremes: tuple[float, ...], random: np.random.Generator) -> Array:
    """A third of the elements replaced by the extremes."""
    flat = np.asarray(values).reshape(-1).copy()
    chosen = np.flatnonzero(random.random(flat.size) < 1 / 3)
    picks = random.integers(0, len(extremes), chosen.size)
    flat[chosen] = np.array(extremes, flat.dtype)[picks]
    return flat.reshape(np.shape(values))
