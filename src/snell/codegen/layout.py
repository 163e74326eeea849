"""From a buffer's layout and its index forms to one linear form: the byte (or bit) offset of the element.

A layout is planned once for a buffer: block sizes and strides as integers where the shape is known, else expressions.
"""

from __future__ import annotations

from dataclasses import dataclass

from snell.codegen.indexing import Indexing
from snell.codegen.linear import Linear
from snell.errors import CompileError
from snell.loops.ir import Blocked, Buffer, Dense, Strided
from snell.symbolic import Expr, as_expr, as_size
from snell.targets import ALIASING, STAGGER

__all__ = ["LayoutPlan", "plan_layout", "scratch_bytes"]


@dataclass(frozen=True, slots=True)
class _Digit:
    """One coordinate of the storage: `index[dimension] mod outer // size`, `stride` units apart."""

    dimension: int
    size: int
    outer: int | None
    stride: int | Expr


@dataclass(frozen=True, slots=True)
class LayoutPlan:
    """Offset in bytes (bits for packed fields): `start + Σ digit·stride`."""

    start: int
    digits: tuple[_Digit, ...]

    def offset(self, indices: list[Linear], indexing: Indexing) -> Linear:
        total = Linear.known(self.start)
        for digit in self.digits:
            form = indices[digit.dimension]
            if digit.outer is not None:
                form = indexing.remainder(form, Linear.known(digit.outer))
            if digit.size > 1:
                form = indexing.floor_divide(form, Linear.known(digit.size))
            if isinstance(digit.stride, int):
                total = indexing.add(total, indexing.scale(form, digit.stride))
            else:
                total = indexing.add(total, indexing.multiply(form, indexing.linear(digit.stride)))
        return total


def plan_layout(buffer: Buffer) -> LayoutPlan:
    if buffer.dtype.is_packed and not isinstance(buffer.layout, Strided):
        raise CompileError(f"packed buffer {buffer.name} needs a Strided layout in bits, received {buffer.layout}")
    match buffer.layout:
        case Dense():
            return LayoutPlan(0, _dense(buffer))
        case Blocked():
            return LayoutPlan(0, _blocked(buffer, buffer.layout)[0])
        case Strided(offset, strides):
            unit = 1 if buffer.dtype.is_packed else 8
            digits = (_Digit(dimension, 1, None, stride // unit) for dimension, stride in enumerate(strides))
            return LayoutPlan(offset * 8 // unit, tuple(digits))


def _dense(buffer: Buffer) -> tuple[_Digit, ...]:
    digits: list[_Digit] = []
    stride = as_expr(buffer.dtype.itemsize)
    for dimension in range(len(buffer.shape) - 1, -1, -1):
        digits.append(_Digit(dimension, 1, None, as_size(stride)))
        stride = stride * buffer.shape[dimension]
    return tuple(reversed(digits))


def _blocked(buffer: Buffer, layout: Blocked) -> tuple[tuple[_Digit, ...], Expr]:
    """The digits, and the bytes of the whole."""
    digits: list[_Digit] = []
    stride = as_expr(buffer.dtype.itemsize)
    for number in range(len(layout.blocks) - 1, -1, -1):
        block = layout.blocks[number]
        outer = next((b.size for b in reversed(layout.blocks[:number]) if b.dimension == block.dimension), None)
        digits.append(_Digit(block.dimension, block.size, outer, as_size(stride)))
        whole = as_expr(buffer.shape[block.dimension] if outer is None else outer)
        stride = stride * ((whole + (block.size - 1)) // block.size)
    return tuple(reversed(digits)), stride


def scratch_bytes(buffer: Buffer) -> Expr:
    """Bytes of a local buffer, rounded up to a cache line; a large one moves the next from its own place in a page."""
    if isinstance(buffer.layout, Blocked):
        size = _blocked(buffer, buffer.layout)[1]
    else:
        size = as_expr(buffer.dtype.itemsize)
        for extent in buffer.shape:
            size = size * extent
    lines = (size + 63) // 64 * 64
    return lines if size.is_constant and size.constant < ALIASING else lines + STAGGER
