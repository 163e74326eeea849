"""The 6-bit scales of Q3_K, Q4_K and Q5_K, unpacked to u8 arrays when a tensor is opened.

Takes the twelve packed bytes of every block and returns arrays shaped (row, block, group). Their bits are scattered
over bytes in an order that no strided window describes; unpacked they are small: 16 bytes a block beside 110 to 176.
"""

import numpy as np
import numpy.typing as npt

from snell.importers.gguf.file import TensorInfo
from snell.importers.gguf.plane import Plane, read_plane
from snell.importers.gguf.quantisation import Quantisation

__all__ = ["unpack_scales"]

Bytes = npt.NDArray[np.uint8]

# Where the twelve bytes lie in a block.
_PACKED_AT = {Quantisation.Q3_K: 96, Quantisation.Q4_K: 4, Quantisation.Q5_K: 4}
_PACKED_BYTES = 12


def unpack_scales(data: Bytes, info: TensorInfo) -> dict[str, Bytes]:
    """``group_scale`` (and ``group_least``) of a tensor that has packed scales; nothing for any other."""
    if info.quantisation not in _PACKED_AT:
        return {}
    packed = _packed(data, info)
    if info.quantisation is Quantisation.Q3_K:
        return {"group_scale": _sixteen(packed)}
    scale, least = _eight_pairs(packed)
    return {"group_scale": scale, "group_least": least}


def _packed(data: Bytes, info: TensorInfo) -> Bytes:
    kind = info.quantisation
    blocks, bits = info.columns // kind.block_values, 8 * kind.block_bytes
    shape, strides = (info.rows, blocks, _PACKED_BYTES), (blocks * bits, bits, 8)
    return read_plane(data, Plane("packed", "u8", shape, info.offset + _PACKED_AT[kind], strides)).astype(np.uint8)


def _sixteen(packed: Bytes) -> Bytes:
    """Q3_K: 16 low nibbles in 8 bytes, then 16 pairs of high bits in 4 bytes."""
    low = np.concatenate([packed[..., :8] & 0x0F, packed[..., :8] >> 4], axis=-1)
    high = np.concatenate([(packed[..., 8:] >> shift) & 0x03 for shift in (0, 2, 4, 6)], axis=-1)
    return (low | (high << 4)).astype(np.uint8)


def _eight_pairs(packed: Bytes) -> tuple[Bytes, Bytes]:
    """Q4_K and Q5_K: scales and least values of the groups 0-3 in 6 bits; those of 4-7 spread over three bytes."""
    first, second, third = packed[..., 0:4], packed[..., 4:8], packed[..., 8:12]
    scale = np.concatenate([first & 0x3F, (third & 0x0F) | ((first >> 2) & 0x30)], axis=-1)
    least = np.concatenate([second & 0x3F, (third >> 4) | ((second >> 2) & 0x30)], axis=-1)
    return scale.astype(np.uint8), least.astype(np.uint8)
