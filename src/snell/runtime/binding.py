"""Binding: a program and the one that packs its weights, with arrays for the frozen inputs, become an executable."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

from snell.errors import CompileError
from snell.runtime.executable import Executable
from snell.runtime.pool import Pool
from snell.runtime.program import BufferSlot, Program, Role

__all__ = ["Assembled", "bind", "pack"]


@dataclass(frozen=True, slots=True)
class Assembled:
    """The program of every call, and the one that packs weights (None when there is nothing to pack)."""

    program: Program
    prepare: Program | None

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs, in the order of the executable's arguments."""
        return names(self.program, Role.INPUT)

    @property
    def packed(self) -> tuple[BufferSlot, ...]:
        """What packing makes: frozen inputs of the program that no file holds."""
        prepare = self.prepare
        return () if prepare is None else tuple(prepare.buffers[slot] for slot in prepare.slots(Role.OUTPUT))

    def needed(self, packed: Container[str]) -> tuple[str, ...]:
        """Names of the arrays that binding asks for where these have been packed."""
        return tuple(name for name in names(self.program, Role.FROZEN) if name not in packed)

    @property
    def frozen(self) -> tuple[str, ...]:
        """Names of the frozen arrays that binding asks for."""
        programs = [p for p in (self.program, self.prepare) if p is not None]
        made = frozenset(() if self.prepare is None else names(self.prepare, Role.OUTPUT))
        return tuple(sorted({name for program in programs for name in names(program, Role.FROZEN)} - made))


def bind(
    assembled: Assembled,
    frozen: Mapping[str, Any],
    pool: Pool | None = None,
    packed: MutableMapping[str, Any] | None = None,
) -> Executable:
    """An executable with its weights bound; packed ones are made here, once.  CompileError names a missing array.

    `packed` holds what other programs on the same arrays have packed, by names that say what is packed and how; what
    is new is added to it.
    """
    known: MutableMapping[str, Any] = {} if packed is None else packed
    if not known.keys() >= {slot.name for slot in assembled.packed}:
        pack(assembled, frozen, pool, known)
    needed = assembled.needed(known)
    _require(needed, frozen)
    available = {**known, **{name: frozen[name] for name in needed}}
    return Executable(
        assembled.program, {name: available[name] for name in names(assembled.program, Role.FROZEN)}, pool
    )


def pack(
    assembled: Assembled, frozen: Mapping[str, Any], pool: Pool | None, packed: MutableMapping[str, Any]
) -> Mapping[str, Any]:
    """Run the program that packs; what is new of what it makes is added to `packed`, all of it returned."""
    if assembled.prepare is None:
        return {}
    sources = names(assembled.prepare, Role.FROZEN)
    _require(sources, frozen)
    made = Executable(assembled.prepare, {name: frozen[name] for name in sources}, pool)()
    arrays = {slot.name: array for slot, array in zip(assembled.packed, made, strict=True)}
    for name, array in arrays.items():
        packed.setdefault(name, array)
    return arrays


def _require(wanted: Iterable[str], frozen: Container[str]) -> None:
    missing = [name for name in wanted if name not in frozen]
    if missing:
        raise CompileError(f"frozen inputs {missing} have no array; give each of them when binding")


def names(program: Program, role: Role) -> tuple[str, ...]:
    """Names of the buffers with a role, in order."""
    return tuple(program.buffers[slot].name for slot in program.slots(role))
