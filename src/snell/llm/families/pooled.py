"""How the states of a text's tokens become one vector."""

from snell.frontend.ops.comparison import where
from snell.frontend.ops.creation import iota
from snell.frontend.ops.elementwise import astype
from snell.frontend.ops.movement import crop
from snell.frontend.ops.reduction import raw_sum
from snell.frontend.tensor import Tensor
from snell.llm.families.encoder import Pooling

__all__ = ["pooled"]


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
