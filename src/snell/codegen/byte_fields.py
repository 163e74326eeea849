"""Fields of bytes: terms that only move and mask the bits of a byte, and sums of such terms whose bits do not meet.

    (b div 16) mod 2 · 16  is, of the byte b,  its bit 4 where it stands: shift 0, mask 16

A word of bytes gives all its fields by one shift of the word and one mask, since no bit of the mask came from a neighbour.
"""

from __future__ import annotations

from dataclasses import dataclass

from snell.dtypes import u8
from snell.graph.primitives import Add, Mod, Mul
from snell.rewrite.term import FloorDivide, Number, Term

__all__ = ["ByteField", "byte_fields"]

_BITS, _ALL = 8, 0xFF


@dataclass(frozen=True, slots=True)
class ByteField:
    """`(source << shift) & mask`, to the right where the shift is negative."""

    source: Term
    shift: int
    mask: int


def byte_fields(item: Term) -> tuple[ByteField, ...]:
    """The fields whose bits make up a u8 term; none where it is anything else, or a byte as it is."""
    if item.dtype != u8 or not isinstance(item.op, Add | FloorDivide | Mod | Mul):
        return ()
    if isinstance(item.op, Add):
        sides = [byte_fields(argument) for argument in item.args]
        fields = (*sides[0], *sides[1])
        return fields if all(sides) and _are_apart(fields) else ()
    found = _field(item)
    return () if found is None else (found,)


def _are_apart(fields: tuple[ByteField, ...]) -> bool:
    return sum(field.mask for field in fields) < 1 << _BITS and all(
        not a.mask & b.mask for k, a in enumerate(fields) for b in fields[k + 1 :]
    )


def _field(item: Term) -> ByteField | None:
    """Divisions, remainders and multiples by powers of two, one inside of the other."""
    if item.dtype != u8 or not isinstance(item.op, FloorDivide | Mod | Mul):
        return ByteField(item, 0, _ALL) if item.dtype == u8 else None
    inner, bits = _field(item.args[0]), _power(item.args[1])
    if inner is None or bits is None:
        return None
    match item.op:
        case FloorDivide():
            return ByteField(inner.source, inner.shift - bits, inner.mask >> bits)
        case Mod():
            return ByteField(inner.source, inner.shift, inner.mask & ((1 << bits) - 1))
        case _:
            return ByteField(inner.source, inner.shift + bits, inner.mask << bits & _ALL)


def _power(item: Term) -> int | None:
    """The exponent of a power of two below 256."""
    value = item.op.value if isinstance(item.op, Number) else None
    if not isinstance(value, int) or not 1 <= value < 1 << _BITS or value & (value - 1):
        return None
    return value.bit_length() - 1
