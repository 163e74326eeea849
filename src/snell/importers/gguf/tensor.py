"""A tensor of a GGUF file as planes, as ordinary arrays, and as decoded values.

``planar_tensor`` describes a tensor without copying its bytes; ``dequantize`` runs the recipe with NumPy and is the
reference that compiled decoding is compared with.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import cast

import numpy as np
import numpy.typing as npt

from snell.errors import ModelNotFoundError, UnsupportedError
from snell.importers.gguf.file import GGUFFile, TensorInfo
from snell.importers.gguf.layouts import LAYOUTS, planes_of_layout
from snell.importers.gguf.packed_scales import unpack_scales
from snell.importers.gguf.plane import Plane, read_plane
from snell.importers.gguf.recipes import ArrayLike, decode

__all__ = ["PlanarTensor", "dequantize", "find_tensor", "planar_tensor", "plane_array"]


@dataclass(frozen=True, slots=True, eq=False)
class PlanarTensor:
    """The inputs of a tensor's recipe: ``planes`` are windows over the file, ``owned`` are small arrays made at load.

    ``recipes.decode(info.quantisation, arrays, info.shape)`` takes one array for each name of both.
    """

    info: TensorInfo
    planes: Mapping[str, Plane]
    owned: Mapping[str, npt.NDArray[np.uint8]]


def planar_tensor(file: GGUFFile, name: str) -> PlanarTensor:
    """The planes of the tensor called ``name``."""
    info = find_tensor(file, name)
    planes = MappingProxyType(planes_of_layout(info))
    return PlanarTensor(info, planes, MappingProxyType(unpack_scales(file.data, info)))


def plane_array(file: GGUFFile, plane: Plane) -> npt.NDArray[np.generic]:
    """The elements of a plane as an ordinary array; bit fields of fewer than 8 bits as u8."""
    return read_plane(file.data, plane)


def dequantize(file: GGUFFile, name: str) -> npt.NDArray[np.float32]:
    """The values of the tensor called ``name``, f32 of the tensor's shape."""
    tensor = planar_tensor(file, name)
    arrays: dict[str, npt.NDArray[np.generic]] = {
        **{key: plane_array(file, plane) for key, plane in tensor.planes.items()},
        **tensor.owned,
    }
    # ndarray's overloads say more than the protocol does; its arithmetic is what the recipes ask for.
    values = decode(tensor.info.quantisation, cast("Mapping[str, ArrayLike]", arrays), tensor.info.shape)
    return cast("npt.NDArray[np.float32]", values)


def find_tensor(file: GGUFFile, name: str) -> TensorInfo:
    """The tensor called ``name``; ModelNotFoundError where there is none, UnsupportedError for a type without planes."""
    if name not in file.tensors:
        raise ModelNotFoundError(f"{file.path}: no tensor {name!r} among the {len(file.tensors)} tensors of the file")
    info = file.tensors[name]
    if info.quantisation not in LAYOUTS:
        supported = ", ".join(kind.name for kind in LAYOUTS)
        raise UnsupportedError(
            f"{file.path}: tensor {name!r} has the type {info.quantisation.name}; supported are {supported}. "
            "Convert the model to one of these"
        )
    return info
