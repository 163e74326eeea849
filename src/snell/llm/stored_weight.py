"""What a model's weights are on disk: each is a few arrays, and the expression that decodes them.

A ``WeightSource`` (a GGUF file, a Hugging Face folder) says of what each weight consists.  Weights are named as GGUF
names them: ``blk.0.attn_q.weight``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from snell.deferred import deferred
from snell.dtypes import DType, from_numpy
from snell.graph.storage import Storage
from snell.llm.compiler_protocol import Array, Program, ProgramRecipe

if TYPE_CHECKING:
    from snell.frontend.ops import elementwise
    from snell.frontend.tensor import Tensor
    from snell.symbolic import Shape
else:
    elementwise = deferred("snell.frontend.ops.elementwise")

__all__ = [
    "StoredPlane",
    "StoredWeight",
    "WeightSource",
    "dense_weight",
    "file_identity",
    "stored_arrays",
    "weights_recipe",
]


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

    def shape(self, name: str) -> tuple[int, ...]:
        """The weight's shape; a missing one is the error of ``stored``."""
        ...

    def described(self, name: str) -> str:
        """Where the weight lies, and its name there, for error messages."""
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

    def files(self) -> tuple[Path, ...]:
        """The files whose contents the weights are."""
        ...

    def release(self) -> None:
        """Give back the memory of what has been read of the files; it is read again where it is needed."""
        ...


def weights_recipe(content: str, build: Callable[[], Program], source: WeightSource) -> ProgramRecipe:
    """The recipe of a program over these weights."""
    return ProgramRecipe(content, build, partial(stored_arrays, source), source.files(), source.release)


def file_identity(paths: Iterable[Path]) -> str:
    """The files' names, sizes and times of change: what they contain, as far as is quickly told."""
    states = [(os.path.realpath(path), os.stat(path)) for path in paths]
    return "\n".join(f"{path} {state.st_size} {state.st_mtime_ns} {state.st_ino}" for path, state in states)


def stored_arrays(source: WeightSource, names: Iterable[str]) -> dict[str, Array]:
    """The arrays of frozen inputs, by the names that ``Weights`` gave them; each weight is looked up once."""
    planes: dict[str, Mapping[str, StoredPlane]] = {}
    arrays: dict[str, Array] = {}
    for name in names:
        weight, _, plane = name.rpartition(".")
        if weight not in planes:
            planes[weight] = source.stored(weight).planes
        arrays[name] = planes[weight][plane].array
    return arrays


def dense_weight(array: Array, offset: float = 0.0) -> StoredWeight:
    """A weight that is stored in any float dtype, as it is or with ``offset`` taken away from it."""
    plane = StoredPlane(array.shape, from_numpy(array.dtype), array)

    def decoded(planes: Mapping[str, Tensor], _: Shape) -> Tensor:
        value = elementwise.astype(planes["value"], "f32")
        return value + offset if offset else value

    return StoredWeight(array.shape, {"value": plane}, decoded)
