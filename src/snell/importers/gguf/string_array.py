"""A GGUF array of strings, found quickly and decoded only when it is read.

A vocabulary is a chain: eight bytes of length, the text, eight bytes of length, the next text. ``locate_strings``
finds all texts of such a chain without a Python step for each: in almost every link the length is below 256, so that
the link is one non-zero byte followed by exactly seven zero bytes, which NumPy finds in bulk. A link found that way
is accepted only where the chain from the first string leads to it; every other link is followed one by one. Parsing
the 98,000 strings of SmolLM2's header so takes a few milliseconds instead of hundreds.
"""

from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np
import numpy.typing as npt

from snell.importers.gguf.cursor import U64, Cursor

__all__ = ["StringArray", "read_string_array"]

Offsets = npt.NDArray[np.int64]

_PREFIX_BYTES = 8
_SMALLEST_WINDOW = 1 << 9
_LARGEST_WINDOW = 1 << 16  # its temporaries stay in the cache: 1 << 20 takes twice as long


class StringArray(Sequence[str]):
    """The strings of one metadata array; an element is decoded once, when it is asked for, as is the whole list."""

    def __init__(self, cursor: Cursor, key: str, starts: Offsets, lengths: Offsets) -> None:
        self._cursor = cursor
        self._key = key
        self._starts = starts
        self._lengths = lengths
        self._decoded: dict[int, str] = {}

    def __len__(self) -> int:
        return int(self._starts.size)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self._decode(position) for position in range(*index.indices(len(self)))]
        place = index if 0 <= index < self._starts.size else range(len(self))[index]
        found = self._decoded.get(place)
        if found is None:
            found = self._decoded[place] = self._decode(place)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_list())

    def to_list(self) -> list[str]:
        """All strings; one decoding of the whole region where no text contains a zero character."""
        if len(self) == 0:
            return []
        begin = int(self._starts[0]) - _PREFIX_BYTES
        end = int(self._starts[-1] + self._lengths[-1])
        region = self._cursor.data[begin:end].copy()
        prefixes = self._starts - (_PREFIX_BYTES + begin)
        for byte in range(4):
            region[prefixes + byte] = 0
        long_text = bool((self._lengths >> 32).any())
        if long_text or np.count_nonzero(region == 0) != _PREFIX_BYTES * len(self):
            return self[:]
        try:
            return str(region.data, "utf-8").split("\0" * _PREFIX_BYTES)[1:]
        except UnicodeDecodeError:
            return self[:]  # raises the error of the string that is not UTF-8

    def _decode(self, index: int) -> str:
        start, length = int(self._starts[index]), int(self._lengths[index])
        try:
            return str(self._cursor.data[start : start + length].data, "utf-8")
        except UnicodeDecodeError as error:
            what = f"string {index} of key {self._key!r}"
            raise self._cursor.error(what, f"is not UTF-8 ({error.reason})", start + error.start) from error


def read_string_array(cursor: Cursor, key: str, count: int) -> StringArray:
    """The ``count`` strings at the cursor, which moves behind the last."""
    what = f"key {key!r}"
    if count > cursor.remaining // _PREFIX_BYTES:
        raise cursor.error(what, f"counts {count} strings, more than the rest of the file can hold")
    starts, lengths = np.empty(count, np.int64), np.empty(count, np.int64)
    filled, window = 0, _SMALLEST_WINDOW
    while filled < count:
        found = _short_strings(cursor.data[cursor.position : cursor.position + window])[: count - filled]
        bounds = np.cumsum(found + _PREFIX_BYTES)
        covered = int(bounds[-1]) if found.size else 0
        into = slice(filled, filled + found.size)
        lengths[into] = found
        starts[into] = cursor.position + bounds - found
        filled += found.size
        cursor.skip(covered, what)
        # A file made of nothing but long or empty strings must not pay for a large window at every link.
        window = min(window * 4, _LARGEST_WINDOW) if 2 * covered > window else max(window // 4, _SMALLEST_WINDOW)
        if filled < count:
            length = cursor.unsigned(U64, what)
            lengths[filled], starts[filled] = length, cursor.skip(length, f"string {filled} of {what}")
            filled += 1
    return StringArray(cursor, key, starts, lengths)


def _short_strings(window: npt.NDArray[np.uint8]) -> Offsets:
    """Lengths of the strings that the chain from the window's first byte reaches through short links alone."""
    zero = window == 0
    two = zero[:-1] & zero[1:]
    four = two[:-2] & two[2:]
    seven = four[:-3] & four[3:]  # seven[i]: the bytes i to i + 6 are zero
    links = np.flatnonzero(seven[1:-1] & ~zero[:-_PREFIX_BYTES] & ~zero[_PREFIX_BYTES:])
    if links.size == 0 or links[0] != 0:
        return np.empty(0, np.int64)
    lengths = window[links].astype(np.int64)
    follows = links[1:] == links[:-1] + _PREFIX_BYTES + lengths[:-1]
    reached = follows.size if follows.all() else int(np.argmin(follows))
    return lengths[: reached + 1]
