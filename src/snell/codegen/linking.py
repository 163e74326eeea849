"""From an object file to an image: sections are laid out, and references between them resolved, once and for all.

Takes what LLVM writes for 64-bit x86; UnsupportedError where it holds something that only a linker can resolve.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from snell.codegen.elf import ABSOLUTE, ObjectFile, Relocation, RelocationKind, Section, Symbol, read_object
from snell.codegen.image import PAGE, Image, rounded
from snell.errors import UnsupportedError

__all__ = ["image_of"]

# Tables for unwinding and notes are for debuggers and exceptions, which generated code has not.
_LEFT_OUT: Final = (".eh_frame", ".note")
_REFUSED: Final = (".init_array", ".fini_array", ".ctors", ".dtors", ".tdata", ".tbss")
_WORD: Final = 8
# jmp *slot(%rip)
_JUMP: Final = b"\xff\x25"
_JUMP_BYTES: Final = 8


def image_of(object_file: bytes) -> Image:
    """An object file laid out."""
    return _Layout(read_object(object_file)).image()


@dataclass(slots=True)
class _Layout:
    """The code and the data in the making; `places` are those of the sections."""

    parsed: ObjectFile
    code: bytearray = field(default_factory=bytearray)
    data: bytearray = field(default_factory=bytearray)
    places: dict[int, int] = field(default_factory=dict[int, int])
    jumps: dict[int, int] = field(default_factory=dict[int, int])
    slots: dict[int, int] = field(default_factory=dict[int, int])
    addresses: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    imports: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    data_start: int = 0

    def image(self) -> Image:
        kept = [(k, s) for k, s in enumerate(self.parsed.sections) if s.is_allocated and not _is_left_out(s)]
        writable = [(k, s) for k, s in kept if s.is_writable]
        _place(self.code, [(k, s) for k, s in kept if not s.is_writable], 0, self.places)
        relocations = [r for r in self.parsed.relocations if r.section in dict(kept)]
        self._reserve_jumps(relocations)
        self.data_start = rounded(len(self.code), PAGE)
        self._reserve_slots(relocations)
        # What the file does not hold lies last, so that it takes no bytes of the image either.
        ordered = sorted(writable, key=lambda item: not item[1].content)
        data_bytes = _place(self.data, ordered, self.data_start, self.places)
        for slot, target in self.slots.items():
            self._fill(slot, self.parsed.symbols[target], 0)
        for relocation in relocations:
            self._resolve(relocation)
        self._write_jumps()
        return Image(bytes(self.code), bytes(self.data), data_bytes, self._symbols(), *self._lists())

    def _lists(self) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, str], ...]]:
        return tuple(sorted(self.addresses)), tuple(sorted(self.imports))

    def _symbols(self) -> dict[str, int]:
        defined = [s for s in self.parsed.symbols if s.name and s.section in self.places]
        return {symbol.name: self._place_of(symbol) for symbol in sorted(defined, key=lambda s: s.name)}

    def _reserve_jumps(self, relocations: Sequence[Relocation]) -> None:
        """A jump through a slot for each function of the process that is called: it may lie beyond 2 GB."""
        for relocation in relocations:
            is_outside = self.parsed.symbols[relocation.symbol].section is None
            if is_outside and relocation.kind is RelocationKind.CALL_32 and relocation.symbol not in self.jumps:
                self.code += bytes(-len(self.code) % _JUMP_BYTES)
                self.jumps[relocation.symbol] = len(self.code)
                self.code += bytes(_JUMP_BYTES)

    def _reserve_slots(self, relocations: Sequence[Relocation]) -> None:
        through = {r.symbol for r in relocations if r.kind in _TABLE_ENTRIES} | self.jumps.keys()
        for symbol in sorted(through):
            self.slots[self.data_start + len(self.data)] = symbol
            self.data += bytes(_WORD)

    def _slot_of(self, symbol: int) -> int:
        return next(slot for slot, target in self.slots.items() if target == symbol)

    def _write_jumps(self) -> None:
        for symbol, place in self.jumps.items():
            distance = self._slot_of(symbol) - (place + len(_JUMP) + 4)
            self.code[place : place + len(_JUMP) + 4] = _JUMP + struct.pack("<i", distance)

    def _place_of(self, symbol: Symbol) -> int:
        if symbol.section is None or symbol.section == ABSOLUTE or symbol.section not in self.places:
            raise UnsupportedError(f"{symbol.name!r} lies in no section of the image")
        return self.places[symbol.section] + symbol.value

    def _fill(self, slot: int, symbol: Symbol, addend: int) -> None:
        """A slot that gets an address when the image is put in place."""
        if symbol.section is not None:
            self.addresses.append((slot, self._place_of(symbol) + addend))
        elif addend:
            raise UnsupportedError(f"an address {addend} bytes beside {symbol.name!r}")
        else:
            self.imports.append((slot, symbol.name))

    def _resolve(self, relocation: Relocation) -> None:
        symbol = self.parsed.symbols[relocation.symbol]
        at = self.places[relocation.section] + relocation.offset
        kind = relocation.kind
        if kind is RelocationKind.ABSOLUTE_64:
            if at < self.data_start:
                raise UnsupportedError("an address within code, which is not written to")
            self._fill(at, symbol, relocation.addend)
            return
        if kind in _TABLE_ENTRIES:
            target = self._slot_of(relocation.symbol)
        elif relocation.symbol in self.jumps:
            target = self.jumps[relocation.symbol]
        else:
            target = self._place_of(symbol)
        word = "<q" if kind is RelocationKind.RELATIVE_64 else "<i"
        self._write(at, struct.pack(word, target + relocation.addend - at))

    def _write(self, at: int, content: bytes) -> None:
        part, start = (self.code, at) if at < self.data_start else (self.data, at - self.data_start)
        part[start : start + len(content)] = content


_TABLE_ENTRIES: Final = (
    RelocationKind.TABLE_ENTRY_32,
    RelocationKind.TABLE_ENTRY_RELAXABLE_32,
    RelocationKind.TABLE_ENTRY_RELAXABLE_REX_32,
)


def _is_left_out(section: Section) -> bool:
    return section.name.startswith(_LEFT_OUT)


def _place(part: bytearray, sections: Sequence[tuple[int, Section]], start: int, places: dict[int, int]) -> int:
    """Append the sections at their alignments; how many bytes the part then has in memory."""
    end = len(part)
    for number, section in sections:
        if section.name.startswith(_REFUSED):
            raise UnsupportedError(f"section {section.name} asks for a linker")
        end = rounded(end, min(section.alignment, PAGE))
        places[number] = start + end
        if section.content:
            part += bytes(end - len(part)) + section.content
        end += section.size
    return end
