"""The KV caches of several texts inside of one program: each text has arrays of its own, and a Dim that says its length.

A step adds one token to each text.  What is about a token alone (projections, norms, the feed-forward part) is one
computation over all texts, so the weights are read once; what reads a cache is one computation a text, over exactly the
positions that the text has.
"""

from snell.frontend.context import Trace
from snell.frontend.ops.joining import concatenate
from snell.frontend.ops.movement import crop
from snell.frontend.tensor import Tensor
from snell.graph.node import Operand
from snell.llm.cache import CacheShape
from snell.llm.step import text_past, text_prefix
from snell.llm.traced_cache import Attend, TracedCache
from snell.symbolic import Dim

__all__ = ["BatchedCache"]


class BatchedCache:
    """``positions`` i32 (texts,) are the lengths once more, as data: the place of each text's new token."""

    def __init__(self, trace: Trace, shape: CacheShape, positions: Tensor, texts: int) -> None:
        self.shape = shape
        self._positions = positions
        self._texts = [
            TracedCache(trace, shape, Dim(text_past(text), min=0, max=shape.capacity - 1, typical=(0, 128)), 1, prefix)
            for text, prefix in enumerate(map(text_prefix, range(texts)))
        ]

    def positions(self) -> Tensor:
        """Of each text's token, i32 (texts,)."""
        return self._positions

    def attended(
        self,
        layer: int,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        attend: Attend,
    ) -> Tensor:
        """What each text's token attends, (heads, texts, head_dim), in the order of the texts."""
        parts = [
            cache.attended(layer, *(crop(x, 1, text, 1) for x in (queries, keys, values)), attend)
            for text, cache in enumerate(self._texts)
        ]
        return concatenate(parts, axis=1)

    def outputs(self) -> list[tuple[str, Operand]]:
        """The updated arrays of all texts."""
        return [output for cache in self._texts for output in cache.outputs()]
