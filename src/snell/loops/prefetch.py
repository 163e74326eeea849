"""Prefetching: while one register tile is computed, ask for what the next ones read and write.

A panel of the vector axis serves all rows of a block; the next panel comes from beyond the second-level cache, and the
hardware sees its stream only once it is needed.  So each tile of rows asks for its share of the next panel, and for the
lines of the result that the next tile of rows writes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from snell.graph.primitives import Storage
from snell.loops.access import Access
from snell.loops.ir import Level, LoopKind, Prefetch
from snell.loops.schedule import StageSchedule
from snell.loops.stage import Stage
from snell.rewrite.term import Load, Term
from snell.symbolic import Axis, Expr, as_expr

__all__ = ["prefetches"]

_LINE = 64
_LEAST_LENGTH = 64.0  # terms of a tile's sums, so that asking costs a few instructions in a hundred
_MOST = 48


def prefetches(stage: Stage, schedule: StageSchedule) -> tuple[Prefetch, ...]:
    """What each register tile of a stage asks for, in the terms of its own position."""
    tile = schedule.tile
    if tile is None or tile.unrolled is None or tile.vector is None or tile.vector in stage.reduced:
        return ()
    if math.prod(stage.extent(axis) for axis in stage.reduced) < _LEAST_LENGTH:
        return ()
    rows = _step(schedule.tickets, tile.unrolled)
    found = [*_result(stage, schedule, rows)]
    if rows is not None and not schedule.own_copies:
        for item in stage.loads():
            if tile.vector in item.free and tile.unrolled not in item.free:
                found += _panel(stage, schedule, item, max(1, rows // tile.count))
    return tuple(found) if len(found) <= _MOST else ()


def _step(levels: tuple[Level, ...], axis: Axis) -> int | None:
    return next((level.step for level in levels if level.axis == axis and level.kind is LoopKind.SERIAL), None)


def _result(stage: Stage, schedule: StageSchedule, rows: int | None) -> Iterator[Prefetch]:
    """The lines of the result (lanes of it lie together) that the next tile writes: that of the rows below, or, where a
    tile has all of a ticket's rows, that of the columns beside it."""
    tile = schedule.tile
    assert tile is not None
    assert tile.vector is not None
    assert tile.unrolled is not None
    if Access(stage.tensor, stage.indices).stride(tile.vector) != 1.0:
        return
    lanes = max(1, _LINE // stage.tensor.dtype.itemsize)
    beside = rows is not None and rows <= tile.count
    down, right = (0, schedule.panel) if beside else (tile.count, 0)
    for row in range(tile.count):
        for lane in range(right, right + schedule.panel, lanes):
            moved: dict[Axis, Expr] = {
                tile.unrolled: as_expr(tile.unrolled) + (down + row),
                tile.vector: as_expr(tile.vector) + lane,
            }
            yield Prefetch(stage.tensor, tuple(index.substitute(moved) for index in stage.indices))  # type: ignore[arg-type]


def _panel(stage: Stage, schedule: StageSchedule, item: Term, tiles: int) -> Iterator[Prefetch]:
    """One tile's share of the next panel: a few steps of the longest reduced axis, all of the others."""
    assert isinstance(item.op, Load)
    tile = schedule.tile
    assert tile is not None
    assert tile.vector is not None
    assert tile.unrolled is not None
    reduced = sorted((axis for axis in stage.reduced if axis in item.free), key=stage.extent)
    if isinstance(item.op.tensor.storage, Storage) or not reduced or item.op.guards:
        return
    long = reduced.pop()
    length = _step(schedule.passes, long) or long.extent
    sizes = [_step(schedule.passes, axis) or axis.extent for axis in reduced]
    if not isinstance(length, int) or not all(isinstance(size, int) for size in sizes):
        return
    share = math.ceil(length / tiles)
    start = as_expr(tile.unrolled) % (tiles * tile.count) // tile.count * share + as_expr(long)
    lanes = max(1, _LINE // item.dtype.itemsize)
    for step in range(share):
        for place in itertools.product(*(range(size) for size in sizes if isinstance(size, int))):
            for lane in range(schedule.panel, 2 * schedule.panel, lanes):
                moved: dict[Axis, Expr] = {axis: as_expr(axis) + at for axis, at in zip(reduced, place, strict=True)}
                moved |= {long: start + step, tile.vector: as_expr(tile.vector) + lane}
                yield Prefetch(item.op.tensor, tuple(index.substitute(moved) for index in item.op.indices))  # type: ignore[arg-type]
