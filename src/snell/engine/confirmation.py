"""The whole program timed with its finalists: the program by heuristics with the kernels of some plans in place of its own.

It runs on random operands at typical sizes, in this process: every plan's kernel was checked in another one.
A program that random operands do not suit (an index beyond its table), or whose weights would take too much memory, is
not confirmed; what was recorded stays then.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from snell.compiler.compile import Compilation, with_kernels
from snell.engine.whole_program import MOST_BYTES, WholePrograms
from snell.errors import SnellError
from snell.loops.build import BuiltKernel
from snell.runtime.executable import Bound
from snell.runtime.pool import Pool
from snell.search.confirm import Confirmation, confirm
from snell.symbolic import Dim

__all__ = ["Finalist", "confirm_finalists"]

_PROGRAMS = 3  # that are alive: by heuristics, with what is kept, and with one winner less


@dataclass(frozen=True, slots=True)
class Finalist:
    """A winner: its record's key, what the heuristics built, what its plan builds, and seconds won in a call of the
    program."""

    key: str
    built: BuiltKernel
    planned: BuiltKernel
    won: float


def confirm_finalists(
    compilation: Compilation,
    sizes: Mapping[Dim, int],
    finalists: Sequence[Finalist],
    expected: float,
    pool: Pool,
    seconds: float,
) -> Confirmation | None:
    """Which finalists help the whole program at these sizes, found within so many seconds; None where that cannot be
    said.  `expected` is the share of its time that the finalists' own times promise."""
    programs = WholePrograms(compilation.lowered.graph, sizes, pool, time.monotonic() + seconds)
    if programs.operand_bytes > MOST_BYTES:
        return None
    trials = _Programs(compilation, {f.key: f for f in finalists}, programs)
    order = [f.key for f in sorted(finalists, key=lambda f: -f.won)]
    try:
        return confirm(order, expected, trials.compare, programs.has_time)
    except SnellError:
        return None


@dataclass(slots=True)
class _Programs:
    """Programs with some of the finalists."""

    compilation: Compilation
    finalists: Mapping[str, Finalist]
    programs: WholePrograms
    bound: dict[frozenset[str], Bound] = field(default_factory=dict[frozenset[str], Bound])

    def compare(self, one: frozenset[str], other: frozenset[str]) -> float:
        """The first program's time over the second's."""
        return self.programs.ratio(self._program(one), self._program(other))

    def _program(self, keys: frozenset[str]) -> Bound:
        found = self.bound.get(keys)
        if found is None:
            self._make_room()
            chosen = [self.finalists[key] for key in keys]
            assembled = with_kernels(self.compilation, {f.built.kernel: (f.built, f.planned) for f in chosen})
            found = self.bound[keys] = self.programs.bound(assembled)
        return found

    def _make_room(self) -> None:
        """End the oldest program that is not the one by heuristics."""
        others = [keys for keys in self.bound if keys]
        if len(others) >= _PROGRAMS - 1:
            del self.bound[others[0]]
