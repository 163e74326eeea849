"""Host memory: aligned arrays and the addresses of NumPy arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from snell.runtime.arena import ALIGNMENT

__all__ = ["Array", "address", "aligned_empty", "is_usable"]

Array = np.ndarray[Any, Any]


def address(array: Array) -> int:
    """Address of the first element."""
    return array.__array_interface__["data"][0]  # type: ignore[no-any-return]


def is_usable(array: Array) -> bool:
    """True when generated code can read the array in place: C-contiguous, elements on their natural boundaries."""
    flags = array.flags
    return flags.c_contiguous and flags.aligned


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[Array, int]:
    """A new array on a 64-byte boundary, and its address; contents undefined."""
    memory = np.empty(math.prod(shape) * dtype.itemsize + ALIGNMENT, np.uint8)
    start = address(memory)
    skip = -start % ALIGNMENT
    return np.ndarray(shape, dtype, memory, skip), start + skip
