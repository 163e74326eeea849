"""The kernel of a group that walks its rows in blocks: begin the state, advance it block by block, finish.

tickets over the outer axes, rows together
  packed operands
  for rows:
    init                          state of these rows, in local buffers
    for the reduced axes, a block at a time:
      step                        values of the block, then the state after it
    finish
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from snell.loops.grouping import Blocks, Group
from snell.loops.ir import Allocate, Buffer, BufferScope, Dense, Level, Loop, Phase, Statement
from snell.loops.lower import lower_stage
from snell.loops.packing import pack_operands
from snell.loops.schedule import StageSchedule, schedule_stage
from snell.loops.stage import Stage
from snell.rewrite.cut import typical_size
from snell.symbolic import Axis, Expr, as_expr, as_size
from snell.targets import Target

__all__ = ["streamed_phases"]

_ROWS = 24


def streamed_phases(
    group: Group, blocks: Blocks, target: Target, threads: int
) -> tuple[tuple[Phase, ...], tuple[Buffer, ...]]:
    """The phases, and the local buffers in them."""
    rows = group.outer[-1]
    block = _row_block(group)
    fixed = (*((axis, 1) for axis in group.outer[:-1]), (rows, block))
    made = frozenset(stage.tensor for stage in group.stages)
    once: list[Statement] = []
    packed: list[Buffer] = []
    bodies: list[Statement] = []
    parts: tuple[list[Statement], ...] = ([], [], [])
    for place, stage in enumerate(group.stages):
        inside = blocks.start <= place < blocks.stop
        ranges = (*blocks.levels, *fixed) if inside else fixed
        placed = replace(stage, ranges=ranges, inside=made)
        schedule = _schedule(placed, group, target)
        packing = pack_operands(placed, schedule, BufferScope.LOCAL, group.outer)
        packed += packing.buffers
        for copy in packing.copies:
            once += lower_stage(copy.stage, copy.levels(target))
        part = parts[1] if inside else parts[0] if place < blocks.start else parts[2]
        part += lower_stage(packing.stage, schedule.levels, schedule.partial)
    state = [_local(stage, dict(fixed)) for stage in group.stages[: blocks.start]]
    state += [_local(stage, dict(fixed)) for stage in group.stages[blocks.stop :] if stage.tensor in group.local]
    kept = {buffer.tensor for buffer in state}
    within = dict(fixed) | dict(blocks.levels)
    values = [_local(s, within) for s in group.stages[blocks.start : blocks.stop] if s.tensor not in kept]
    advanced: tuple[Statement, ...] = (Allocate(tuple(values)), *parts[1]) if values else tuple(parts[1])
    for axis, step in reversed(blocks.levels):
        advanced = (Loop(Level(axis, step), advanced),)
    bodies += [Allocate(tuple(state)), *parts[0], *advanced, *parts[2]]
    share = _row_share(group, block, threads) if once else block
    tickets = (*(Level(axis, 1) for axis in group.outer[:-1]), Level(rows, share))
    inner: tuple[Statement, ...] = tuple(bodies)
    if once:
        inner = (Allocate(tuple(packed)), *once, Loop(Level(rows, block), inner))
    return (Phase(tickets, inner),), (*state, *values, *packed)


def _schedule(stage: Stage, group: Group, target: Target) -> StageSchedule:
    """Inner levels with the outer axes fixed; an axis walked one position at a time needs no level of its own."""
    schedule = schedule_stage(stage, target, fixed=group.outer)
    fixed = set(group.outer[:-1])
    levels = tuple(level for level in (*schedule.tickets, *schedule.levels) if level.axis not in fixed)
    return replace(schedule, tickets=(), levels=levels)


def _row_block(group: Group) -> int:
    """Rows walked together: those of a few register tiles where they share operands, else one."""
    rows = group.outer[-1]
    shared = any(stage.partials and any(rows not in item.free for item in stage.loads()) for stage in group.stages)
    return max(1, min(_ROWS, math.ceil(typical_size(rows.extent)))) if shared else 1


def _row_share(group: Group, block: int, threads: int) -> int:
    """Rows of one ticket when operands are packed per ticket: as many as the threads allow."""
    positions = math.prod(typical_size(axis.extent) for axis in group.outer[:-1])
    pieces = max(1, math.ceil(threads / positions))
    return max(block, math.ceil(typical_size(group.outer[-1].extent) / pieces / block) * block)


def _local(stage: Stage, steps: Mapping[Axis, int]) -> Buffer:
    """What is alive of a value at once: along every dimension, what its index reaches from where the block begins."""
    shape = tuple(_reach(place, steps) for place in stage.indices)
    return Buffer(stage.tensor, shape, Dense(), BufferScope.LOCAL, writable=True)


def _reach(place: Expr, steps: Mapping[Axis, int]) -> int | Expr:
    ranges = {axis: as_expr(steps.get(axis, axis.extent)) - 1 for axis in place.axes()}
    return as_size(place.substitute(ranges) + 1)  # type: ignore[arg-type]
