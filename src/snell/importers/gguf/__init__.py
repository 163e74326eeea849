"""GGUF files: a memory-mapped reader, quantised tensors as planes, and the recipes that decode them."""

from snell.importers.gguf.file import GGUFFile, MetadataValue, TensorInfo, read_gguf
from snell.importers.gguf.layouts import relative_planes
from snell.importers.gguf.packed_scales import unpack_scales
from snell.importers.gguf.plane import Element, Plane
from snell.importers.gguf.quantisation import Quantisation
from snell.importers.gguf.recipes import ArrayLike, decode
from snell.importers.gguf.string_array import StringArray
from snell.importers.gguf.tensor import PlanarTensor, dequantize, find_tensor, planar_tensor, plane_array

__all__ = [
    "ArrayLike",
    "Element",
    "GGUFFile",
    "MetadataValue",
    "PlanarTensor",
    "Plane",
    "Quantisation",
    "StringArray",
    "TensorInfo",
    "decode",
    "dequantize",
    "find_tensor",
    "planar_tensor",
    "plane_array",
    "read_gguf",
    "relative_planes",
    "unpack_scales",
]
