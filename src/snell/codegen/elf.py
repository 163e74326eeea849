"""Relocatable ELF files of 64-bit x86 as data: sections, symbols and relocations, in the order in which the file has them.

Takes the bytes that code generation writes; anything else is an `UnsupportedError`, never a wrong reading.  Field names
follow the specification (System V ABI, chapter "Object files", and its x86-64 supplement).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from snell.errors import UnsupportedError

__all__ = ["ABSOLUTE", "ObjectFile", "Relocation", "RelocationKind", "Section", "Symbol", "read_object"]

UNDEFINED: Final = 0
ABSOLUTE: Final = 0xFFF1

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_MAGIC, _RELOCATABLE, _X86_64 = b"\x7fELF\x02\x01", 1, 62
_SYMBOLS, _RELOCATIONS, _WITHOUT_BYTES = 2, 4, 8
_WRITABLE, _ALLOCATED, _EXECUTABLE = 1, 2, 4


class RelocationKind(IntEnum):
    """How a reference is written into the code."""

    ABSOLUTE_64 = 1
    RELATIVE_32 = 2
    CALL_32 = 4
    TABLE_ENTRY_32 = 9
    RELATIVE_64 = 24
    TABLE_ENTRY_RELAXABLE_32 = 41
    TABLE_ENTRY_RELAXABLE_REX_32 = 42


@dataclass(frozen=True, slots=True)
class Section:
    """Bytes of one kind; `size` exceeds `content` only where the section is zeros that the file does not hold."""

    name: str
    content: bytes
    size: int
    alignment: int
    is_allocated: bool
    is_writable: bool
    is_executable: bool


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name for a place: `section` is a number in the file, None where another module defines it."""

    name: str
    section: int | None
    value: int


@dataclass(frozen=True, slots=True)
class Relocation:
    """At `offset` of section `section`: a reference to a symbol's place + `addend`."""

    section: int
    offset: int
    kind: RelocationKind
    symbol: int
    addend: int


@dataclass(frozen=True, slots=True)
class ObjectFile:
    """A relocatable file, whole."""

    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...]
    relocations: tuple[Relocation, ...]


def read_object(data: bytes) -> ObjectFile:
    """The file's content; UnsupportedError where it is another kind of file, or a reference of a kind not listed here."""
    if len(data) < _HEADER.size or not data.startswith(_MAGIC):
        raise UnsupportedError(f"expected a 64-bit ELF file, received {data[:6]!r}")
    fields = _HEADER.unpack_from(data)
    if (fields[1], fields[2]) != (_RELOCATABLE, _X86_64):
        raise UnsupportedError(f"expected relocatable x86-64 code, received type {fields[1]} for machine {fields[2]}")
    start, count, names = int(fields[6]), int(fields[12]), int(fields[13])
    headers: list[tuple[int, ...]] = [_SECTION.unpack_from(data, start + k * _SECTION.size) for k in range(count)]
    labels = _content(data, headers[names])
    sections = tuple(_section(data, header, labels) for header in headers)
    symbols: tuple[Symbol, ...] = ()
    relocations: list[Relocation] = []
    for header in headers:
        if header[1] == _SYMBOLS:
            symbols = _symbols(_content(data, header), _content(data, headers[header[6]]))
        elif header[1] == _RELOCATIONS:
            relocations += _relocations(_content(data, header), header[7])
    return ObjectFile(sections, symbols, tuple(relocations))


def _content(data: bytes, header: tuple[int, ...]) -> bytes:
    return b"" if header[1] == _WITHOUT_BYTES else data[header[4] : header[4] + header[5]]


def _section(data: bytes, header: tuple[int, ...], labels: bytes) -> Section:
    flags = header[2]
    return Section(
        name=_text(labels, header[0]),
        content=_content(data, header),
        size=header[5],
        alignment=max(1, header[8]),
        is_allocated=bool(flags & _ALLOCATED),
        is_writable=bool(flags & _WRITABLE),
        is_executable=bool(flags & _EXECUTABLE),
    )


def _symbols(table: bytes, labels: bytes) -> tuple[Symbol, ...]:
    return tuple(
        Symbol(_text(labels, name), None if section == UNDEFINED else section, value)
        for name, _, _, section, value, _ in _SYMBOL.iter_unpack(table)
    )


def _relocations(table: bytes, section: int) -> list[Relocation]:
    known = {kind.value: kind for kind in RelocationKind}
    found: list[Relocation] = []
    for offset, info, addend in _RELOCATION.iter_unpack(table):
        kind = known.get(info & 0xFFFFFFFF)
        if kind is None:
            raise UnsupportedError(f"a reference of kind {info & 0xFFFFFFFF}; supported are {sorted(known)}")
        found.append(Relocation(section, offset, kind, info >> 32, addend))
    return found


def _text(labels: bytes, start: int) -> str:
    return labels[start : labels.index(b"\0", start)].decode()
