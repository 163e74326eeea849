"""Encoder: what a family of text encoders is, and the ways in which a text's states can become one vector."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from snell.frontend.tensor import Tensor
    from snell.llm.weights import Weights

__all__ = ["Encoder", "EncoderSizes", "Pooling"]


class Pooling(Enum):
    """The mean of all tokens' states, the first token's, or the last one's."""

    MEAN = "mean"
    CLS = "cls"
    LAST = "last"


@dataclass(frozen=True, slots=True)
class EncoderSizes:
    """What embedding must know of an encoder; ``width`` is the length of a state, ``context`` the most tokens."""

    width: int
    context: int
    vocabulary: int


class Encoder(Protocol):
    """The hyperparameters of one model, and its layers as a function of weights and tokens."""

    @property
    def sizes(self) -> EncoderSizes:
        """The sizes embedding depends on."""
        ...

    def hidden(self, weights: Weights, tokens: Tensor, mask: Tensor) -> Tensor:
        """i32 and bool (texts, tokens) → states f32 (texts, tokens, width); mask is true at a text's own tokens."""
        ...
