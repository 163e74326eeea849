"""Schedules by heuristics: levels of one stage for a target, from one function, with no table of shapes or operations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from snell.loops.access import access_of
from snell.loops.ir import Level, LoopKind
from snell.loops.stage import Stage
from snell.loops.tile import Tile, choose_tile
from snell.rewrite.term import Term
from snell.symbolic import Axis
from snell.targets import Target

__all__ = ["StageSchedule", "reduced_rank", "schedule_stage"]

_UNROLL = 4


@dataclass(frozen=True, slots=True)
class StageSchedule:
    """Ticket levels (parallel), inner levels, axes with partial sums, and the loads to pack with their panel width."""

    tickets: tuple[Level, ...]
    levels: tuple[Level, ...]
    partial: tuple[Axis, ...] = ()
    packed: tuple[Term, ...] = ()
    panel: int = 1
    tile: Tile | None = None


def schedule_stage(stage: Stage, target: Target, *, fixed: Sequence[Axis] = (), threads: int = 1) -> StageSchedule:
    """Levels for a stage; `fixed` axes already have their outer levels from an enclosing group (each still gets inner
    levels here where its tile needs them)."""
    tile = choose_tile(stage, target)
    if not stage.partials:
        return _elementwise(stage, tile, fixed, threads)
    return _reduction(stage, tile, target, fixed, threads)


def _elementwise(stage: Stage, tile: Tile, fixed: Sequence[Axis], threads: int) -> StageSchedule:
    others = [axis for axis in stage.axes if axis is not tile.vector]
    outer = tuple(Level(axis, 1) for axis in others if axis not in fixed)
    inner = tuple(Level(axis, 1) for axis in others if axis in fixed)
    if tile.vector is None:
        return StageSchedule(outer, inner, tile=tile)
    step = tile.lanes * tile.vectors
    body = (*inner, *_vector_levels(tile, step))
    if fixed:
        return StageSchedule(outer, body, tile=tile)
    rows = math.prod(stage.extent(level.axis) for level in outer)
    block = _ticket_block(stage.extent(tile.vector), step, rows, threads)
    return StageSchedule((*outer, Level(tile.vector, block)), body, tile=tile)


def _ticket_block(extent: float, step: int, rows: float, threads: int) -> int:
    """Elements of the vector axis in one ticket: whole rows when there are many, else pieces for every thread."""
    wanted = extent if rows >= 8 * threads else min(extent, max(1024.0, extent * rows / (8 * threads)))
    return step * max(1, math.ceil(min(wanted, 16384) / step))


def _vector_levels(tile: Tile, step: int) -> tuple[Level, ...]:
    assert tile.vector is not None
    return (Level(tile.vector, step), Level(tile.vector, tile.lanes, LoopKind.VECTOR))


def _reduction(stage: Stage, tile: Tile, target: Target, fixed: Sequence[Axis], threads: int) -> StageSchedule:
    vector = tile.vector
    reduces_lanes = vector in stage.reduced
    others = [a for a in stage.axes if a is not vector and a is not tile.unrolled]
    outer = [Level(a, 1) for a in others if a not in fixed]
    inner = [Level(a, 1) for a in others if a in fixed]
    blocks = [] if fixed else _blocks(stage, tile, target, threads, outer)
    data: list[Level] = []
    if vector is not None and not reduces_lanes:
        data.append(Level(vector, tile.lanes * tile.vectors))
    if tile.unrolled is not None:
        data.append(Level(tile.unrolled, tile.count))
    tail: list[Level] = []
    if tile.unrolled is not None:
        tail.append(Level(tile.unrolled, 1, LoopKind.UNROLLED))
    if vector is not None:
        tail.append(Level(vector, tile.lanes, LoopKind.VECTOR))
    reduced, partial = _reduced_levels(stage, tile)
    levels = (*inner, *data, *reduced, *tail)
    panel = tile.lanes * tile.vectors
    return StageSchedule((*outer, *blocks), levels, partial, tile.packed, panel, tile)


def _reduced_levels(stage: Stage, tile: Tile) -> tuple[list[Level], tuple[Axis, ...]]:
    """Serial levels of the reduced axes, largest stride outermost; short ones are unrolled, the last one by a few."""
    axes = sorted((a for a in stage.reduced if a is not tile.vector), key=lambda a: -reduced_rank(stage, a))
    partial: list[Axis] = []
    serial: list[Level] = []
    unrolled: list[Level] = []
    budget = 2 * _UNROLL
    for axis in reversed(axes):
        extent = axis.extent if isinstance(axis.extent, int) else None
        if extent is not None and extent <= budget:
            serial.append(Level(axis, max(1, extent)))
            unrolled.append(Level(axis, 1, LoopKind.UNROLLED))
            budget //= max(1, extent)
        elif budget >= _UNROLL and tile.vector not in stage.reduced and (extent is not None or tile.chains > 1):
            serial.append(Level(axis, _UNROLL))
            unrolled.append(Level(axis, 1, LoopKind.UNROLLED))
            budget = 1
        else:
            serial.append(Level(axis, 1))
    if tile.vector is not None and tile.vector in stage.reduced:
        serial.insert(0, Level(tile.vector, tile.lanes * tile.vectors))
        partial.append(tile.vector)
    elif tile.chains > 1:
        partial += [level.axis for level in unrolled]
    return [*reversed(serial), *reversed(unrolled)], tuple(partial)


def reduced_rank(stage: Stage, axis: Axis) -> float:
    """Loop order of reduced axes: the largest stride of any load along the axis runs outermost."""
    strides = [access_of(item).stride(axis) for item in stage.loads() if axis in access_of(item).axes]
    known = [s for s in strides if s is not None]
    return max(known, default=0.0)


def _blocks(
    stage: Stage, tile: Tile, target: Target, threads: int, outer: Sequence[Level]
) -> list[Level]:
    """Cache blocks of the tile axes that also are the parallel tickets."""
    tickets = math.prod(stage.extent(level.axis) for level in outer)
    length = math.prod(stage.extent(axis) for axis in stage.reduced)
    blocks: list[Level] = []
    rows = tile.unrolled
    if rows is not None:
        fitting = max(1, int(target.l2_bytes / 2 / max(4.0, 4 * length)) // tile.count) * tile.count
        step = min(max(fitting, tile.count), 16 * tile.count, _round_up(stage.extent(rows), tile.count))
        blocks.append(Level(rows, step))
        tickets *= math.ceil(stage.extent(rows) / step)
    vector = tile.vector
    if vector is not None and vector not in stage.reduced:
        width = tile.lanes * tile.vectors
        pieces = max(1.0, 8 * threads / max(1.0, tickets))
        step = min(_round_up(stage.extent(vector) / pieces, width), 32 * width)
        blocks.append(Level(vector, max(width, step)))
    return blocks


def _round_up(value: float, multiple: int) -> int:
    return max(1, math.ceil(value / multiple)) * multiple
