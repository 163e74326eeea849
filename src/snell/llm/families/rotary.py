"""Rotary position embeddings (Su et al., 2021, https://arxiv.org/abs/2104.09864).

Pairs of coordinates turn by position times a frequency.  With C = (c, c, …) and S = (-s, s, …) the turned vector is
x·C + swapped(x)·S, where `swapped` exchanges the two members of each pair: a view.  C and S are tables computed at
load in float64, because an angle of position 8,000 in float32 is wrong by 5e-4.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from snell.deferred import deferred
from snell.llm.families.rope_scaling import Scaling

if TYPE_CHECKING:
    from snell.frontend.ops import joining
    from snell.frontend.tensor import Tensor
else:
    joining = deferred("snell.frontend.ops.joining")

__all__ = ["Pairing", "Rotary", "rotated"]


class Pairing(Enum):
    """Which coordinates form a pair: neighbours (2i, 2i+1), or (i, i + half)."""

    NEIGHBOURS = "neighbours"
    HALVES = "halves"


@dataclass(frozen=True, slots=True)
class Rotary:
    """The first ``dimensions`` of each head turn; frequency i is base^(-2i/dimensions), scaled."""

    dimensions: int
    base: float
    pairing: Pairing
    scaling: Scaling | None = None

    def tables(self, positions: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """C and S of a context of so many positions, each f32 (positions, dimensions)."""
        frequencies = self.base ** -(np.arange(0, self.dimensions, 2) / self.dimensions)
        magnitude = 1.0
        if self.scaling is not None:
            frequencies = frequencies / self.scaling.divisors(positions, self.base, self.dimensions)
            magnitude = self.scaling.magnitude
        angles = np.arange(positions)[:, None] * frequencies
        cosine, sine = np.cos(angles) * magnitude, np.sin(angles) * magnitude
        axis = 2 if self.pairing is Pairing.NEIGHBOURS else 1
        shape = (positions, self.dimensions)
        pairs = (np.stack([cosine, cosine], axis), np.stack([-sine, sine], axis))
        same, swapped = (pair.reshape(shape).astype(np.float32) for pair in pairs)
        return same, swapped

    def swapped(self, x: Tensor) -> Tensor:
        """The last axis, of ``dimensions``, with the members of each pair exchanged."""
        half = self.dimensions // 2
        inner = (half, 2) if self.pairing is Pairing.NEIGHBOURS else (2, half)
        axis = -1 if self.pairing is Pairing.NEIGHBOURS else -2
        return x.reshape(*x.shape[:-1], *inner).flip(axis).reshape(*x.shape)


def rotated(x: Tensor, rotary: Rotary, same: Tensor, swapped: Tensor) -> Tensor:
    """(…, tokens, head_dim) turned by the tables' rows for the tokens, each (tokens, dimensions)."""
    width = x.shape[-1]
    assert isinstance(width, int)  # only numbers of tokens and texts are symbolic
    if width == rotary.dimensions:
        return x * same + rotary.swapped(x) * swapped
    turning, still = joining.split(x, [rotary.dimensions, width - rotary.dimensions], -1)
    return joining.concatenate([turning * same + rotary.swapped(turning) * swapped, still], -1)
