"""The header of a GGUF file (version 2 or 3) and its memory-mapped bytes.

``read_gguf`` takes a path and returns a ``GGUFFile``: metadata by key, tensors by name, and the whole file as a
read-only array of bytes that nothing has copied. Invariant: every tensor of a returned file lies inside of the file.
A malformed file is a ``FileFormatError`` that names the key or tensor, the offset and the file's size.
Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import math
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from snell.errors import FileFormatError, ModelNotFoundError, UnsupportedError
from snell.importers.gguf.cursor import U32, U64, Cursor
from snell.importers.gguf.quantisation import Quantisation
from snell.importers.gguf.string_array import StringArray, read_string_array

__all__ = ["GGUFFile", "MetadataValue", "TensorInfo", "read_gguf"]

MetadataValue = bool | int | float | str | StringArray | npt.NDArray[np.generic]

_MAGIC = b"GGUF"
_DEFAULT_ALIGNMENT = 32
_MOST_DIMENSIONS = 4
_BOOL, _STRING, _ARRAY = 7, 8, 9
_SCALARS = {
    0: struct.Struct("<B"), 1: struct.Struct("<b"), 2: struct.Struct("<H"), 3: struct.Struct("<h"),
    4: struct.Struct("<I"), 5: struct.Struct("<i"), 6: struct.Struct("<f"), _BOOL: struct.Struct("<B"),
    10: struct.Struct("<Q"), 11: struct.Struct("<q"), 12: struct.Struct("<d"),
}  # fmt: skip
_ARRAY_DTYPES = {
    0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", _BOOL: "?", 10: "<u8", 11: "<i8", 12: "<f8",
}  # fmt: skip
_TYPES = {quantisation.type_id: quantisation for quantisation in Quantisation}


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Where a tensor lies: ``shape`` in NumPy's order (slowest axis first), ``offset`` from the start of the file."""

    name: str
    shape: tuple[int, ...]
    quantisation: Quantisation
    offset: int
    nbytes: int

    @property
    def columns(self) -> int:
        """Extent of the last axis, along which blocks run."""
        return self.shape[-1] if self.shape else 1

    @property
    def rows(self) -> int:
        """Product of all other extents."""
        return math.prod(self.shape[:-1])


@dataclass(frozen=True, slots=True, eq=False)
class GGUFFile:
    """An open file: ``data`` is the whole file, u8, mapped into memory and read-only."""

    path: Path
    version: int
    metadata: Mapping[str, MetadataValue]
    tensors: Mapping[str, TensorInfo]
    data: npt.NDArray[np.uint8]


def read_gguf(path: str | os.PathLike[str]) -> GGUFFile:
    """Map the file and parse its header; no tensor's bytes are touched."""
    where = Path(path)
    cursor = Cursor(_map(where), str(where))
    version = _read_version(cursor)
    tensor_count = _read_count(cursor, "tensors")
    key_count = _read_count(cursor, "metadata keys")
    metadata: dict[str, MetadataValue] = {}
    for index in range(key_count):
        key, value = _read_key(cursor, index, key_count)
        if key in metadata:
            raise cursor.error(f"key {key!r}", "appears twice")
        metadata[key] = value
    tensors = _read_tensors(cursor, tensor_count, _alignment(cursor, metadata))
    return GGUFFile(where, version, MappingProxyType(metadata), MappingProxyType(tensors), cursor.data)


def _map(path: Path) -> npt.NDArray[np.uint8]:
    if not path.is_file():
        raise ModelNotFoundError(f"{path}: expected a GGUF file, found no file at this path; check its spelling")
    if path.stat().st_size == 0:
        raise FileFormatError(f"{path}: expected a GGUF file, received an empty file (0 bytes); fetch it again")
    return np.asarray(np.memmap(path, dtype=np.uint8, mode="r"))


def _read_version(cursor: Cursor) -> int:
    magic = cursor.data[cursor.skip(len(_MAGIC), "magic") : cursor.position].tobytes()
    if magic != _MAGIC:
        raise cursor.error("magic", f"expected {_MAGIC!r}, received {magic!r}: this is no GGUF file", 0)
    version = cursor.unsigned(U32, "version")
    if version in (2, 3):
        return version
    if version != 0 and version & 0xFFFF == 0:
        raise UnsupportedError(f"{cursor.path}: a big-endian GGUF file; convert it to little-endian first")
    raise UnsupportedError(f"{cursor.path}: GGUF version {version}; versions 2 and 3 are supported, convert it again")


def _read_count(cursor: Cursor, noun: str) -> int:
    count = cursor.unsigned(U64, f"number of {noun}")
    # Every key and every tensor begins with the length of its name.
    if count > cursor.remaining // U64.size:
        raise cursor.error(f"number of {noun}", f"{count} is more than the file can hold", cursor.position - U64.size)
    return count


