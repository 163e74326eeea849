"""Which planes a tensor of each quantisation consists of: offsets and bit strides inside of its blocks.

``planes_of_layout`` takes a tensor's place in the file and returns its planes by name. A plane's first two dimensions
are always (row, block); a row is one run of the last axis, a block as in ``quantisation``. The order of the other
dimensions is that of the values, so that a reshape of the decoded blocks is the tensor. Layouts: ggml's
``ggml-quants.h`` (https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from snell.importers.gguf.file import TensorInfo
from snell.importers.gguf.plane import Element, Plane
from snell.importers.gguf.quantisation import Quantisation

__all__ = ["LAYOUTS", "planes_of_layout", "relative_planes"]

# A dimension inside of a block: its extent and its stride in bits.
Dimension = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Blocks:
    """The blocks of one tensor, from which planes are cut."""

    rows: int
    blocks: int
    block_bytes: int
    offset: int

    def plane(self, name: str, element: Element, byte: int, *dimensions: Dimension) -> Plane:
        """The plane that begins ``byte`` bytes into each block."""
        shape = (self.rows, self.blocks, *(extent for extent, _ in dimensions))
        block_bits = 8 * self.block_bytes
        strides = (self.blocks * block_bits, block_bits, *(stride for _, stride in dimensions))
        return Plane(name, element, shape, self.offset + byte, strides)


def _dense(element: Element) -> Callable[[_Blocks], list[Plane]]:
    return lambda blocks: [blocks.plane("value", element, 0)]


def _nibbles(blocks: _Blocks, byte: int) -> Plane:
    """32 values of 4 bits: the low halves of 16 bytes are the first 16 values, the high halves the others."""
    return blocks.plane("low", "u4", byte, (2, 4), (16, 8))


def _fifth_bits(blocks: _Blocks, byte: int) -> Plane:
    """32 bits, one for each value in order."""
    return blocks.plane("high", "u1", byte, (2, 16), (2, 8), (8, 1))


def _q4_0(blocks: _Blocks) -> list[Plane]:
    return [blocks.plane("scale", "f16", 0), _nibbles(blocks, 2)]


def _q4_1(blocks: _Blocks) -> list[Plane]:
    return [blocks.plane("scale", "f16", 0), blocks.plane("least", "f16", 2), _nibbles(blocks, 4)]


def _q5_0(blocks: _Blocks) -> list[Plane]:
    return [blocks.plane("scale", "f16", 0), _fifth_bits(blocks, 2), _nibbles(blocks, 6)]


def _q5_1(blocks: _Blocks) -> list[Plane]:
    return [
        blocks.plane("scale", "f16", 0),
        blocks.plane("least", "f16", 2),
        _fifth_bits(blocks, 4),
        _nibbles(blocks, 8),
    ]


def _q8_0(blocks: _Blocks) -> list[Plane]:
    return [blocks.plane("scale", "f16", 0), blocks.plane("value", "i8", 2, (32, 8))]


# Q2_K and Q3_K share the place of their two low bits. A block of 256 values is 2 halves; a half is 4 runs of 32 values
# that share 32 bytes, each run in its own two bits; a run is 2 groups of 16 values with one scale each.
_TWO_BIT_RUNS: tuple[Dimension, ...] = ((2, 256), (4, 2), (2, 128), (16, 8))


def _q2_k(blocks: _Blocks) -> list[Plane]:
    # The byte of a group holds its scale in the low nibble and its least value in the high one. A plane begins at a
    # whole byte, so the high nibble is described as the whole byte; the recipe takes the low nibble away from it.
    return [
        blocks.plane("group_scale", "u4", 0, (16, 8)),
        blocks.plane("group_byte", "u8", 0, (16, 8)),
        blocks.plane("low", "u2", 16, *_TWO_BIT_RUNS),
        blocks.plane("scale", "f16", 80),
        blocks.plane("least", "f16", 82),
    ]


def _q3_k(blocks: _Blocks) -> list[Plane]:
    return [
        blocks.plane("high", "u1", 0, (2, 4), (4, 1), (2, 128), (16, 8)),
        blocks.plane("low", "u2", 32, *_TWO_BIT_RUNS),
        blocks.plane("scale", "f16", 108),
    ]


# Q4_K and Q5_K: 4 pairs of groups of 32 values; a pair shares 32 bytes, its first group in the low nibbles.
_NIBBLE_PAIRS: tuple[Dimension, ...] = ((4, 256), (2, 4), (32, 8))


def _q4_k(blocks: _Blocks) -> list[Plane]:
    return [
        blocks.plane("scale", "f16", 0),
        blocks.plane("least", "f16", 2),
        blocks.plane("low", "u4", 16, *_NIBBLE_PAIRS),
    ]


def _q5_k(blocks: _Blocks) -> list[Plane]:
    return [
        blocks.plane("scale", "f16", 0),
        blocks.plane("least", "f16", 2),
        blocks.plane("high", "u1", 16, (4, 2), (2, 1), (32, 8)),
        blocks.plane("low", "u4", 48, *_NIBBLE_PAIRS),
    ]


def _q6_k(blocks: _Blocks) -> list[Plane]:
    # (half, nibble, 32-byte run, group, value in the group); the two high bits of four runs share one byte.
    return [
        blocks.plane("low", "u4", 0, (2, 512), (2, 4), (2, 256), (2, 128), (16, 8)),
        blocks.plane("high", "u2", 128, (2, 256), (2, 4), (2, 2), (2, 128), (16, 8)),
        blocks.plane("group_scale", "i8", 192, (16, 8)),
        blocks.plane("scale", "f16", 208),
    ]


LAYOUTS: Mapping[Quantisation, Callable[[_Blocks], list[Plane]]] = {
    Quantisation.F32: _dense("f32"),
    Quantisation.F16: _dense("f16"),
    Quantisation.BF16: _dense("bf16"),
    Quantisation.Q4_0: _q4_0,
    Quantisation.Q4_1: _q4_1,
    Quantisation.Q5_0: _q5_0,
    Quantisation.Q5_1: _q5_1,
    Quantisation.Q8_0: _q8_0,
    Quantisation.Q2_K: _q2_k,
    Quantisation.Q3_K: _q3_k,
    Quantisation.Q4_K: _q4_k,
    Quantisation.Q5_K: _q5_k,
    Quantisation.Q6_K: _q6_k,
}


def planes_of_layout(info: TensorInfo) -> dict[str, Plane]:
    """The planes of a tensor whose quantisation is one of ``LAYOUTS``."""
    return _planes(info.quantisation, info.rows, info.columns, info.offset)


def relative_planes(info: TensorInfo) -> Mapping[str, Plane]:
    """The same with offsets from the tensor's first byte: equal for all tensors of one shape, and made once."""
    return _relative_planes(info.quantisation, info.rows, info.columns)


@lru_cache(maxsize=1 << 10)
def _relative_planes(kind: Quantisation, rows: int, columns: int) -> Mapping[str, Plane]:
    return _planes(kind, rows, columns, 0)


def _planes(kind: Quantisation, rows: int, columns: int, offset: int) -> dict[str, Plane]:
    blocks = _Blocks(rows, columns // kind.block_values, kind.block_bytes, offset)
    return {plane.name: plane for plane in LAYOUTS[kind](blocks)}
