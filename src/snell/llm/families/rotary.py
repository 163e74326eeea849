"""Rotary position embeddings (Su et al., 2021, https://arxiv.org/abs/2104.09864).

Pairs of coordinates turn by position times a frequency.  With C = (c, c, …) and S = (-s, s, …) the turned vector is
x·C + swapped(x)·S, where `swapped` exchanges the two members of each pair: a view.  C and S come from tables computed at
load in float64, because an angle of position 8,000 in float32 is wrong by 5e-4.  There are two of each, for every 256th
position and for the first 256, which addition theorems put together: a context of 32,768 positions would take 32 MB.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from snell.deferred import deferred
from snell.llm.families.rope_scaling import Scaling

if TYPE_CHECKING:
    from snell.frontend.ops import indexing, joining
    from snell.frontend.tensor import Tensor
else:
    indexing = deferred("snell.frontend.ops.indexing")
    joining = deferred("snell.frontend.ops.joining")

__all__ = ["Pairing", "Rotary", "rotated", "turns_at"]

_STEP = 256


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

    def tables(self, positions: int) -> dict[str, npt.NDArray[np.float32]]:
        """C and S of every ``_STEP``-th position of a context, and of the first ``_STEP``, each f32 (…, dimensions)."""
        frequencies = self.base ** -(np.arange(0, self.dimensions, 2) / self.dimensions)
        magnitude = 1.0
        if self.scaling is not None:
            frequencies = frequencies / self.scaling.divisors(positions, self.base, self.dimensions)
            magnitude = self.scaling.magnitude
        coarse = np.arange(0, positions, _STEP)[:, None] * frequencies
        fine = np.arange(min(positions, _STEP))[:, None] * frequencies
        parts = {"coarse": (coarse, magnitude), "fine": (fine, 1.0)}
        return {
            f"{part}.{kind}": array
            for part, (angles, factor) in parts.items()
            for kind, array in zip(("same", "swapped"), self._spread(angles, factor), strict=True)
        }

    def _spread(self, angles: npt.NDArray[np.float64], factor: float) -> list[npt.NDArray[np.float32]]:
        """C and S of angles (…, dimensions / 2)."""
        cosine, sine = np.cos(angles) * factor, np.sin(angles) * factor
        axis = 2 if self.pairing is Pairing.NEIGHBOURS else 1
        shape = (len(angles), self.dimensions)
        pairs = (np.stack([cosine, cosine], axis), np.stack([-sine, sine], axis))
        return [pair.reshape(shape).astype(np.float32) for pair in pairs]

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


def turns_at(positions: Tensor, tables: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """C and S, each f32 (tokens, dimensions), at positions i32 (tokens,), from `Rotary.tables` as tensors.

    cos(a + b) = cos a · cos b - sin a · sin b, sin(a + b) = sin a · cos b + cos a · sin b; the signs in S cancel, or stay.
    """
    coarse, fine = positions // _STEP, positions % _STEP
    places = {"coarse": coarse, "fine": fine}
    c1, s1, c2, s2 = (
        indexing.embedding(tables[f"{part}.{kind}"], place, mode="zero")
        for part, place in places.items()
        for kind in ("same", "swapped")
    )
    return c1 * c2 - s1 * s2, s1 * c2 + c1 * s2
