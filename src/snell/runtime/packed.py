"""Packed weights on disk: what binding a model's weights made, read back by the next process.

Packing reads and writes every weight once more, and needs the source's pages in memory beside the result.  A file holds
the arrays of one packing program, whose key says of which weights they are:

    file ::= magic, length and JSON header ([name, offset, bytes, sum] an array), zeros up to a page, a block of memory

The block is as it lies in memory, arrays at different places of a page (`targets.ALIASING`), and is mapped: all processes of
a model share its pages (reading it would take two to ten times as long, and products read mapped pages as fast).  Each
array is compared with its sum, so a damaged file is noticed, dropped and made again.  A file appears whole or not
at all; where none can be written, the next process packs again.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import mmap
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final

import numpy as np

from snell.runtime.buffers import Array
from snell.runtime.cache import Cache
from snell.runtime.program import BufferSlot
from snell.targets import ALIASING, PLACE_STEP

__all__ = ["MODELS", "PackedWeights"]

MODELS: Final = "models"
"""The folder, within the cache, of what belongs to models' files."""
_MAGIC: Final = b"snell packed 1\n"
_WORD: Final = 8
_PLACES: Final = range(PLACE_STEP, ALIASING, PLACE_STEP)


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
        with contextlib.suppress(OSError):
            self.cache.write(key, _parts(arrays))


def _parts(arrays: Mapping[str, Array]) -> Iterator[bytes | memoryview]:
    rows: list[tuple[str, int, int, int]] = []
    end = 0
    for (name, array), place in zip(arrays.items(), itertools.cycle(_PLACES)):
        start = end + (place - end) % ALIASING
        rows.append((name, start, array.nbytes, _sum(_bytes(array))))
        end = start + array.nbytes
    header = json.dumps(rows).encode()
    start = _MAGIC + len(header).to_bytes(_WORD, "little") + header
    yield start + bytes(-len(start) % ALIASING)
    end = 0
    for (_, begin, nbytes, _), array in zip(rows, arrays.values(), strict=True):
        yield bytes(begin - end)
        yield _bytes(array).data
        end = begin + nbytes


def _read(file: BinaryIO, slots: Sequence[BufferSlot]) -> dict[str, Array] | None:
    start = file.read(len(_MAGIC) + _WORD)
    length = int.from_bytes(start[len(_MAGIC) :], "little")
    is_whole = start.startswith(_MAGIC) and length <= os.fstat(file.fileno()).st_size
    rows = _rows(file.read(length)) if is_whole else []
    if [row[0] for row in rows] != [slot.name for slot in slots]:
        return None
    begin = len(start) + length + -(len(start) + length) % ALIASING
    block = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)[begin:]
    if block.size != (rows[-1][1] + rows[-1][2] if rows else 0):
        return None
    found: dict[str, Array] = {}
    for (name, begin, nbytes, total), slot in zip(rows, slots, strict=True):
        dtype, shape = slot.dtype.numpy, tuple([int(size) for size in slot.shape if isinstance(size, int)])
        part = block[begin : begin + nbytes]
        if math.prod(shape) * dtype.itemsize != nbytes or _sum(part) != total:
            return None
        found[name] = part.view(dtype).reshape(shape)
    return found


def _rows(header: bytes) -> list[tuple[str, int, int, int]]:
    """What the header says of each array; nothing where it is no header."""
    with contextlib.suppress(ValueError, TypeError):
        return [(name, begin, nbytes, total) for name, begin, nbytes, total in json.loads(header)]
    return []


def _bytes(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)


def _sum(array: Array) -> int:
    """Of the bytes as words, modulo 2^64; any one changed word shows."""
    whole = array.size // _WORD * _WORD
    total = int(np.add.reduce(array[:whole].view(np.uint64), dtype=np.uint64))
    return (total + int.from_bytes(array[whole:].tobytes(), "little")) % (1 << 64)
