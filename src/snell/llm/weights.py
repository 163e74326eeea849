"""A model's weights while a program is traced: each is a few frozen inputs and the expression that decodes them.

A ``WeightSource`` (a GGUF file, a Hugging Face folder) says of what each weight consists; ``Weights`` declares it as
inputs of one trace, once, and keeps the arrays to bind.  Weights are named as GGUF names them: ``blk.0.attn_q.weight``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from snell.dtypes import DType, from_numpy, u8
from snell.frontend.context import Trace
from snell.frontend.ops.elementwise import astype
from snell.frontend.ops.indexing import embedding
from snell.frontend.tensor import Tensor
from snell.graph.primitives import Input, Storage
from snell.llm.compiler_protocol import Array
from snell.symbolic import Shape

__all__ = ["StoredPlane", "StoredWeight", "WeightSource", "Weights", "dense_weight", "stored_array"]


@dataclass(frozen=True, slots=True, eq=False)
class StoredPlane:
    """One frozen input: ``array`` has the shape and dtype, or is the bytes that ``storage`` reaches into."""

    shape: tuple[int, ...]
    dtype: DType
    array: Array
    storage: Storage | None = None


@dataclass(frozen=True, slots=True, eq=False)
class StoredWeight:
    """The planes of a weight, each with the rows (the first axis) foremost, and how they decode.

    ``decode(planes, shape)`` returns the f32 tensor of ``shape``; it may be given planes of fewer rows.
    """

    shape: tuple[int, ...]
    planes: Mapping[str, StoredPlane]
    decode: Callable[[Mapping[str, Tensor], Shape], Tensor]


class WeightSource(Protocol):
    """Where a model's weights come from."""

    def __contains__(self, name: object, /) -> bool:
        """Whether there is a weight of this name."""
        ...

    def stored(self, name: str) -> StoredWeight:
        """The weight; a missing one is a ModelNotFoundError that says where it was looked for."""
        ...

    def values(self, name: str) -> npt.NDArray[np.float32]:
        """The weight decoded now, for what is computed once at load."""
        ...

    def signature(self) -> str:
        """Everything about the weights that programs depend on: names, shapes and formats, but no values."""
        ...


class Weights:
    """The weights of one program under construction; ``frozen`` are the arrays of the inputs declared so far.

    ``constants`` are those among them that no file holds.
    """

    def __init__(self, trace: Trace, source: WeightSource) -> None:
        self._trace = trace
        self._source = source
        self._inputs: dict[str, Tensor] = {}
        self.frozen: dict[str, Array] = {}
        self.constants: dict[str, Array] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._source

    def __getitem__(self, name: str) -> Tensor:
        """The whole weight, f32; matrices are (out, in)."""
        stored = self._source.stored(name)
        return stored.decode(self._planes(name, stored), stored.shape)

    def optional(self, name: str) -> Tensor | None:
        """The whole weight, or None where the model has none of this name."""
        return self[name] if name in self._source else None

    def rows(self, name: str, indices: Tensor) -> Tensor:
        """Rows of a matrix, (…,) → (…, columns).  The planes are gathered before they are decoded: O(result)."""
        stored = self._source.stored(name)
        gathered = {key: _gathered(plane, indices.reshape(-1)) for key, plane in self._planes(name, stored).items()}
        flat = stored.decode(gathered, (indices.size, *stored.shape[1:]))
        return flat.reshape(*indices.shape, *stored.shape[1:])

    def constant(self, name: str, array: Array) -> Tensor:
        """An array computed at load, as a frozen input."""
        self.constants[name] = array
        return self._input(name, StoredPlane(array.shape, from_numpy(array.dtype), array))

    def _planes(self, name: str, stored: StoredWeight) -> dict[str, Tensor]:
        return {key: self._input(f"{name}.{key}", plane) for key, plane in stored.planes.items()}

    def _input(self, name: str, plane: StoredPlane) -> Tensor:
        if name not in self._inputs:
            declaration = Input(name, plane.shape, plane.dtype, frozen=True, storage=plane.storage)
            self._inputs[name] = Tensor(self._trace.input(declaration), self._trace)
            self.frozen[name] = plane.array
        return self._inputs[name]


def stored_array(source: WeightSource, name: str) -> Array:
    """The array of a frozen input, by the name that ``Weights`` gave it."""
    weight, _, plane = name.rpartition(".")
    return source.stored(weight).planes[plane].array


def dense_weight(array: Array) -> StoredWeight:
    """A weight that is stored as it is, in any float dtype."""
    plane = StoredPlane(array.shape, from_numpy(array.dtype), array)
    return StoredWeight(array.shape, {"value": plane}, lambda planes, _: astype(planes["value"], "f32"))


def _gathered(plane: Tensor, rows: Tensor) -> Tensor:
    """Rows of a plane; an index out of range raises at run time."""
    # A packed field can only be read, and the gather is a sum: cast first.
    whole = astype(plane, u8) if plane.dtype.is_packed else plane
    return embedding(whole.reshape(whole.shape[0], -1), rows).reshape(rows.size, *plane.shape[1:])
