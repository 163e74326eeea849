"""Decoder: what a family of text generators is, and what its layers may use while a step is traced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from snell.dtypes import DType
from snell.llm.cache import CacheShape

if TYPE_CHECKING:
    from snell.frontend.tensor import Tensor
    from snell.llm.traced_cache import StepCache
    from snell.llm.weights import Weights

__all__ = ["Decoder", "DecoderSizes"]


@dataclass(frozen=True, slots=True)
class DecoderSizes:
    """What generation must know of a decoder."""

    layers: int
    kv_heads: int
    head_dim: int
    context: int
    vocabulary: int

    def cache(self, capacity: int, dtype: DType) -> CacheShape:
        """The cache of a text of at most ``capacity`` tokens."""
        return CacheShape(self.layers, self.kv_heads, capacity, self.head_dim, dtype)


class Decoder(Protocol):
    """The hyperparameters of one model, and its layers as functions of weights and tokens."""

    @property
    def sizes(self) -> DecoderSizes:
        """The sizes generation depends on."""
        ...

    def hidden(self, weights: Weights, tokens: Tensor, cache: StepCache) -> Tensor:
        """i32 (tokens,), whose positions the cache knows → normalised hidden states f32 (tokens, d)."""
        ...

    def logits(self, weights: Weights, hidden: Tensor) -> Tensor:
        """f32 (n, d) → f32 (n, vocabulary)."""
        ...
