"""The analytical model: cycles of a group under a plan, to rank candidates before any of them is timed.

The register tile's cycles per element (`loops.tile`), times the shares of threads that a ticket's size leaves idle, times
what operands cost that do not stay in the caches their loops ask of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from snell.loops.access import access_of
from snell.loops.plan import Plan, StageChoice, TileChoice
from snell.loops.schedule import StageSchedule, schedule_stage
from snell.loops.stage import Stage
from snell.loops.tile import possible_tiles
from snell.search.space import stage_volume
from snell.symbolic import Axis
from snell.targets import Target

__all__ = ["Model"]

_BEYOND_L1, _BEYOND_L2 = 1.05, 1.25
_TICKET = 400.0  # cycles to claim and begin one


class Model:
    """Costs of plans of one group's stages (as `search.space` schedules them)."""

    def __init__(self, stages: Sequence[Stage], outer: Sequence[Axis], target: Target, threads: int) -> None:
        self._stages = stages
        self._outer = tuple(outer)
        self._target = target
        self._threads = threads
        self._tiles: list[dict[TileChoice, float]] = [
            {tile: cost for cost, tile in possible_tiles(stage, target)} for stage in stages
        ]

    def cycles(self, plan: Plan) -> float:
        """Estimated cycles of one call on all threads; CompileError where the plan does not fit."""
        return sum(self._stage(place, plan.stage(place)) for place in range(len(self._stages)))

    def _stage(self, place: int, choice: StageChoice) -> float:
        stage, costs = self._stages[place], self._tiles[place]
        best = min(costs.values(), default=1.0)
        each = costs.get(choice.tile, best) if choice.tile is not None else best
        work = each * stage_volume(stage)
        if self._outer:
            return work / self._threads
        schedule = schedule_stage(stage, self._target, threads=self._threads, choice=choice)
        tickets = math.prod(math.ceil(stage.extent(level.axis) / level.step) for level in schedule.tickets)
        idle = math.ceil(tickets / self._threads) * self._threads / max(1, tickets)
        caches = self._cached(stage, schedule) if stage.partials else 1.0
        return work / self._threads * idle * caches + tickets * _TICKET / self._threads

    def _cached(self, stage: Stage, schedule: StageSchedule) -> float:
        """What it costs that a ticket's operands do not fit: the panel of one tile in the first level, all of them in the
        second."""
        panel, whole = 0.0, 0.0
        tile = schedule.tile
        assert tile is not None
        for item in stage.loads():
            alive = {axis: self._alive(stage, schedule, axis) for axis in access_of(item).axes}
            size = item.dtype.itemsize * math.prod(alive.values())
            whole += size
            if tile.vector in alive and tile.unrolled not in alive:
                panel += size / max(1.0, alive[tile.vector] / (tile.lanes * tile.vectors))
        first = _BEYOND_L1 if panel > self._target.l1_bytes * 0.75 else 1.0
        return first * (_BEYOND_L2 if whole > self._target.l2_bytes * 0.75 else 1.0)

    @staticmethod
    def _alive(stage: Stage, schedule: StageSchedule, axis: Axis) -> float:
        steps = [level.step for level in (*schedule.tickets, *schedule.passes) if level.axis == axis]
        return min([stage.extent(axis), *map(float, steps)])