def _read_key(cursor: Cursor, index: int, count: int) -> tuple[str, MetadataValue]:
    start = cursor.position
    key = cursor.text(f"name of metadata key {index} of {count}")
    if not key:
        raise cursor.error(f"metadata key {index} of {count}", "has an empty name", start)
    what = f"key {key!r}"
    kind = cursor.unsigned(U32, what)
    if kind == _ARRAY:
        return key, _read_array(cursor, key)
    return key, _read_value(cursor, kind, what)


def _read_value(cursor: Cursor, kind: int, what: str) -> bool | int | float | str:
    if kind == _STRING:
        return cursor.text(what)
    if kind not in _SCALARS:
        raise cursor.error(what, f"unknown value type {kind}", cursor.position - U32.size)
    value = cursor.scalar(_SCALARS[kind], what)
    if kind != _BOOL:
        return value
    if value not in (0, 1):
        raise cursor.error(what, f"a boolean is the byte 0 or 1, received {value}", cursor.position - 1)
    return bool(value)


def _read_array(cursor: Cursor, key: str) -> StringArray | npt.NDArray[np.generic]:
    what = f"key {key!r}"
    kind = cursor.unsigned(U32, f"{what} (array type)")
    kind_offset = cursor.position - U32.size
    count = cursor.unsigned(U64, f"{what} (array length)")
    if kind == _STRING:
        return read_string_array(cursor, key, count)
    if kind not in _ARRAY_DTYPES:
        raise cursor.error(what, f"unknown array type {kind}", kind_offset)
    dtype = np.dtype(_ARRAY_DTYPES[kind])
    start = cursor.skip(count * dtype.itemsize, what)
    if kind == _BOOL and bool((cursor.data[start : cursor.position] > 1).any()):
        raise cursor.error(what, "a boolean is the byte 0 or 1, received another value", start)
    return cursor.data[start : cursor.position].view(dtype)


def _alignment(cursor: Cursor, metadata: Mapping[str, MetadataValue]) -> int:
    alignment = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
    if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
        raise cursor.error("key 'general.alignment'", f"expected a power of two, received {alignment!r}")
    return alignment


def _read_tensors(cursor: Cursor, count: int, alignment: int) -> dict[str, TensorInfo]:
    entries: dict[str, tuple[TensorInfo, int]] = {}
    for index in range(count):
        start = cursor.position
        info = _read_tensor(cursor, index, count)
        if info.name in entries:
            raise cursor.error(f"tensor {info.name!r}", "appears twice", start)
        if info.offset % alignment:
            problem = f"its data offset {info.offset} is no multiple of the alignment {alignment}"
            raise cursor.error(f"tensor {info.name!r}", problem, cursor.position - U64.size)
        entries[info.name] = info, start
    data_start = -(-cursor.position // alignment) * alignment
    return {name: _placed(cursor, info, data_start, start) for name, (info, start) in entries.items()}


def _read_tensor(cursor: Cursor, index: int, count: int) -> TensorInfo:
    """One entry of the table; its ``offset`` still counts from the start of the data section."""
    start = cursor.position
    name = cursor.text(f"name of tensor {index} of {count}")
    what = f"tensor {name!r}"
    if not name:
        raise cursor.error(f"tensor {index} of {count}", "has an empty name", start)
    rank = cursor.unsigned(U32, what)
    if rank > _MOST_DIMENSIONS:
        raise cursor.error(what, f"has {rank} dimensions, more than {_MOST_DIMENSIONS}", cursor.position - U32.size)
    shape = tuple(cursor.unsigned(U64, what) for _ in range(rank))[::-1]
    if 0 in shape:
        raise cursor.error(what, f"has a dimension of 0 in its shape {shape}", cursor.position - U64.size * rank)
    type_id = cursor.unsigned(U32, what)
    if type_id not in _TYPES:
        raise cursor.error(what, f"unknown tensor type {type_id}", cursor.position - U32.size)
    quantisation = _TYPES[type_id]
    columns = shape[-1] if shape else 1
    if columns % quantisation.block_values:
        problem = f"its last axis of {columns} is no multiple of a {quantisation.name} block of "
        raise cursor.error(what, problem + f"{quantisation.block_values} values", start)
    nbytes = math.prod(shape) // quantisation.block_values * quantisation.block_bytes
    return TensorInfo(name, shape, quantisation, cursor.unsigned(U64, what), nbytes)


def _placed(cursor: Cursor, info: TensorInfo, data_start: int, entry: int) -> TensorInfo:
    offset = data_start + info.offset
    if offset + info.nbytes > cursor.size:
        problem = f"its data would end at {offset + info.nbytes}, behind the end of the file: the data is cut short"
        raise cursor.error(f"tensor {info.name!r}", problem, entry)
    return TensorInfo(info.name, info.shape, info.quantisation, offset, info.nbytes)
