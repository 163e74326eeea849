"""The whole program timed with its finalists: the program by heuristics with the kernels of some plans in place of its own.

It runs on random operands at typical sizes, in this process: every plan's kernel was checked in another one.
A program that random operands do not suit (an index beyond its table), or whose weights would take too much memory, is
not confirmed; what was recorded stays then.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from snell.compiler.compile import Compilation, with_kernels
from snell.errors import SnellError
from snell.graph.graph_inputs import input_operations
from snell.loops.build import BuiltKernel
from snell.loops.ir import Buffer, Dense
from snell.rewrite.term import Tensor
from snell.runtime.binding import bind
from snell.runtime.executable import Bound
from snell.runtime.pool import Pool
from snell.search.arrays import Array, operand, operand_bytes
from snell.search.confirm import Confirmation, confirm
from snell.symbolic import Dim

__all__ = ["Finalist", "confirm_finalists"]

_MOST_BYTES = 512 << 20  # of operands; programs pack weights of their own
_READING_SECONDS = 0.005
_LEAST_READINGS, _READINGS = 3, 11
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
    named = {dim.name: size for dim, size in sizes.items()}
    trials = _Programs(compilation, {f.key: f for f in finalists}, pool, time.monotonic() + seconds, named)
    if trials.operand_bytes > _MOST_BYTES:
        return None
    order = [f.key for f in sorted(finalists, key=lambda f: -f.won)]
    try:
        return confirm(order, expected, trials.compare, trials.has_time)
    except SnellError:
        return None


@dataclass(slots=True)
class _Programs:
    """Programs with some of the finalists, bound to random operands."""

    compilation: Compilation
    finalists: Mapping[str, Finalist]
    pool: Pool
    end: float
    sizes: Mapping[str, int]
    buffers: dict[str, Buffer] = field(init=False)
    frozen: dict[str, Array] = field(default_factory=dict[str, Array])
    bound: dict[frozenset[str], Bound] = field(default_factory=dict[frozenset[str], Bound])

    def __post_init__(self) -> None:
        inputs = input_operations(self.compilation.lowered.graph)
        self.buffers = {
            name: Buffer(Tensor(name, op.shape, op.dtype, op.storage), op.shape, Dense()) for name, op in inputs.items()
        }

    @property
    def operand_bytes(self) -> int:
        """Bytes of all operands."""
        return sum(operand_bytes(buffer, self.sizes) for buffer in self.buffers.values())

    def has_time(self) -> bool:
        """Whether another comparison may begin."""
        return time.monotonic() < self.end

    def compare(self, one: frozenset[str], other: frozenset[str]) -> float:
        """The median over neighbouring readings of the first program's time over the second's."""
        calls = self._program(one), self._program(other)
        once = max(_seconds(call, 1) for call in calls)
        repeats = max(1, math.ceil(_READING_SECONDS / max(once, 1e-7)))
        ratios: list[float] = []
        while len(ratios) < _LEAST_READINGS or (len(ratios) < _READINGS and self.has_time()):
            first, second = (_seconds(call, repeats) for call in calls)
            ratios.append(first / second)
        return statistics.median(ratios)

    def _program(self, keys: frozenset[str]) -> Bound:
        found = self.bound.get(keys)
        if found is None:
            self._make_room()
            found = self.bound[keys] = self._made(keys)
        return found

    def _make_room(self) -> None:
        """End the oldest program that is not the one by heuristics."""
        others = [keys for keys in self.bound if keys]
        if len(others) >= _PROGRAMS - 1:
            del self.bound[others[0]]

    def _made(self, keys: frozenset[str]) -> Bound:
        chosen = [self.finalists[key] for key in keys]
        assembled = with_kernels(self.compilation, {f.built.kernel: (f.built, f.planned) for f in chosen})
        for name in assembled.frozen:
            if name not in self.frozen:
                self.frozen[name] = self._random(name)
        executable = bind(assembled, {name: self.frozen[name] for name in assembled.frozen}, self.pool)
        sizes = {dim.name: self.sizes[dim.name] for dim in executable.unsolved}
        bound = executable.bind(*map(self._random, assembled.inputs), sizes=sizes)
        bound()
        return bound

    def _random(self, name: str) -> Array:
        return operand(self.buffers[name], self.sizes, np.random.default_rng(len(name)))


def _seconds(call: Bound, repeats: int) -> float:
    begin = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - begin) / repeats
