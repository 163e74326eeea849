"""Host memory: aligned arrays and the addresses of NumPy arrays."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any, Final

import numpy as np

from snell.runtime.arena import ALIGNMENT
from snell.targets import ALIASING, PLACE_STEP

__all__ = ["LARGE_BYTES", "Array", "address", "aligned_empty", "is_usable"]

Array = np.ndarray[Any, Any]

LARGE_BYTES: Final = 2 * ALIASING
_BYTES: Final = np.dtype(np.uint8)
# Places in a page at which large arrays begin, in turns: none near the beginning, where large arrays of NumPy begin.
_PLACES: Final = itertools.cycle(range(PLACE_STEP, ALIASING, PLACE_STEP))
# NumPy's C ABI: the data pointer is the first field behind the object header (PyArrayObject_fields in ndarraytypes.h).
# Reading it takes 0.15 µs, `__array_interface__` 0.6 µs and `ndarray.ctypes.data` 1 µs, and every call does it per
# array.
_DATA_FIELD: Final = object.__basicsize__
_read_pointer = ctypes.c_void_p.from_address


def _field_address(array: Array) -> int:
    return _read_pointer(id(array) + _DATA_FIELD).value or 0


def _interface_address(array: Array) -> int:
    return array.__array_interface__["data"][0]  # type: ignore[no-any-return]


_SAMPLE: Final = np.zeros(3)
address = _field_address if _field_address(_SAMPLE) == _interface_address(_SAMPLE) else _interface_address
"""Address of an array's first element."""


def is_usable(array: Array) -> bool:
    """True when generated code can read the array in place: C-contiguous, elements on their natural boundaries."""
    flags = array.flags
    return flags.carray or (flags.c_contiguous and flags.aligned)  # `carray` asks for both and more, in one question


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype[Any], nbytes: int) -> tuple[Array, int]:
    """A new array of `nbytes` in all on a 64-byte boundary, and its address; contents undefined.

    Large ones begin at different places of a page (`targets.ALIASING`).
    """
    if nbytes < LARGE_BYTES:
        memory = np.empty(nbytes + ALIGNMENT, _BYTES)
        start = address(memory)
        skip = -start % ALIGNMENT
    else:
        memory = np.empty(nbytes + ALIASING, _BYTES)
        start = address(memory)
        skip = (next(_PLACES) - start) % ALIASING
    return np.ndarray(shape, dtype, memory, skip), start + skip
