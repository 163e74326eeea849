"""CachePool: memory for the caches of texts, under a budget, and the prompts it remembers.

A text is given memory for all positions that it may ever need before it begins, so none is stopped for another.  What
finished texts leave behind is kept while there is room: a text whose prompt begins in the same way starts from a copy
of those positions.  Memory is counted in pages, as the system hands it out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from snell.llm.serving.text_cache import TextCache

__all__ = ["CachePool", "Pages"]


@dataclass(frozen=True, slots=True)
class Pages:
    """``positions`` share a page of each array; a page of all arrays takes ``nbytes``, whatever a text's length ``extra``."""

    positions: int
    nbytes: int
    extra: int = 0

    def bytes_of(self, positions: int) -> int:
        """Memory for the first so many positions."""
        return -(-positions // self.positions) * self.nbytes + (self.extra if positions else 0)


@dataclass(slots=True, eq=False)
class _Held:
    """A cache in the pool with the prompt it is about, and the memory that it counts for.

    ``touched`` positions were written by texts that had the cache before.
    """

    prompt: npt.NDArray[np.int64]
    cache: TextCache
    nbytes: int
    touched: int = 0


class CachePool:
    """Used by one thread."""

    def __init__(self, budget: int, pages: Pages, make: Callable[[], TextCache]) -> None:
        self.budget = budget
        self.reused = 0  # positions of all prompts that were there already
        self._pages = pages
        self._make = make
        self._taken: dict[int, _Held] = {}
        self._left: list[_Held] = []  # the one used last at the end

    @property
    def nbytes(self) -> int:
        """Memory that counts against the budget now: texts that run, and what finished ones left."""
        return sum(held.nbytes for held in (*self._taken.values(), *self._left))

    def ever_fits(self, positions: int) -> bool:
        """Whether a text of so many positions can run at all."""
        return self._pages.bytes_of(positions) <= self.budget

    def take(self, text: int, prompt: Sequence[int], positions: int) -> int | None:
        """Memory for a text; how many positions of its prompt are there already.  None where it must wait.

        At least one token of a prompt is left, whose pass gives the first logits.
        """
        ids = np.asarray(prompt, np.int64)
        needed = self._pages.bytes_of(positions)
        if needed + sum(held.nbytes for held in self._taken.values()) > self.budget:
            return None
        source, shared = self._longest(ids[:-1])
        self._make_room(needed, source)
        if source is None:
            held = _Held(ids, self._make(), needed)
        elif self.nbytes + needed <= self.budget:
            held = _Held(ids, self._make(), needed)
            held.cache.copy_prefix(source.cache, shared)
            self._use(source)
        else:
            held = self._taken_over(source, ids, shared, needed)
        self._taken[text] = held
        self.reused += shared
        return shared

    def cache(self, text: int) -> TextCache:
        """The cache of a text that runs."""
        return self._taken[text].cache

    def release(self, text: int) -> None:
        """The text ended; what it knows of its prompt is kept until the memory is needed."""
        held = self._taken.pop(text)
        held.prompt = held.prompt[: held.cache.prefilled]
        held.touched = max(held.touched, held.cache.past)
        held.nbytes = self._pages.bytes_of(held.touched)
        if held.prompt.size:
            self._left = [other for other in self._left if _shared(other.prompt, held.prompt) < other.prompt.size]
            self._left.append(held)

    def _longest(self, wanted: npt.NDArray[np.int64]) -> tuple[_Held | None, int]:
        best: tuple[_Held | None, int] = (None, 0)
        for held in (*self._left, *self._taken.values()):
            shared = _shared(held.prompt[: held.cache.prefilled], wanted)
            if shared > best[1]:
                best = (held, shared)
        return best

    def _taken_over(self, source: _Held, ids: npt.NDArray[np.int64], shared: int, needed: int) -> _Held:
        """What a finished text left, where there is no room for it beside a copy."""
        self._left.remove(source)
        source.cache.past = source.cache.prefilled = shared
        return _Held(ids, source.cache, max(needed, source.nbytes), source.touched)

    def _use(self, held: _Held) -> None:
        if held in self._left:
            self._left.remove(held)
            self._left.append(held)

    def _make_room(self, needed: int, spared: _Held | None) -> None:
        """Forget what was used longest ago, but not the spared one."""
        for held in list(self._left):
            if self.nbytes + needed <= self.budget:
                return
            if held is not spared:
                self._left.remove(held)


def _shared(first: npt.NDArray[np.int64], second: npt.NDArray[np.int64]) -> int:
    """Length of the common beginning."""
    length = min(first.size, second.size)
    different = np.flatnonzero(first[:length] != second[:length])
    return int(different[0]) if different.size else length
