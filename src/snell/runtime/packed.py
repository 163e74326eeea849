"""Packed weights on disk: what binding a model's weights made, read back by the next process.

Packing reads and writes every weight once more, a few hundred milliseconds a gigabyte more than reading the result, and
needs the source's pages in memory beside it.  A file holds the arrays of one packing program, whose key says of which
weights they are:

    file ::= magic, length and JSON header ([name, bytes, sum] an array), arrays one after the other

Arrays are read into memory of their own: the system gives it in large pages, which a mapped file's are not.  Each is
compared with its sum while it is in the core's cache, so a damaged file is noticed, dropped and made again.  A
file appears whole or not at all; one that cannot be written costs a warning.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from snell.runtime.buffers import Array, aligned_empty
from snell.runtime.cache import Cache
from snell.runtime.program import BufferSlot

__all__ = ["PackedWeights"]

_MAGIC: Final = b"snell packed 1\n"
_WORD: Final = 8


@dataclass(frozen=True, slots=True)
class PackedWeights:
    """The packed arrays of programs, by keys that name the program, the machine and the weights' files."""

    cache: Cache

    def get(self, key: str, slots: Sequence[BufferSlot]) -> dict[str, Array] | None:
        """The arrays for these slots; None where there is no file that is whole."""
        try:
            with self.cache.path(key).open("rb") as file:
                found = _read(file, slots)
        except OSError:
            return None
        if found is None:
            self.cache.drop(key)
        else:
            self.cache.mark(key)
        return found

    def put(self, key: str, arrays: Mapping[str, Array]) -> None:
        """Keep the arrays, if they are no more than half of what the folder may hold."""
        if sum(array.nbytes for array in arrays.values()) > self.cache.limit_bytes // 2:
            return
        self.cache.write(key, _parts(arrays))


def _parts(arrays: Mapping[str, Array]) -> Iterator[bytes | memoryview]:
    words = {name: array.reshape(-1).view(np.uint8) for name, array in arrays.items()}
    header = json.dumps([[name, array.nbytes, _sum(array)] for name, array in words.items()]).encode()
    yield _MAGIC + len(header).to_bytes(_WORD, "little") + header
    for array in words.values():
        yield array.data


def _read(file: BinaryIO, slots: Sequence[BufferSlot]) -> dict[str, Array] | None:
    start = file.read(len(_MAGIC) + _WORD)
    if not start.startswith(_MAGIC):
        return None
    header: Any = None
    with contextlib.suppress(ValueError):
        header = json.loads(file.read(int.from_bytes(start[len(_MAGIC) :], "little")))
    wanted = {slot.name: slot for slot in slots}
    if not isinstance(header, list) or [row[0] for row in header] != list(wanted):
        return None
    found: dict[str, Array] = {}
    for name, nbytes, total in header:
        array = _array(wanted[name], nbytes)
        if array is None or file.readinto(array.reshape(-1).view(np.uint8).data) != nbytes:
            return None
        if _sum(array.reshape(-1).view(np.uint8)) != total:
            return None
        found[name] = array
    return found


def _array(slot: BufferSlot, nbytes: int) -> Array | None:
    """Memory for a slot of known size; None where the file has another size for it."""
    shape = tuple([int(size) for size in slot.shape if isinstance(size, int)])
    dtype = slot.dtype.numpy
    if len(shape) < len(slot.shape) or int(np.prod(shape, dtype=np.int64)) * dtype.itemsize != nbytes:
        return None
    return aligned_empty(shape, dtype, nbytes)[0]


def _sum(array: Array) -> int:
    """Of the bytes as words, modulo 2^64; any one changed word shows."""
    whole = array.size // _WORD * _WORD
    total = int(np.add.reduce(array[:whole].view(np.uint64), dtype=np.uint64))
    return (total + int.from_bytes(array[whole:].tobytes(), "little")) % (1 << 64)
