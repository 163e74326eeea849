"""The KV cache: for each layer the keys and values of the positions so far, f16 or f32 (kv_heads, capacity, head_dim).

``CacheShape.empty`` makes the arrays that a text begins with; a program returns those to go on with.
"""

import contextlib
import math
import mmap
import sys
from dataclasses import dataclass

import numpy as np

from snell.dtypes import DType
from snell.llm.compiler_protocol import Array

__all__ = ["CacheShape"]

_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class CacheShape:
    """Sizes of the cache of one text."""

    layers: int
    heads: int
    capacity: int
    head_dim: int
    dtype: DType

    @property
    def names(self) -> tuple[str, ...]:
        """Inputs and outputs of a program that hold the cache."""
        return tuple(f"{kind}.{layer}" for layer in range(self.layers) for kind in ("keys", "values"))

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return 2 * self.layers * self.heads * self.capacity * self.head_dim * self.dtype.itemsize

    def empty(self) -> dict[str, Array]:
        """Zeros, which take memory only as positions are written; each array on a boundary of vectors.

        The memory is no NumPy array's: for those the system is asked for pages of 2 MB, of which a short text touches
        every one (for SmolLM2 180 MB to clear).
        """
        shape = (self.heads, self.capacity, self.head_dim)
        size = math.prod(shape) * self.dtype.itemsize
        stride = -(-size // _ALIGNMENT) * _ALIGNMENT
        memory = mmap.mmap(-1, stride * len(self.names), access=mmap.ACCESS_COPY)
        if sys.platform == "linux":
            with contextlib.suppress(OSError):  # a kernel without large pages has nothing to refuse
                memory.madvise(mmap.MADV_NOHUGEPAGE)
        return {
            name: np.ndarray(shape, self.dtype.numpy, memory, place * stride) for place, name in enumerate(self.names)
        }
