"""A plane: a typed, strided window over a file's bytes, down to single bits.

The element at logical index ``i`` lies at bit ``8 * offset_bytes + sum(i[k] * strides_bits[k])``, counted from the
lowest bit of each byte. A dimension with a stride below 8 bits selects the bit field inside of a byte; no element
straddles two bytes' bit fields. A quantised tensor is a few such planes and a recipe of arithmetic over them
(``recipes``), so that nothing is copied when a model is opened.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from snell import dtypes
from snell.errors import ShapeError

__all__ = ["Element", "Plane", "read_plane"]

Element = Literal["u1", "u2", "u4", "u8", "i8", "f16", "bf16", "f32"]

_BITS = {"u1": 1, "u2": 2, "u4": 4, "u8": 8, "i8": 8, "f16": 16, "bf16": 16, "f32": 32}


@dataclass(frozen=True, slots=True)
class Plane:
    """One typed window; ``shape`` and ``strides_bits`` have one entry for each dimension."""

    name: str
    element: Element
    shape: tuple[int, ...]
    offset_bytes: int
    strides_bits: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.shape) != len(self.strides_bits):
            raise ShapeError(f"plane {self.name!r}: {len(self.shape)} extents, but {len(self.strides_bits)} strides")
        if any(stride >= 8 and stride % 8 for stride in self.strides_bits):
            raise ShapeError(
                f"plane {self.name!r}: a stride of 8 bits or more must be whole bytes: {self.strides_bits}"
            )
        if self.field_bits > max(8, self.bits):
            raise ShapeError(f"plane {self.name!r}: its bit fields take {self.field_bits} bits, more than a byte has")

    @property
    def bits(self) -> int:
        """Bits of one element."""
        return _BITS[self.element]

    @property
    def field_bits(self) -> int:
        """Bits of the byte that the dimensions with strides below 8 bits span together with the element."""
        pairs = zip(self.shape, self.strides_bits, strict=True)
        return self.bits + sum((extent - 1) * stride for extent, stride in pairs if stride < 8)

    @property
    def end_bytes(self) -> int:
        """Offset behind the last byte that the plane touches."""
        last = sum((extent - 1) * stride for extent, stride in zip(self.shape, self.strides_bits, strict=True))
        return self.offset_bytes + -(-(last + self.bits) // 8)


def read_plane(data: npt.NDArray[np.uint8], plane: Plane) -> npt.NDArray[np.generic]:
    """The plane's elements as an ordinary array: bit fields as u8, the others in their own dtype."""
    if plane.end_bytes > data.size or math.prod(plane.shape) == 0:
        raise ShapeError(f"plane {plane.name!r} ends at byte {plane.end_bytes}, the data at {data.size}")
    whole = plane.bits >= 8
    dtype = dtypes.from_name(plane.element).numpy if whole else np.dtype(np.uint8)
    strides = tuple(stride // 8 for stride in plane.strides_bits)
    window = np.ndarray(plane.shape, dtype, buffer=data.data, offset=plane.offset_bytes, strides=strides)
    if whole:
        return window.copy()
    shift = np.zeros((), np.uint8)
    for axis, (extent, stride) in enumerate(zip(plane.shape, plane.strides_bits, strict=True)):
        if stride < 8:
            steps = np.arange(extent, dtype=np.uint8) * np.uint8(stride)
            shift = shift + steps.reshape(-1, *(1,) * (len(plane.shape) - axis - 1))
    return (window >> shift) & np.uint8((1 << plane.bits) - 1)
