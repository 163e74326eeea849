"""The analytical model: cycles of a group under a plan, to rank candidates before any of them is timed.

For each stage the register tile's cycles (`loops.tile`), the loads that its tile repeats, what becomes of sums between
passes, and functions; values between a group's stages that leave the first cache; all of it on the thread that the
tickets keep busy for longest.  The weights of these were fitted to
outcomes of three searches (a product of 8 rows, one of 32, and normalised rows).
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterable, Sequence

from snell.graph.primitives import ScalarFunction, Unary
from snell.loops.fused import row_block
from snell.loops.grouping import Group
from snell.loops.plan import Plan, StageChoice, TileChoice
from snell.loops.schedule import StageSchedule, schedule_stage
from snell.loops.stage import Stage
from snell.loops.tile import Tile, possible_tiles
from snell.rewrite.cut import typical_size
from snell.rewrite.term import walk
from snell.search.space import stage_volume
from snell.symbolic import Axis
from snell.targets import Target

__all__ = ["Model"]

_TICKET = 40.0  # cycles to begin one; several are claimed at once
_LOAD = 2.0  # of one that a tile repeats: it waits beside what comes from memory
_CARRIED = 6.0  # of a register of sums between two passes: read, added, written
_TILE = 30.0  # of a pass over a tile: the end of its loop is not foreseen, its sums begin anew
_FUNCTION = 1.0  # of an exponential and the like at one position
_L2_BYTE = 0.03  # of a byte that leaves the first-level cache and comes back
_MOST_TICKETS = 512  # more of them keep all threads busy to the end


class Model:
    """Costs of plans of one group's stages (as `search.space` schedules them)."""

    def __init__(self, stages: Sequence[Stage], group: Group, target: Target, threads: int) -> None:
        self._stages = stages
        self._group = group
        self._target = target
        self._threads = threads
        self._tiles: list[dict[TileChoice, float]] = [
            {tile: cost for cost, tile in possible_tiles(stage, target)} for stage in stages
        ]

    def cycles(self, plan: Plan) -> float:
        """Estimated cycles of one call on all threads; CompileError where the plan does not fit."""
        if not self._group.outer:
            return self._lone(plan.stage(0))
        work = sum(self._work(place, plan.stage(place), None) for place in range(len(self._stages)))
        *outer, rows = self._group.outer
        block = plan.rows or row_block(self._group, self._target)
        work += self._spilled(min(float(block), typical_size(rows.extent)))
        tickets = [*((typical_size(axis.extent), 1) for axis in outer), (typical_size(rows.extent), block)]
        return self._on_threads(work, tickets)

    def _lone(self, choice: StageChoice) -> float:
        stage = self._stages[0]
        schedule = schedule_stage(stage, self._target, threads=self._threads, choice=choice)
        tickets = [(stage.extent(level.axis), level.step) for level in schedule.tickets]
        return self._on_threads(self._work(0, choice, schedule), tickets)

    def _work(self, place: int, choice: StageChoice, schedule: StageSchedule | None) -> float:
        """Cycles of a stage on one thread."""
        stage, costs = self._stages[place], self._tiles[place]
        best = min(costs.values(), default=1.0)
        each = costs.get(choice.tile, best) if choice.tile is not None else best
        schedule = schedule or schedule_stage(stage, self._target, fixed=self._group.outer, choice=choice)
        if stage.partials and schedule.tile is not None:
            each += _repeated_loads(stage, schedule.tile) + _between_passes(stage, schedule)
        functions = sum(isinstance(item.op, ScalarFunction | Unary) for item in walk(*stage.terms()))
        return (each + _FUNCTION * functions) * stage_volume(stage)

    def _spilled(self, rows: float) -> float:
        """Cycles of values between the stages that so many rows together do not keep in the first-level cache."""
        local = [stage for stage in self._group.stages if stage.tensor in self._group.local]
        outer = math.prod(typical_size(axis.extent) for axis in self._group.outer)
        each = sum(stage.tensor.dtype.itemsize * _inner(stage, self._group.outer) for stage in local)
        return 2.0 * _L2_BYTE * each * outer if rows * each > self._target.l1_bytes / 2 else 0.0

    def _on_threads(self, work: float, tickets: Sequence[tuple[float, int]]) -> float:
        """Cycles of the thread that is busy for longest, what claiming takes included."""
        count = math.prod(math.ceil(extent / step) for extent, step in tickets)
        busiest = _busiest(tickets, self._threads) if count <= _MOST_TICKETS else 1.0 / self._threads
        return work * busiest + count * _TICKET / self._threads


def _inner(stage: Stage, outer: Sequence[Axis]) -> float:
    return math.prod(typical_size(axis.extent) for axis in stage.axes if axis not in outer)


def _repeated_loads(stage: Stage, tile: Tile) -> float:
    """Cycles a point of loads: a tile reads each of its operands once for each of its vectors and rows that differ."""
    loads = 0
    for item in stage.loads():
        rows = tile.count if tile.unrolled in item.free else 1
        loads += rows * (tile.vectors if tile.vector in item.free else 1)
    return _LOAD * loads / (tile.vectors * tile.count) / tile.lanes


def _between_passes(stage: Stage, schedule: StageSchedule) -> float:
    """Cycles a point of what a tile does once a pass."""
    tile = schedule.tile
    assert tile is not None
    length = math.prod(stage.extent(axis) for axis in stage.reduced)
    for level in schedule.passes:
        length *= min(1.0, level.step / stage.extent(level.axis))
    carried = _CARRIED if schedule.passes else 0.0
    return (carried + _TILE / (tile.vectors * tile.count)) / max(1.0, length) / tile.lanes


def _busiest(tickets: Sequence[tuple[float, int]], threads: int) -> float:
    """The share of the work of the thread with most of it, where each claims the next ticket when it is free."""
    shares = [1.0]
    for extent, step in tickets:
        shares = [share * part for share, part in itertools.product(shares, _parts(extent, step))]
    loads = [0.0] * threads
    for share in shares:
        heapq.heapreplace(loads, loads[0] + share)
    return max(loads)


def _parts(extent: float, step: int) -> Iterable[float]:
    """Shares of an axis, all of one step but the last."""
    whole, rest = divmod(extent, step)
    return [step / extent] * int(whole) + ([rest / extent] if rest else [])
