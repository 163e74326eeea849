"""Whole programs bound to random operands at typical sizes, and timed against each other in neighbouring readings."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from snell.errors import UnsupportedError
from snell.graph.graph_inputs import input_operations
from snell.graph.node import Graph
from snell.loops.ir import Buffer, Dense
from snell.rewrite.term import Tensor
from snell.runtime.binding import Assembled, bind
from snell.runtime.executable import Bound
from snell.runtime.pool import Pool
from snell.search.arrays import Array, operand, operand_bytes
from snell.symbolic import Dim

__all__ = ["MOST_BYTES", "WholePrograms"]

MOST_BYTES = 512 << 20  # of operands; programs pack weights of their own
MOST_ARENA_BYTES = 1 << 30  # of intermediate values: another grouping may store what no program should
_READING_SECONDS = 0.005
_LEAST_READINGS, _READINGS = 3, 11


@dataclass(slots=True)
class WholePrograms:
    """Programs of one graph: the same operands for all of them; readings end at `end`."""

    graph: Graph
    sizes: Mapping[Dim, int]
    pool: Pool
    end: float
    _named: dict[str, int] = field(init=False)
    _buffers: dict[str, Buffer] = field(init=False)
    _frozen: dict[str, Array] = field(default_factory=dict[str, Array])

    def __post_init__(self) -> None:
        self._named = {dim.name: size for dim, size in self.sizes.items()}
        self._buffers = {
            name: Buffer(Tensor(name, op.shape, op.dtype, op.storage), op.shape, Dense())
            for name, op in input_operations(self.graph).items()
        }

    @property
    def operand_bytes(self) -> int:
        """Bytes of all operands."""
        return sum(operand_bytes(buffer, self._named) for buffer in self._buffers.values())

    def has_time(self) -> bool:
        """Whether another comparison may begin."""
        return time.monotonic() < self.end

    def bound(self, assembled: Assembled) -> Bound:
        """The program bound; it has run once.  UnsupportedError where its intermediate values would take too much memory."""
        arena = int(assembled.program.arena_bytes.evaluate(self.sizes))
        if arena > MOST_ARENA_BYTES:
            raise UnsupportedError(f"expected at most {MOST_ARENA_BYTES} bytes of intermediate values, found {arena}")
        for name in assembled.frozen:
            if name not in self._frozen:
                self._frozen[name] = self._random(name)
        executable = bind(assembled, {name: self._frozen[name] for name in assembled.frozen}, self.pool)
        sizes = {dim.name: self._named[dim.name] for dim in executable.unsolved}
        found = executable.bind(*map(self._random, assembled.inputs), sizes=sizes)
        found()
        return found

    def ratio(self, one: Bound, other: Bound) -> float:
        """The median over neighbouring readings of the first program's time over the second's."""
        once = max(_seconds(call, 1) for call in (one, other))
        repeats = max(1, math.ceil(_READING_SECONDS / max(once, 1e-7)))
        ratios: list[float] = []
        while len(ratios) < _LEAST_READINGS or (len(ratios) < _READINGS and self.has_time()):
            first, second = (_seconds(call, repeats) for call in (one, other))
            ratios.append(first / second)
        return statistics.median(ratios)

    def _random(self, name: str) -> Array:
        return operand(self._buffers[name], self._named, np.random.default_rng(len(name)))


def _seconds(call: Bound, repeats: int) -> float:
    begin = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - begin) / repeats
