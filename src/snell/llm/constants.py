"""Arrays computed for a program, as bytes for the cache: read back, they are views that nothing has copied.

    bytes ::= length of the header (8 bytes), JSON header [[name, dtype, shape, offset], …], padding, arrays

`np.savez` would check and copy the four megabytes of a model's rotary tables twice more, 12 ms of each start.
"""

import json
from collections.abc import Mapping

import numpy as np

from snell.dtypes import from_name, from_numpy
from snell.errors import FileFormatError
from snell.llm.compiler_protocol import Array

__all__ = ["constants_from_bytes", "constants_to_bytes"]

_ALIGNMENT = 64
_LENGTH_BYTES = 8


def constants_to_bytes(arrays: Mapping[str, Array]) -> bytes:
    """The arrays, each on a boundary of the data that begins behind the header."""
    rows: list[list[object]] = []
    body: list[bytes] = []
    offset = 0
    for name, array in arrays.items():
        content = array.tobytes()
        padded = content + bytes(-len(content) % _ALIGNMENT)
        rows.append([name, from_numpy(array.dtype).name, list(array.shape), offset])
        body.append(padded)
        offset += len(padded)
    header = json.dumps(rows).encode()
    header += b" " * (-(len(header) + _LENGTH_BYTES) % _ALIGNMENT)
    return len(header).to_bytes(_LENGTH_BYTES, "little") + header + b"".join(body)


def constants_from_bytes(data: bytes) -> dict[str, Array]:
    """What ``constants_to_bytes`` wrote, as read-only arrays over the same memory; FileFormatError if it is not that."""
    start = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "little")
    try:
        return {
            name: np.ndarray(tuple(shape), from_name(dtype).numpy, data, start + offset)
            for name, dtype, shape, offset in json.loads(data[_LENGTH_BYTES:start])
        }
    except (ValueError, TypeError) as error:
        raise FileFormatError(f"expected arrays that were written as constants: {error}") from error
