"""Unpacking of planes: inputs whose elements are typed fields at bit strides of a byte array (quantised files)."""

from __future__ import annotations

from typing import Any

import numpy as np

from snell.dtypes import DType
from snell.errors import ShapeError
from snell.graph.numeric import Array
from snell.graph.primitives import Storage

__all__ = ["unpacked"]


def unpacked(raw: Array, storage: Storage, shape: tuple[int, ...], dtype: DType) -> Array:
    """The elements of a plane, in `dtype.numpy` (packed fields as uint8); little-endian, lowest bits first."""
    data = np.ascontiguousarray(raw).reshape(-1).view(np.uint8)
    bits = np.asarray(8 * storage.offset, np.int64)
    for k, (size, stride) in enumerate(zip(shape, storage.strides, strict=True)):
        bits = bits + np.arange(size, dtype=np.int64).reshape([-1 if j == k else 1 for j in range(len(shape))]) * stride
    bits = np.broadcast_to(bits, shape)
    if bits.size and (int(bits.min()) < 0 or int(bits.max()) + dtype.bits > 8 * data.size):
        raise ShapeError(
            f"a plane of {dtype}{shape} ends at bit {int(bits.max()) + dtype.bits}, "
            f"but the array has {data.size} bytes; check the plane's offset and strides"
        )
    if dtype.is_packed:
        return (data[bits // 8] >> (bits % 8).astype(np.uint8)) & np.uint8((1 << dtype.bits) - 1)
    offsets: np.ndarray[Any, np.dtype[np.int64]] = np.arange(dtype.itemsize, dtype=np.int64)
    return np.ascontiguousarray(data[bits[..., None] // 8 + offsets]).view(dtype.numpy)[..., 0]
