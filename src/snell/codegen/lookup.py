"""Small tables: each lane gets the entry that its index names, from registers where the target has an instruction for it.

A table longer than a register is looked up part by part, and the index's higher bits choose between the parts.  Without
an instruction, each lane reads its entry from a constant in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from snell.codegen.assembler import Value
from snell.codegen.literals import literal, type_text
from snell.dtypes import DType
from snell.targets import Lookup

__all__ = ["Emission", "looked_up"]


@dataclass(frozen=True, slots=True)
class Emission:
    """Where the instructions go: `emit(text, *operands)` gives the name of a result, `declare` takes lines of the module."""

    emit: Callable[..., str]
    declare: Callable[[str], None]


def looked_up(to: Emission, row: Lookup | None, table: Sequence[float], dtype: DType, index: Value) -> Value:
    """`table[index mod len(table)]` in each lane; the table's length is a power of two, the index an i32."""
    if row is None:
        return _loaded(to, table, dtype, index)
    if not index.lanes:
        wide = to.emit(f"insertelement <{row.lanes} x i32> poison, i32 {index.text}, i32 0", index.text)
        found = _picked(to, row, table, wide)
        return Value(to.emit(f"extractelement {type_text(dtype, row.lanes)} {found}, i32 0", found), dtype)
    parts = [_picked(to, row, table, _part(to, row, index, start)) for start in range(0, index.lanes, row.lanes)]
    return Value(_joined(to, row, parts, index.lanes), dtype, index.lanes)


def _shuffle(to: Emission, kind: str, a: str, b: str, lanes: Sequence[int]) -> str:
    mask = ", ".join(f"i32 {lane}" for lane in lanes)
    return to.emit(f"shufflevector {kind} {a}, {kind} {b}, <{len(lanes)} x i32> <{mask}>", a, b)


def _part(to: Emission, row: Lookup, index: Value, start: int) -> str:
    """A register of the index's lanes from one on; what there are too few of repeats the last."""
    if (start, index.lanes) == (0, row.lanes):
        return index.text
    lanes = [min(start + lane, index.lanes - 1) for lane in range(row.lanes)]
    return _shuffle(to, f"<{index.lanes} x i32>", index.text, "poison", lanes)


def _joined(to: Emission, row: Lookup, parts: Sequence[str], lanes: int) -> str:
    """The first so many lanes of registers that follow each other."""
    width, joined = row.lanes, list(parts)
    while len(joined) > 1:
        joined.extend(["poison"] * (len(joined) % 2))
        pairs = zip(joined[::2], joined[1::2], strict=True)
        joined = [_shuffle(to, type_text(row.dtype, width), a, b, range(2 * width)) for a, b in pairs]
        width *= 2
    return joined[0] if width == lanes else _shuffle(to, type_text(row.dtype, width), joined[0], "poison", range(lanes))


def _picked(to: Emission, row: Lookup, table: Sequence[float], index: str) -> str:
    """One register of entries."""
    kind, indices = type_text(row.dtype, row.lanes), f"<{row.lanes} x i32>"
    to.declare(f"declare {kind} @{row.instruction}({kind}, {indices})")
    element = type_text(row.dtype, 0)
    found: list[str] = []
    for start in range(0, len(table), row.lanes):
        entries = [table[min(start + lane, len(table) - 1)] for lane in range(row.lanes)]
        constant = f"<{', '.join(f'{element} {literal(entry, row.dtype)}' for entry in entries)}>"
        found.append(to.emit(f"call {kind} @{row.instruction}({kind} {constant}, {indices} {index})", index))
    bit = row.lanes
    while len(found) > 1:
        masked = to.emit(f"and {indices} {index}, splat (i32 {bit})", index)
        second = to.emit(f"icmp ne {indices} {masked}, zeroinitializer", masked)
        pairs = zip(found[::2], found[1::2], strict=True)
        found = [to.emit(f"select <{row.lanes} x i1> {second}, {kind} {b}, {kind} {a}", second, a, b) for a, b in pairs]
        bit *= 2
    return found[0]


def _loaded(to: Emission, table: Sequence[float], dtype: DType, index: Value) -> Value:
    """Each lane by a load from the table in memory."""
    element = type_text(dtype, 0)
    entries = ", ".join(f"{element} {literal(entry, dtype)}" for entry in table)
    name = f"@table.{abs(hash(tuple(table))):x}"
    to.declare(f"{name} = internal constant [{len(table)} x {element}] [{entries}]")
    if not index.lanes:
        return Value(_entry(to, name, table, element, index.text), dtype)
    result = "poison"
    kind = type_text(dtype, index.lanes)
    for lane in range(index.lanes):
        place = to.emit(f"extractelement <{index.lanes} x i32> {index.text}, i32 {lane}", index.text)
        entry = _entry(to, name, table, element, place)
        result = to.emit(f"insertelement {kind} {result}, {element} {entry}, i32 {lane}", result, entry)
    return replace(index, text=result, dtype=dtype)


def _entry(to: Emission, name: str, table: Sequence[float], element: str, place: str) -> str:
    bounded = to.emit(f"and i32 {place}, {len(table) - 1}", place)
    pointer = to.emit(f"getelementptr {element}, ptr {name}, i32 {bounded}", bounded)
    return to.emit(f"load {element}, ptr {pointer}", pointer)
