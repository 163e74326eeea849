"""Files mapped into memory: which mapping an array lies in, and giving its pages back."""

from __future__ import annotations

import contextlib
import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["release_pages"]


def release_pages(array: npt.NDArray[Any]) -> None:
    """Give back the memory of the read-only file that the array is a window of; what is used again is read again."""
    mapping = _mapping(array)
    if mapping is not None and hasattr(mmap, "MADV_DONTNEED"):
        with contextlib.suppress(OSError, ValueError):  # advice: a system may not take it, and a closed file has none
            mapping.madvise(mmap.MADV_DONTNEED)


def _mapping(array: npt.NDArray[Any]) -> mmap.mmap | None:
    base: Any = array
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            return None  # pages that were written to would be lost
        base = base.base
    return base if isinstance(base, mmap.mmap) else None
