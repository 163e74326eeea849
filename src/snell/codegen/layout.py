"""From a buffer's layout and its index forms to one linear form: the byte (or bit) offset of the element."""

from __future__ import annotations

from snell.codegen.indexing import Indexing
from snell.codegen.linear import Linear
from snell.loops.ir import Blocked, Buffer, Dense, Strided
from snell.symbolic import Expr, Shape, as_expr

__all__ = ["bit_offset", "blocked_elements", "byte_offset", "scratch_bytes"]


def byte_offset(buffer: Buffer, indices: list[Linear], indexing: Indexing) -> Linear:
    """Byte offset of an element of at least eight bits."""
    match buffer.layout:
        case Dense():
            elements = _dense(buffer.shape, indices, indexing)
        case Blocked():
            elements = _blocked(buffer.shape, buffer.layout, indices, indexing)
        case Strided():
            return _strided(buffer.layout, indices, indexing)
    return indexing.scale(elements, buffer.dtype.itemsize)


def bit_offset(layout: Strided, indices: list[Linear], indexing: Indexing) -> Linear:
    """Bit offset of a packed field."""
    total = Linear.known(8 * layout.offset)
    for form, stride in zip(indices, layout.strides, strict=True):
        total = indexing.add(total, indexing.scale(form, stride))
    return total


def _strided(layout: Strided, indices: list[Linear], indexing: Indexing) -> Linear:
    total = Linear.known(layout.offset)
    for form, stride in zip(indices, layout.strides, strict=True):
        total = indexing.add(total, indexing.scale(form, stride // 8))
    return total


def _dense(shape: Shape, indices: list[Linear], indexing: Indexing) -> Linear:
    total, stride = Linear(), as_expr(1)
    for form, size in zip(reversed(indices), reversed(shape), strict=True):
        total = indexing.add(total, indexing.multiply(form, indexing.linear(stride)))
        stride = stride * size
    return total


def _blocked(shape: Shape, layout: Blocked, indices: list[Linear], indexing: Indexing) -> Linear:
    total = Linear()
    for stride, digit in zip(_block_strides(shape, layout), _digits(layout, indices, indexing), strict=True):
        total = indexing.add(total, indexing.multiply(digit, indexing.linear(stride)))
    return total


def _digits(layout: Blocked, indices: list[Linear], indexing: Indexing) -> list[Linear]:
    """The coordinate of each block level, in the layout's order."""
    digits: list[Linear] = []
    outer: dict[int, int] = {}
    for block in layout.blocks:
        form = indices[block.dimension]
        if block.dimension in outer:
            form = indexing.remainder(form, Linear.known(outer[block.dimension]))
        digits.append(indexing.floor_divide(form, Linear.known(block.size)))
        outer[block.dimension] = block.size
    return digits


def _block_counts(shape: Shape, layout: Blocked) -> list[Expr]:
    counts: list[Expr] = []
    outer: dict[int, int] = {}
    for block in layout.blocks:
        whole = outer.get(block.dimension)
        size = as_expr(shape[block.dimension]) if whole is None else as_expr(whole)
        counts.append((size + (block.size - 1)) // block.size)
        outer[block.dimension] = block.size
    return counts


def _block_strides(shape: Shape, layout: Blocked) -> list[Expr]:
    strides: list[Expr] = []
    stride = as_expr(1)
    for count in reversed(_block_counts(shape, layout)):
        strides.append(stride)
        stride = stride * count
    return strides[::-1]


def blocked_elements(shape: Shape, layout: Blocked) -> Expr:
    """Elements that a blocked buffer occupies, padding included."""
    total = as_expr(1)
    for count in _block_counts(shape, layout):
        total = total * count
    return total


def scratch_bytes(buffer: Buffer) -> Expr:
    """Bytes of a local buffer, rounded up to a cache line."""
    if isinstance(buffer.layout, Blocked):
        elements = blocked_elements(buffer.shape, buffer.layout)
    else:
        elements = as_expr(1)
        for size in buffer.shape:
            elements = elements * size
    return (elements * buffer.dtype.itemsize + 63) // 64 * 64
