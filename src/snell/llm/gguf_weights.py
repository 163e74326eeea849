"""The weights of a GGUF file: quantised tensors as planes over the mapped bytes, plain ones as ordinary arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from snell.dtypes import from_name, from_numpy
from snell.graph.storage import Storage
from snell.importers.gguf import (
    ArrayLike,
    GGUFFile,
    Quantisation,
    TensorInfo,
    decode,
    dequantize,
    find_tensor,
    relative_planes,
    unpack_scales,
)
from snell.importers.mapping import release_pages
from snell.llm.stored_weight import StoredPlane, StoredWeight, dense_weight

if TYPE_CHECKING:
    from snell.frontend.tensor import Tensor
    from snell.symbolic import Shape

__all__ = ["GGUFWeights"]

_PLAIN = {Quantisation.F32: "f32", Quantisation.F16: "f16", Quantisation.BF16: "bf16"}


@dataclass(frozen=True, slots=True)
class GGUFWeights:
    """A ``WeightSource`` over an open file."""

    file: GGUFFile

    def __contains__(self, name: object) -> bool:
        return name in self.file.tensors

    def shape(self, name: str) -> tuple[int, ...]:
        """As the file's table of tensors says."""
        return find_tensor(self.file, name).shape

    def described(self, name: str) -> str:
        """The file and the tensor."""
        return f"{self.file.path}: tensor {name!r}"

    @property
    def is_quantised(self) -> bool:
        """Whether any tensor is stored in fewer bits than a float has."""
        return any(tensor.quantisation not in _PLAIN for tensor in self.file.tensors.values())

    def stored(self, name: str) -> StoredWeight:
        """The tensor's planes."""
        info = find_tensor(self.file, name)
        content = self.file.data[info.offset : info.offset + info.nbytes]
        if info.quantisation in _PLAIN:
            dtype = from_name(_PLAIN[info.quantisation]).numpy
            return dense_weight(content.view(dtype).reshape(info.shape))
        owned = {
            key: StoredPlane(array.shape, from_numpy(array.dtype), array)
            for key, array in unpack_scales(self.file.data, info).items()
        }
        return StoredWeight(info.shape, _planes(info, content) | owned, _decoder(info.quantisation))

    def signature(self) -> str:
        """Names, formats and shapes of the file's tensors."""
        return "\n".join(f"{t.name} {t.quantisation.name} {t.shape}" for t in self.file.tensors.values())

    def files(self) -> tuple[Path, ...]:
        """The one file."""
        return (self.file.path,)

    def release(self) -> None:
        """Give back the pages of the file that have been read."""
        release_pages(self.file.data)

    def values(self, name: str) -> npt.NDArray[np.float32]:
        """The tensor decoded with NumPy."""
        return dequantize(self.file, name)


def _planes(info: TensorInfo, content: npt.NDArray[np.uint8]) -> dict[str, StoredPlane]:
    """Offsets count from the tensor's first byte, so that equal layers have equal programs."""
    return {
        key: StoredPlane(
            plane.shape, from_name(plane.element), content, Storage(plane.offset_bytes, plane.strides_bits)
        )
        for key, plane in relative_planes(info).items()
    }


def _decoder(quantisation: Quantisation) -> Callable[[Mapping[str, Tensor], Shape], Tensor]:
    def decoded(planes: Mapping[str, Tensor], shape: Shape) -> Tensor:
        # A Tensor's sizes may be symbolic, which the recipes' protocol does not say; they only pass them on.
        arrays = cast("Mapping[str, ArrayLike]", planes)
        return cast("Tensor", decode(quantisation, arrays, cast("tuple[int, ...]", shape)))

    return decoded
