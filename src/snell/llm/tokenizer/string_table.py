"""From texts to their places in a list, without a Python object for each: a table that is read as it lies in a file.

A vocabulary's dictionary takes a tenth of a microsecond a look-up but 100 ns to 1 µs for each of its hundred thousands of
texts to make; a prompt of a few words looks up a few dozen.  ``StringTable`` finds a text by its hash in a sorted array
(3 µs), and becomes a dictionary when that would have been the better choice.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b

import numpy as np

from snell.errors import FileFormatError

__all__ = ["StringTable", "is_table", "table_bytes"]

_HASH, _PLACE = np.dtype("<u8"), np.dtype("<i4")
# About as many as take the time of making the dictionary of 100,000 texts.
_LOOKUPS = 8192


class StringTable(Mapping[str, int]):
    """Every text of ``strings`` → its place there, the last one of several; ``data`` is what ``table_bytes`` made."""

    def __init__(self, strings: Sequence[str], data: bytes) -> None:
        if not is_table(data, strings):
            raise FileFormatError(f"expected a table of at most {len(strings)} texts, received {len(data)} bytes")
        count = len(data) // (_HASH.itemsize + _PLACE.itemsize)
        self._strings = strings
        # A memoryview's elements are Python's integers, which `bisect` compares without NumPy.
        self._hashes = memoryview(data)[: count * _HASH.itemsize].cast("Q")
        self._places = memoryview(data)[count * _HASH.itemsize :].cast("i")
        self._left = _LOOKUPS

    def __len__(self) -> int:
        return len(self._hashes)

    def __iter__(self) -> Iterator[str]:
        self._left = 0  # who asks for all of them will look up many
        return iter(self._dictionary)

    def __getitem__(self, text: str) -> int:
        place = self._found(text) if self._left > 0 else self._dictionary.get(text)
        if place is None:
            raise KeyError(text)
        return place

    def __contains__(self, text: object) -> bool:
        return isinstance(text, str) and self.get(text) is not None

    def get(self, text: str, default: int | None = None) -> int | None:  # type: ignore[override]  # no exception on the way
        """The place, or the default."""
        place = self._found(text) if self._left > 0 else self._dictionary.get(text)
        return default if place is None else place

    def _found(self, text: str) -> int | None:
        self._left -= 1
        wanted = _hash(text)
        at = bisect_left(self._hashes, wanted)
        while at < len(self._hashes) and self._hashes[at] == wanted:
            place = self._places[at]
            if self._strings[place] == text:
                return place
            at += 1
        return None

    @cached_property
    def _dictionary(self) -> dict[str, int]:
        return {text: place for place, text in enumerate(self._strings)}


def is_table(data: bytes, strings: Sequence[str]) -> bool:
    """Whether bytes may be the table of these strings."""
    count, rest = divmod(len(data), _HASH.itemsize + _PLACE.itemsize)
    return not rest and count <= len(strings)


def table_bytes(strings: Sequence[str]) -> bytes:
    """The table of the strings: their hashes in order, then the places of these."""
    places = np.array(list({text: place for place, text in enumerate(strings)}.values()), _PLACE)
    hashes = np.array([_hash(strings[place]) for place in places.tolist()], _HASH)
    order = np.argsort(hashes, kind="stable")
    return hashes[order].tobytes() + places[order].tobytes()


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_HASH.itemsize).digest(), "little")
