"""Searching for the grouping of a program: neighbours of what the heuristics decide, ranked by cost, then by the clock.

Every decision that could be taken otherwise gives a neighbour.  All are lowered and ranked by the roofline cost; the
first few are compiled, their results compared with the program's own, and timed as whole programs against the best one so
far.  A winner is timed twice, its worse reading counts, and the next ones are tried on top of it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from snell.compiler.compile import Options, compile_graph, lower_with
from snell.compiler.lowered import Lowered
from snell.compiler.rewriting import ProgramRewriter
from snell.engine.grouping_cost import roofline_seconds
from snell.engine.report.costs import typical_sizes
from snell.engine.whole_program import MOST_BYTES, WholePrograms
from snell.errors import CompileError, SnellError
from snell.graph.node import Graph
from snell.rewrite.decisions import HEURISTIC_GROUPING, Decider, Decision, Grouping
from snell.runtime.executable import Bound
from snell.runtime.pool import Pool
from snell.search.arrays import Array
from snell.search.groupings import GroupingRecord, GroupingTrial

__all__ = ["search_grouping"]

_TIMED = 8  # neighbours, the cheapest by the roofline cost
_RANKING = 0.4  # of the time, at most
_WORST = 1.3  # of the roofline cost: nothing dearer is timed
_WORTH = 0.985  # of the time: less is noise
_NOTHING = GroupingRecord(HEURISTIC_GROUPING, 1.0)
_TOLERANCE = 2e-3  # of the largest number of a result: sums in another order differ by less


@dataclass(frozen=True, slots=True)
class _Neighbour:
    decision: Decision
    predicted: float


def search_grouping(
    graph: Graph, options: Options, pool: Pool, seconds: float, known: GroupingRecord = _NOTHING
) -> GroupingRecord:
    """What is known after so many seconds of search that goes on from `known`: the same where programs cannot be timed on
    random operands, or nothing more can be decided otherwise."""
    sizes, options = typical_sizes(graph), replace(options, grouping=known.grouping)
    tried = {trial.decision for trial in known.trials}
    programs = WholePrograms(graph, sizes, pool, time.monotonic() + seconds)
    if programs.operand_bytes > MOST_BYTES:
        return known
    neighbours = sorted(_neighbours(graph, options, time.monotonic() + _RANKING * seconds), key=lambda n: n.predicted)
    chosen = [n for n in neighbours[:_TIMED] if n.predicted <= _WORST and str(n.decision) not in tried]
    if not chosen:
        return known
    try:
        search = _Search(graph, options, programs, known.ratio)
    except SnellError:
        return known  # random operands are none that it takes
    slowest = 0.0
    for neighbour in chosen:
        begin = time.monotonic()
        if begin + slowest > programs.end:
            break
        search.attempt(neighbour)
        slowest = max(slowest, time.monotonic() - begin)
    return GroupingRecord(search.grouping, search.ratio, (*known.trials, *search.trials))


def _neighbours(graph: Graph, options: Options, end: float) -> Iterator[_Neighbour]:
    """Every decision taken otherwise that changes the program, with the ratio of the roofline costs."""
    rewriter, sizes = cache(ProgramRewriter(options.policy)), typical_sizes(graph)

    def lowered(decide: Decider) -> Lowered:
        return lower_with(graph, options, rewriter, decide)[0]

    listening = Decider(options.grouping, listens=True)
    base = lowered(listening)
    cost = roofline_seconds(base, options.target, options.threads, sizes)
    for decision in listening.asked:
        if time.monotonic() > end:
            return
        try:
            other = lowered(Decider(options.grouping.changed(decision.opposite)))
        except CompileError:
            continue  # no kernel can be made of it
        if other.steps != base.steps:
            predicted = roofline_seconds(other, options.target, options.threads, sizes) / cost
            yield _Neighbour(decision.opposite, predicted)


@dataclass(slots=True)
class _Search:
    """The best program so far, and what was tried."""

    graph: Graph
    options: Options
    programs: WholePrograms
    ratio: float = 1.0
    trials: list[GroupingTrial] = field(default_factory=list[GroupingTrial])
    grouping: Grouping = field(init=False)
    best: Bound = field(init=False)
    expected: tuple[Array, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.grouping = self.options.grouping
        self.best, self.expected = self._run(self.grouping)

    def attempt(self, neighbour: _Neighbour) -> None:
        """Time the neighbour against the best; it becomes the best where it is faster and computes the same."""
        grouping = self.grouping.changed(neighbour.decision)
        measured: float | None = None
        kept = False
        try:
            program, results = self._run(grouping)
        except SnellError:
            program, results = None, ()
        if program is not None and _agree(results, self.expected):
            measured = self.programs.ratio(program, self.best)
            if measured < _WORTH:
                measured = max(measured, self.programs.ratio(program, self.best))
            kept = measured < _WORTH
            if kept:
                self.best, self.grouping, self.ratio = program, grouping, self.ratio * measured
        self.trials.append(GroupingTrial(str(neighbour.decision), neighbour.predicted, measured, kept))

    def _run(self, grouping: Grouping) -> tuple[Bound, tuple[Array, ...]]:
        compilation = compile_graph(self.graph, replace(self.options, grouping=grouping))
        program = self.programs.bound(compilation.assembled)
        return program, tuple(np.array(result) for result in program.outputs)


def _agree(results: tuple[Array, ...], expected: tuple[Array, ...]) -> bool:
    return all(_is_close(a, b) for a, b in zip(results, expected, strict=True))


def _is_close(result: Array, expected: Array) -> bool:
    """Equal, or as close as sums in another order are: by the largest number, and by the dtype's own rounding."""
    if result.dtype.kind in "biu":
        return bool(np.array_equal(result, expected))
    own = 8.0 * float(np.finfo(result.dtype).eps) if result.dtype.kind == "f" else 0.1
    one, other = result.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(other)
    if not np.array_equal(finite, np.isfinite(one)):
        return False
    scale = float(np.max(np.abs(other[finite]), initial=0.0))
    return bool(np.all(np.abs(one[finite] - other[finite]) <= max(_TOLERANCE, own) * scale))
