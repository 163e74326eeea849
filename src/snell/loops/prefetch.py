"""Prefetching: while one register tile is computed, ask for what the next ones read and write.

A panel of the vector axis serves all rows of a block; the next panel comes from beyond the second-level cache, and the
hardware sees its stream only once it is needed.  So each tile of rows asks for its share of the next panel, and for the
lines of the result that the next tile of rows writes.  Within a panel too large for that, it asks for what comes a
little later.  A share of a few lines is asked for at once; where few tiles
share a panel, each step of their sums asks for some, since more than a core's queue of misses holds would wait.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from snell.graph.primitives import Storage
from snell.loops.access import Access
from snell.loops.ir import Level, LoopKind, Prefetch
from snell.loops.lower import Hints
from snell.loops.schedule import StageSchedule
from snell.loops.stage import Stage
from snell.loops.tile import Tile
from snell.rewrite.cut import least_typical_size
from snell.rewrite.term import Load, Term
from snell.symbolic import Axis, Expr, as_expr
from snell.targets import Target

__all__ = ["prefetches"]

_LINE = 64
_LEAST_LENGTH = 64.0  # terms of a tile's sums, so that asking costs a few instructions in a hundred
_MOST = 48
_AHEAD = 64  # rows of a panel, where it is too large to ask for the next one
_AT_ONCE = 36  # lines of a share that a tile asks for before its sums


def prefetches(stage: Stage, schedule: StageSchedule, target: Target) -> Hints:
    """What a stage asks for, in the terms of the positions where it does."""
    tile = schedule.tile
    if tile is None or tile.unrolled is None or tile.vector is None or tile.vector in stage.reduced:
        return Hints()
    if math.prod(stage.extent(axis) for axis in stage.reduced) < _LEAST_LENGTH:
        return Hints()
    rows = _step(schedule.tickets, tile.unrolled)
    before = [*_result(stage, schedule, tile, rows)]
    during: list[Prefetch] = []
    if rows is not None and not schedule.own_copies:
        tiles = max(1, math.ceil(min(rows, least_typical_size(tile.unrolled.extent)) / tile.count))
        for item in stage.loads():
            panel = _panel_of(stage, schedule, item, target)
            if panel is not None:
                share = [*panel.share(tiles)]
                if len(share) <= _AT_ONCE:
                    before += share
                else:
                    during += panel.steps(tiles)
    return Hints(tuple(before) if len(before) <= _MOST else (), tuple(during) if len(during) <= _MOST else ())


def _step(levels: Sequence[Level], axis: Axis) -> int | None:
    return next((level.step for level in levels if level.axis == axis and level.kind is LoopKind.SERIAL), None)


def _result(stage: Stage, schedule: StageSchedule, tile: Tile, rows: int | None) -> Iterator[Prefetch]:
    """The lines of the result (lanes of it lie together) that the next tile writes: that of the rows below, or, where a
    tile has all of a ticket's rows, that of the columns beside it."""
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


@dataclass(frozen=True, slots=True)
class _Panel:
    """The panel of an operand that follows the one at work.

    `along` are the reduced axes of the operand with how many positions of each a pass has and how many an innermost step
    has, the one that tiles divide among them last; positions come in groups of `group` along that one, whose lines hold
    `lanes` columns.  `width` columns of the operand make a panel; `column` is where the next one begins and `turn` how far
    along the reduction it lies.
    """

    item: Term
    tile: Tile
    along: tuple[tuple[Axis, int, int], ...]
    group: int
    lanes: int
    width: int
    column: Expr
    turn: Expr

    def share(self, tiles: int) -> Iterator[Prefetch]:
        """What one of the tiles asks for before its sums: some groups along the divided axis, all of the others."""
        *others, (_, length, _) = self.along
        count = math.ceil(length / self.group / tiles)
        start = self._turn(tiles) * (count * self.group)
        for step in range(count):
            for place in itertools.product(*(range(size) for _, size, _ in others)):
                yield from self._lines((*place, start + step * self.group))

    def steps(self, tiles: int) -> Iterator[Prefetch]:
        """What one of the tiles asks for in a step of its sums: every so many of the groups of that step."""
        *others, (_, _, step) = self.along
        groups = max(1, step // self.group)
        apart = min(groups, tiles)
        for first in range(0, groups, apart):
            for place in itertools.product(*(range(size) for _, _, size in others)):
                yield from self._lines((*place, (self._turn(apart) + first) * self.group))

    def _turn(self, tiles: int) -> Expr:
        """Which of so many tiles this is."""
        assert self.tile.unrolled is not None
        return as_expr(self.tile.unrolled) // self.tile.count % tiles

    def _lines(self, place: Sequence[Expr | int]) -> Iterator[Prefetch]:
        assert isinstance(self.item.op, Load)
        assert self.tile.vector is not None
        moved = {axis: as_expr(axis) + at for (axis, _, _), at in zip(self.along, place, strict=True)}
        moved[self.along[-1][0]] += self.turn
        for lane in range(0, self.width, self.lanes):
            moved[self.tile.vector] = self.column + lane
            yield Prefetch(self.item.op.tensor, tuple(index.substitute(moved) for index in self.item.op.indices))  # type: ignore[arg-type]


def _panel_of(stage: Stage, schedule: StageSchedule, item: Term, target: Target) -> _Panel | None:
    """The next panel of an operand whose lines all rows of a tile share; None for what has none, or is read as fields."""
    tile = schedule.tile
    assert tile is not None
    assert tile.vector is not None
    assert isinstance(item.op, Load)
    reduced = sorted((axis for axis in stage.reduced if axis in item.free), key=stage.extent)
    if tile.vector not in item.free or tile.unrolled in item.free or not reduced:
        return None
    if isinstance(item.op.tensor.storage, Storage) or item.op.guards:
        return None
    along: list[tuple[Axis, int, int]] = []
    for axis in reduced:
        length = _step(schedule.passes, axis) or axis.extent
        steps = [level.step for level in schedule.levels if level.axis == axis and level.kind is LoopKind.SERIAL]
        if not isinstance(length, int) or not steps:
            return None
        along.append((axis, length, steps[-1]))
    grouped = tile.tensor is not None and tile.tensor.axis == reduced[-1] and item in tile.tensor.factors
    group = tile.tensor.group if tile.tensor is not None and grouped else 1
    lanes = max(1, _LINE // (item.dtype.itemsize * group))
    column, turn = _following(schedule, tile.vector, reduced[-1])
    size = math.prod(length for _, length, _ in along) * schedule.panel * item.dtype.itemsize
    if size > target.l2_bytes // 2:  # the next panel would be gone before its turn
        column, turn = as_expr(tile.vector), as_expr(_AHEAD * group)
    return _Panel(item, tile, tuple(along), group, lanes, schedule.panel, column, turn)


def _following(schedule: StageSchedule, vector: Axis, long: Axis) -> tuple[Expr, Expr]:
    """Where the next panel's columns begin and how far along the reduction: behind a ticket's last panel of a pass comes
    its first one of the next pass."""
    column = as_expr(vector) + schedule.panel
    ticket, length = _step(schedule.tickets, vector), _step(schedule.passes, long)
    if ticket is None or length is None or ticket % schedule.panel:
        return column, as_expr(0)
    again = (as_expr(vector) % ticket + schedule.panel) // ticket
    return column - again * ticket, again * length
