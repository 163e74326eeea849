"""What is found out about the texts of a vocabulary once: made for every process, or kept from one to the next.

``MadeIndex`` makes it; ``KeptIndex`` asks a cache first, under the identity of the file that the texts are from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from snell.llm.tokenizer.string_table import StringTable, is_table, table_bytes

__all__ = ["ByteCache", "KeptIndex", "MadeIndex", "StringIndex"]


class StringIndex(Protocol):
    """Look-up tables of lists of texts, and facts about them, by the lists' keys."""

    def table(self, key: str, strings: Sequence[str]) -> Mapping[str, int]:
        """Every text → its place, the last one of several."""
        ...

    def fact(self, key: str, find: Callable[[], bool]) -> bool:
        """What ``find`` says."""
        ...


class MadeIndex:
    """A ``StringIndex`` that makes everything anew."""

    def table(self, key: str, strings: Sequence[str]) -> Mapping[str, int]:
        """Every text → its place, the last one of several."""
        texts = list(strings)
        return dict(zip(texts, range(len(texts)), strict=True))

    def fact(self, key: str, find: Callable[[], bool]) -> bool:
        """What ``find`` says."""
        return find()


class ByteCache(Protocol):
    """Keeps bytes by keys."""

    def get(self, key: str) -> bytes | None:
        """The bytes, None where there are none."""
        ...

    def put(self, key: str, payload: bytes) -> None:
        """Keep the bytes."""
        ...


class KeptIndex:
    """A ``StringIndex`` whose tables and facts are in a cache; ``identity`` says whose they are."""

    def __init__(self, cache: ByteCache, identity: str) -> None:
        self._cache = cache
        self._identity = identity

    def table(self, key: str, strings: Sequence[str]) -> Mapping[str, int]:
        """Every text → its place, the last one of several."""
        data = self._cache.get(self._key("table", key))
        if data is None or not is_table(data, strings):
            data = table_bytes(strings)
            self._cache.put(self._key("table", key), data)
        return StringTable(strings, data)

    def fact(self, key: str, find: Callable[[], bool]) -> bool:
        """What ``find`` said once."""
        data = self._cache.get(self._key("fact", key))
        if data is None or len(data) != 1:
            data = bytes([find()])
            self._cache.put(self._key("fact", key), data)
        return bool(data[0])

    def _key(self, kind: str, key: str) -> str:
        return f"{kind} of texts\n{self._identity}\n{key}"
