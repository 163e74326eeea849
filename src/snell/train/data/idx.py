"""idx files, the format of MNIST: a header (element type, rank, extents), then the elements, big-endian.

Format: http://yann.lecun.com/exdb/mnist/ (bottom of the page).  Gzip-compressed files are read as they are.
"""

from __future__ import annotations

import gzip
import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from snell.errors import DTypeError, FileFormatError, ModelNotFoundError

__all__ = ["load_idx", "save_idx"]

_DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_CODES = {np.dtype(name): code for code, name in _DTYPES.items()}
_GZIP = b"\x1f\x8b"


def load_idx(path: str | os.PathLike[str]) -> np.ndarray[Any, Any]:
    """The array of an idx file, in the machine's byte order.

    Raises ModelNotFoundError where there is no file, FileFormatError where it is no idx file or cut short.
    """
    file = Path(path)
    if not file.is_file():
        raise ModelNotFoundError(f"{file}: expected an idx file, found no file at this path")
    data = file.read_bytes()
    if data[:2] == _GZIP:
        data = _unzipped(file, data)
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _DTYPES:
        raise FileFormatError(f"{file}: expected an idx file, which begins with 0 0 and a type; found {data[:4].hex()}")
    dtype, rank = np.dtype(_DTYPES[data[2]]), data[3]
    start = 4 + 4 * rank
    if len(data) < start:
        raise FileFormatError(f"{file}: expected {rank} extents in the header, the file has {len(data)} bytes")
    shape = tuple(int(size) for size in np.frombuffer(data, ">u4", rank, 4))
    expected = start + math.prod(shape) * dtype.itemsize
    if len(data) != expected:
        raise FileFormatError(f"{file}: expected {expected} bytes for {shape}, found {len(data)}; fetch the file again")
    return np.frombuffer(data, dtype, offset=start).reshape(shape).astype(dtype.newbyteorder("="))


def save_idx(path: str | os.PathLike[str], array: np.ndarray[Any, Any]) -> None:
    """Write an array as an idx file.  DTypeError for an element type that the format does not have."""
    big = array.dtype.newbyteorder(">")
    if big not in _CODES:
        known = ", ".join(str(dtype.newbyteorder("=")) for dtype in _CODES)
        raise DTypeError(f"idx files hold {known}; received {array.dtype}")
    header = bytes([0, 0, _CODES[big], array.ndim]) + np.asarray(array.shape, ">u4").tobytes()
    Path(path).write_bytes(header + array.astype(big).tobytes())


def _unzipped(file: Path, data: bytes) -> bytes:
    try:
        return gzip.decompress(data)
    except (EOFError, OSError) as error:
        raise FileFormatError(f"{file}: the gzip data is damaged: {error}; fetch the file again") from error
