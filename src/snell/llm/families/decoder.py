"""Decoder: one text generator: its sizes, and the choices of its family, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from snell.dtypes import DType
from snell.llm.cache import CacheShape
from snell.llm.families.description import Activation
from snell.llm.families.rotary import Rotary

__all__ = ["Decoder", "DecoderSizes", "Mixture"]


@dataclass(frozen=True, slots=True)
class DecoderSizes:
    """What generation must know of a decoder.

    ``context`` is what it was trained for, ``longest`` what its positions can be stretched to.
    """

    layers: int
    kv_heads: int
    head_dim: int
    context: int
    longest: int
    vocabulary: int

    def cache(self, capacity: int, dtype: DType) -> CacheShape:
        """The cache of a text of at most ``capacity`` tokens."""
        return CacheShape(self.layers, self.kv_heads, capacity, self.head_dim, dtype)


@dataclass(frozen=True, slots=True)
class Mixture:
    """Feed-forward layers of ``experts``, of which each token meets the ``chosen`` that a router scores highest.

    An expert has ``width`` inner values; beside them each token meets one of ``shared`` inner values (0: none).
    ``normalised``: the scores of the chosen ones are made to add up to 1.  ``layers`` are those that have experts.
    """

    experts: int
    chosen: int
    width: int
    shared: int
    normalised: bool
    layers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Decoder:
    """``width`` is d, ``inner`` the width of the feed-forward layers without experts.

    ``windows`` has for each layer the number of positions that it attends, itself included (0: all).  Layers with a
    window turn by ``local_rotary`` where there is one.  Scores are multiplied by ``score_scale``; a cap c of scores or
    logits (0: none) makes x to c·tanh(x / c).  ``tied``: the head is the transposed token embedding.
    """

    heads: int
    kv_heads: int
    head_dim: int
    width: int
    inner: int
    context: int
    longest: int
    vocabulary: int
    epsilon: float
    windows: tuple[int, ...]
    rotary: Rotary
    local_rotary: Rotary | None
    activation: Activation
    embedding_scale: float
    score_scale: float
    score_cap: float
    logit_cap: float
    tied: bool
    output_norms: bool
    head_norms: bool
    fused: bool
    mixture: Mixture | None

    @property
    def layers(self) -> int:
        """The number of layers."""
        return len(self.windows)

    @property
    def sizes(self) -> DecoderSizes:
        """The sizes generation depends on."""
        return DecoderSizes(self.layers, self.kv_heads, self.head_dim, self.context, self.longest, self.vocabulary)

    @property
    def rotaries(self) -> Mapping[Rotary, str]:
        """The embeddings that layers use, with a name for each."""
        used = {self.rotary_of(layer) for layer in range(self.layers)}
        names = {self.rotary: "rotary", **({} if self.local_rotary is None else {self.local_rotary: "rotary.local"})}
        return {rotary: name for rotary, name in names.items() if rotary in used}

    def rotary_of(self, layer: int) -> Rotary:
        """The embedding that the layer turns by."""
        return self.local_rotary if self.windows[layer] and self.local_rotary is not None else self.rotary
