"""The KV cache: for each layer the keys and values of the positions so far, (kv_heads, capacity, head_dim).

Elements are f32, f16 or bf16, or i8 with a scale for each row of a head beside them, f32 (kv_heads, capacity).
``CacheShape.empty`` makes the arrays that a text begins with; a program returns those to go on with.
"""

import contextlib
import math
import mmap
import sys
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from snell.dtypes import DType, bf16, f16, f32, i8
from snell.llm.compiler_protocol import Array

__all__ = ["KV_DTYPES", "CacheShape", "scales_name"]

KV_DTYPES: Mapping[str, DType] = {"f16": f16, "bf16": bf16, "int8": i8, "f32": f32}
"""What a cache may hold, by the names that users write."""

_ALIGNMENT = 64

ArrayShape = tuple[tuple[int, ...], DType]


@dataclass(frozen=True, slots=True)
class CacheShape:
    """Sizes of the cache of one text."""

    layers: int
    heads: int
    capacity: int
    head_dim: int
    dtype: DType

    @property
    def is_scaled(self) -> bool:
        """Whether elements are whole numbers, and rows have scales."""
        return self.dtype.is_integer

    @property
    def arrays(self) -> dict[str, ArrayShape]:
        """Shape and dtype of the inputs and outputs of a program that hold the cache; positions are the second axis."""
        found: dict[str, ArrayShape] = {}
        for layer in range(self.layers):
            for kind in ("keys", "values"):
                found[f"{kind}.{layer}"] = (self.heads, self.capacity, self.head_dim), self.dtype
                if self.is_scaled:
                    found[scales_name(f"{kind}.{layer}")] = (self.heads, self.capacity), f32
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the arrays."""
        return tuple(self.arrays)

    @property
    def scales(self) -> tuple[str, ...]:
        """Names of the arrays that hold scales."""
        return tuple(name for name, (_, dtype) in self.arrays.items() if dtype != self.dtype)

    @property
    def position_nbytes(self) -> int:
        """Bytes of one position in all arrays."""
        return sum(_nbytes(shape, dtype) for shape, dtype in self.arrays.values()) // self.capacity

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.position_nbytes * self.capacity

    def empty(self) -> dict[str, Array]:
        """Zeros, which take memory only as positions are written; each array on a boundary of vectors.

        The memory is no NumPy array's: for those the system is asked for pages of 2 MB, of which a short text touches
        every one (for SmolLM2 180 MB to clear).
        """
        arrays = self.arrays
        starts: list[int] = []
        end = 0
        for shape, dtype in arrays.values():
            starts.append(end)
            end += -(-_nbytes(shape, dtype) // _ALIGNMENT) * _ALIGNMENT
        memory = mmap.mmap(-1, end, access=mmap.ACCESS_COPY)
        if sys.platform == "linux":
            with contextlib.suppress(OSError):  # a kernel without large pages has nothing to refuse
                memory.madvise(mmap.MADV_NOHUGEPAGE)
        return {
            name: np.ndarray(shape, dtype.numpy, memory, start)
            for start, (name, (shape, dtype)) in zip(starts, arrays.items(), strict=True)
        }


def scales_name(name: str) -> str:
    """The array with the scales of another one's rows."""
    return name + ".scales"


def _nbytes(shape: tuple[int, ...], dtype: DType) -> int:
    return math.prod(shape) * dtype.itemsize
