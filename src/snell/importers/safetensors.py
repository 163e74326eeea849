"""Safetensors files: arrays by name, read through a memory map and written atomically.

``load_safetensors`` returns read-only windows over the mapped file (bfloat16 included), so that only what is used is
read from disk. A malformed file is a ``FileFormatError`` that names the tensor, the offset and the file's size.
Format: https://github.com/huggingface/safetensors#format.
"""

import json
import math
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save

from snell import dtypes
from snell.errors import DTypeError, FileFormatError, ModelNotFoundError

__all__ = ["load_safetensors", "save_safetensors"]

Array = npt.NDArray[Any]

_LENGTH_BYTES = 8
# torch.compile puts this before the names of a module's parameters (pytorch#101107).
_COMPILED_PREFIX = "_orig_mod."
_DTYPES = {
    "BOOL": np.dtype(np.bool_), "U8": np.dtype("<u1"), "I8": np.dtype("<i1"), "U16": np.dtype("<u2"),
    "I16": np.dtype("<i2"), "U32": np.dtype("<u4"), "I32": np.dtype("<i4"), "U64": np.dtype("<u8"),
    "I64": np.dtype("<i8"), "F16": np.dtype("<f2"), "F32": np.dtype("<f4"), "F64": np.dtype("<f8"),
}  # fmt: skip
# NumPy's dtype for it takes 0.4 s to import, so it is asked for where a file has it.
_BF16 = "BF16"
_NAMES = (*_DTYPES, _BF16)


def load_safetensors(path: str | os.PathLike[str]) -> dict[str, Array]:
    """The file's arrays; ``_orig_mod.`` is taken out of their names."""
    file = Path(path)
    data = _map(file)
    header, start = _header(file, data)
    arrays: dict[str, Array] = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        plain = name.replace(_COMPILED_PREFIX, "")
        if plain in arrays:
            raise _error(file, data, f"tensor {plain!r}", f"appears twice once {_COMPILED_PREFIX!r} is taken out")
        arrays[plain] = _array(file, data, start, name, entry)
    return arrays


def save_safetensors(
    path: str | os.PathLike[str], arrays: Mapping[str, Array], metadata: Mapping[str, str] | None = None
) -> None:
    """Write the arrays; the file appears whole or not at all, and replaces an older one."""
    known = {*_DTYPES.values(), dtypes.bf16.numpy}
    for name, array in arrays.items():
        if array.dtype.newbyteorder("<") not in known and array.dtype not in known:
            raise DTypeError(f"tensor {name!r}: safetensors files cannot hold {array.dtype}; convert it first")
    content = save({name: _plain(array) for name, array in arrays.items()}, dict(metadata) if metadata else None)
    target = Path(path)
    descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _plain(array: Array) -> Array:
    # The package takes the memory of an array as it lies, so a view or a big-endian array is copied first.
    little = array.astype(array.dtype.newbyteorder("<"), copy=False) if array.dtype.byteorder == ">" else array
    return np.ascontiguousarray(little).reshape(array.shape)


def _map(file: Path) -> npt.NDArray[np.uint8]:
    if not file.is_file():
        raise ModelNotFoundError(f"{file}: expected a safetensors file, found no file at this path")
    if file.stat().st_size == 0:
        raise FileFormatError(f"{file}: expected a safetensors file, received an empty file (0 bytes); fetch it again")
    data = np.asarray(np.memmap(file, dtype=np.uint8, mode="r"))
    if data.size < _LENGTH_BYTES:
        raise _error(file, data, "header length", f"needs {_LENGTH_BYTES} bytes")
    return data


def _error(file: Path, data: npt.NDArray[np.uint8], what: str, problem: str, offset: int = 0) -> FileFormatError:
    return FileFormatError(
        f"{file}: {what}: {problem} (at offset {offset} of a file of {data.size} bytes); fetch or save it again"
    )


def _header(file: Path, data: npt.NDArray[np.uint8]) -> tuple[dict[str, Any], int]:
    length = int(data[:_LENGTH_BYTES].view("<u8")[0])
    start = _LENGTH_BYTES + length
    if start > data.size:
        raise _error(file, data, "header", f"is {length} bytes long, more than the file has")
    try:
        header = json.loads(data[_LENGTH_BYTES:start].tobytes())
    except (ValueError, RecursionError) as error:  # also a number of more digits than Python reads
        raise _error(file, data, "header", f"is not JSON: {error}", _LENGTH_BYTES) from error
    if not isinstance(header, dict):
        raise _error(file, data, "header", "is not a JSON object", _LENGTH_BYTES)
    return cast("dict[str, Any]", header), start


def _array(file: Path, data: npt.NDArray[np.uint8], start: int, name: str, entry: Any) -> Array:
    what = f"tensor {name!r}"
    fields = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
    shape, offsets = _integers(fields.get("shape")), _integers(fields.get("data_offsets"))
    if shape is None or offsets is None or len(offsets) != 2 or not isinstance(fields.get("dtype"), str):
        raise _error(file, data, what, "expected dtype, shape and data_offsets", _LENGTH_BYTES)
    if fields["dtype"] not in _NAMES:
        raise _error(file, data, what, f"unknown dtype {fields['dtype']}; known are {', '.join(_NAMES)}", _LENGTH_BYTES)
    dtype = dtypes.bf16.numpy if fields["dtype"] == _BF16 else _DTYPES[fields["dtype"]]
    begin, end = start + offsets[0], start + offsets[1]
    if begin > end or end > data.size:
        raise _error(file, data, what, f"its data ends at {end}, but the file before: the data is cut short", begin)
    if end - begin != math.prod(shape) * dtype.itemsize:
        problem = f"{end - begin} bytes of data for the shape {list(shape)} of {fields['dtype']}"
        raise _error(file, data, what, problem, begin)
    try:
        return data[begin:end].view(dtype).reshape(shape)
    except ValueError as error:  # no elements, but an extent or a rank beyond NumPy's
        raise _error(file, data, what, f"has the shape {list(shape)}: {error}", begin) from error


def _integers(value: Any) -> tuple[int, ...] | None:
    """A list of non-negative integers as a tuple; None if it is anything else."""
    if not isinstance(value, list):
        return None
    items = cast("list[Any]", value)
    return tuple(items) if all(type(item) is int and item >= 0 for item in items) else None
