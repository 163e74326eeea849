"""Encoder: what a family of text encoders is, and how the states of a text's tokens become one vector."""

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from snell.frontend.ops.comparison import where
from snell.frontend.ops.creation import iota
from snell.frontend.ops.elementwise import astype
from snell.frontend.ops.movement import crop
from snell.frontend.ops.reduction import raw_sum
from snell.frontend.tensor import Tensor
from snell.llm.weights import Weights

__all__ = ["Encoder", "EncoderSizes", "Pooling", "pooled"]


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


def pooled(hidden: Tensor, lengths: Tensor, pooling: Pooling) -> Tensor:
    """States (texts, tokens, width) of texts of i32 (texts,) tokens → f32 (texts, width)."""
    match pooling:
        case Pooling.CLS:
            return crop(hidden, 1, 0, 1).squeeze(1)
        case Pooling.LAST:
            last = iota(hidden.shape[1], "i32", trace=hidden.trace) == lengths.unsqueeze(1) - 1
            return raw_sum(where(last.unsqueeze(2), hidden, 0.0), 1)
        case Pooling.MEAN:
            own = iota(hidden.shape[1], "i32", trace=hidden.trace) < lengths.unsqueeze(1)
            return raw_sum(where(own.unsqueeze(2), hidden, 0.0), 1) / astype(lengths, "f32").unsqueeze(1)
