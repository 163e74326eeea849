"""TextCache: the KV cache of one text among many, and how much of it may be used again."""

from collections.abc import Callable
from dataclasses import dataclass

from snell.llm.cache import CacheShape
from snell.llm.compiler_protocol import Array

__all__ = ["TextCache", "new_cache"]


@dataclass(slots=True, eq=False)
class TextCache:
    """``past`` positions are written, the first ``prefilled`` of them by a pass over a prompt.

    Only those are given to other texts: a pass over a prompt computes the same bits whatever it is cut into, while
    decoding sums in another order.
    """

    arrays: dict[str, Array]
    past: int = 0
    prefilled: int = 0

    def copy_prefix(self, other: "TextCache", positions: int) -> None:
        """Begin with the first positions of another text."""
        for name, array in self.arrays.items():
            array[:, :positions] = other.arrays[name][:, :positions]
        self.past = self.prefilled = positions


def new_cache(shape: CacheShape) -> Callable[[], TextCache]:
    """What makes caches that take memory as they are written."""
    return lambda: TextCache(shape.empty())
