"""Binding: a program and the one that packs its weights, with arrays for the frozen inputs, become an executable."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

from snell.errors import CompileError
from snell.runtime.executable import Executable
from snell.runtime.pool import Pool
from snell.runtime.program import Program, Role

__all__ = ["Assembled", "bind"]


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
    missing = [name for name in assembled.frozen if name not in frozen]
    if missing:
        raise CompileError(f"frozen inputs {missing} have no array; give each of them when binding")
    known: MutableMapping[str, Any] = {} if packed is None else packed
    if assembled.prepare is not None:
        wanted = names(assembled.prepare, Role.OUTPUT)
        if not known.keys() >= set(wanted):
            sources = {name: frozen[name] for name in names(assembled.prepare, Role.FROZEN)}
            made = Executable(assembled.prepare, sources, pool)()
            for name, array in zip(wanted, made, strict=True):
                known.setdefault(name, array)
    available = {**known, **frozen}
    return Executable(
        assembled.program, {name: available[name] for name in names(assembled.program, Role.FROZEN)}, pool
    )


def names(program: Program, role: Role) -> tuple[str, ...]:
    """Names of the buffers with a role, in order."""
    return tuple(program.buffers[slot].name for slot in program.slots(role))
