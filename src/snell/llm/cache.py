"""The KV cache: for each layer the keys and values of the positions so far, f16 or f32 (kv_heads, capacity, head_dim).

``TracedCache`` is the cache inside of a program under construction: donated inputs, and updated outputs of the same
names.  ``CacheShape.empty`` makes the arrays that a text begins with; a program returns those to go on with.
"""

import math
from dataclasses import dataclass

import numpy as np

from snell.dtypes import DType
from snell.frontend.context import Trace
from snell.frontend.ops.elementwise import astype
from snell.frontend.ops.indexing import update_rows
from snell.frontend.ops.movement import crop
from snell.frontend.tensor import Tensor
from snell.graph.node import Operand
from snell.graph.primitives import Input
from snell.llm.compiler_protocol import Array
from snell.symbolic import Dim

__all__ = ["CacheShape", "TracedCache"]

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
        """Zeros, which take memory only as positions are written; each array on a boundary of vectors."""
        shape = (self.heads, self.capacity, self.head_dim)
        size = math.prod(shape) * self.dtype.itemsize
        stride = -(-size // _ALIGNMENT) * _ALIGNMENT
        memory = np.zeros(stride * len(self.names) + _ALIGNMENT, np.uint8)
        start = -memory.ctypes.data % _ALIGNMENT
        return {
            name: np.ndarray(shape, self.dtype.numpy, memory, start + place * stride)
            for place, name in enumerate(self.names)
        }


class TracedCache:
    """``past`` positions are in the cache already; a step adds ``tokens`` more."""

    def __init__(self, trace: Trace, shape: CacheShape, past: Dim, tokens: Dim) -> None:
        self.past, self.tokens, self.shape = past, tokens, shape
        self._inputs: dict[str, Tensor] = {}
        array = (shape.heads, shape.capacity, shape.head_dim)
        for name in shape.names:
            declaration = Input(name, array, shape.dtype, donated=True)
            self._inputs[name] = Tensor(trace.input(declaration), trace)
        self._updated: dict[str, Tensor] = {}

    def extend(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """All keys and values so far, f32 (kv_heads, past + tokens, head_dim), given those of the step's tokens."""
        return self._extend(f"keys.{layer}", keys), self._extend(f"values.{layer}", values)

    def outputs(self) -> list[tuple[str, Operand]]:
        """The updated arrays, in the order of the inputs."""
        return [(name, self._updated[name].operand) for name in self.shape.names]

    def _extend(self, name: str, rows: Tensor) -> Tensor:
        updated = update_rows(self._inputs[name], astype(rows, self.shape.dtype), self.past, axis=1)
        self._updated[name] = updated
        return astype(crop(updated, 1, 0, self.past + self.tokens), "f32")
