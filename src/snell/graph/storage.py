"""Storage: where the elements of an input lie in its bytes, for inputs that are windows over a file."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Storage"]


@dataclass(frozen=True, slots=True)
class Storage:
    """Where an input's elements lie in its bytes: element `i` is at bit `8*offset + Σ i_k * strides[k]`.

    Ordinary inputs are dense and have no Storage; planes of quantised files have one (strides in bits).
    """

    offset: int
    strides: tuple[int, ...]
