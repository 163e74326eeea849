"""Schedules by heuristics: levels of one stage for a target, from one function, with no table of shapes or operations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from snell.loops.access import Access, access_of
from snell.loops.copies import is_ticket_own, may_be_ticket_own, ticket_rows
from snell.loops.ir import Combine, Level, LoopKind
from snell.loops.plan import StageChoice
from snell.loops.stage import Stage
from snell.loops.tile import Tile, choose_tile, ordered_reductions, unrolled_reductions
from snell.loops.traffic import MANY_ROWS, PASS_LENGTH
from snell.rewrite.term import Term
from snell.symbolic import Axis, as_expr
from snell.targets import Target

__all__ = ["StageSchedule", "schedule_stage"]

_OPEN = StageChoice()
# Terms that one lane of a float accumulator may take, and how many it takes where there are more: few enough to be
# exact to a few epsilons, many enough that adding up the blocks costs nothing (1 % of a dot product over 2²⁰).
LONGEST_SUM = 4096
BLOCK_SUM = 1024
_STREAM = 4096  # positions of a result that stays in the first-level cache while rows are added to it
_ROWS = 8  # streams that one core reads at once without losing the prefetcher (measured: 8 to 16)
_ROWS_EACH, _MOST_ROWS = 4, 32  # rows of a pass for each row of the result, which it reads and writes (measured)
_ROW_TILES = 32
_OWN_COLUMNS = 192  # of a ticket's own copy, so that a pass of it takes a part of the second-level cache
_TICKET_COLUMNS = 12  # columns that take as long as a ticket's beginning, and reading its rows once more
_OWN_TILES = 8  # tiles of rows that walk the copy together, and stay in the cache beside it


@dataclass(frozen=True, slots=True)
class StageSchedule:
    """Ticket levels (parallel), inner levels, axes with partial sums, and the loads to pack with their panel width.

    `passes` are the first of the inner levels: those that run a long reduction in passes over the result.  `own_copies`:
    each ticket packs for itself, pass by pass.
    """

    tickets: tuple[Level, ...]
    levels: tuple[Level, ...]
    partial: tuple[Axis, ...] = ()
    passes: tuple[Level, ...] = ()
    packed: tuple[Term, ...] = ()
    panel: int = 1
    tile: Tile | None = None
    own_copies: bool = False

    def alive(self, axis: Axis) -> int | None:
        """How many positions of an axis are alive inside a ticket and a pass, None where that is not known."""
        steps = [level.step for level in (*self.tickets, *self.passes) if level.axis == axis]
        return min(steps) if steps else axis.extent if isinstance(axis.extent, int) else None


def schedule_stage(
    stage: Stage,
    target: Target,
    *,
    fixed: Sequence[Axis] = (),
    threads: int = 1,
    choice: StageChoice = _OPEN,
) -> StageSchedule:
    """Levels for a stage; `fixed` axes already have their outer levels from an enclosing group (each still gets inner
    levels here where its tile needs them).  What `choice` leaves open is decided here."""
    tile = choose_tile(stage, target, choice.tile)
    if not stage.partials:
        return _elementwise(stage, tile, fixed, threads, choice)
    return _reduction(stage, tile, target, fixed, threads, choice)


def _elementwise(stage: Stage, tile: Tile, fixed: Sequence[Axis], threads: int, choice: StageChoice) -> StageSchedule:
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
    if choice.columns is not None:
        block = _round_up(choice.columns, step)
    return StageSchedule((*outer, Level(tile.vector, block)), body, tile=tile)


def _ticket_block(extent: float, step: int, rows: float, threads: int) -> int:
    """Elements of the vector axis in one ticket: whole rows when there are many, else pieces for every thread."""
    wanted = extent if rows >= 8 * threads else min(extent, max(1024.0, extent * rows / (8 * threads)))
    return step * max(1, math.ceil(min(wanted, 16384) / step))


def _vector_levels(tile: Tile, step: int) -> tuple[Level, ...]:
    assert tile.vector is not None
    return (Level(tile.vector, step), Level(tile.vector, tile.lanes, LoopKind.VECTOR))


def _reduction(
    stage: Stage, tile: Tile, target: Target, fixed: Sequence[Axis], threads: int, choice: StageChoice
) -> StageSchedule:
    vector = tile.vector
    reduces_lanes = vector in stage.reduced
    others = [a for a in stage.axes if a is not vector and a is not tile.unrolled]
    outer = [Level(a, 1) for a in others if a not in fixed]
    inner = [Level(a, 1) for a in others if a in fixed]
    passes = [] if fixed else _passes(stage, tile, target, choice.passes)
    length = math.prod(stage.extent(axis) for axis in stage.reduced)
    for level in passes:
        length *= level.step / stage.extent(level.axis)
    own = not fixed and is_ticket_own(stage, tile.packed, vector, tile.unrolled)
    if choice.own_copies is not None:
        own = choice.own_copies and not fixed and may_be_ticket_own(stage, tile.packed, vector, tile.unrolled)
    if own:
        blocks = _own_blocks(stage, tile, threads, outer)
    else:
        blocks = [] if fixed else _blocks(stage, tile, target, threads, outer, bool(passes), length)
    blocks = [_chosen_block(level, tile, choice) for level in blocks]
    data: list[Level] = []
    if own and tile.unrolled is not None and blocks[0].step > 2 * _OWN_TILES * tile.count:
        data.append(Level(tile.unrolled, _OWN_TILES * tile.count))
    if vector is not None and not reduces_lanes:
        data.append(Level(vector, tile.lanes * tile.vectors))
    if tile.unrolled is not None:
        data.append(Level(tile.unrolled, tile.count))
    rows = [] if tile.unrolled is None else [Level(tile.unrolled, 1, LoopKind.UNROLLED)]
    tail = [] if vector is None else [Level(vector, tile.lanes, LoopKind.VECTOR)]
    if tile.tensor is not None:
        tail.append(Level(tile.tensor.axis, tile.tensor.group, LoopKind.TENSOR))
    serial, unrolled, partial = _reduced_levels(stage, tile, bool(passes))
    body = (*rows, *unrolled) if tile.rows_outer else (*unrolled, *rows)
    levels = (*inner, *passes, *data, *serial, *body, *tail)
    panel = tile.lanes * tile.vectors
    return StageSchedule((*outer, *blocks), levels, partial, tuple(passes), tile.packed, panel, tile, own)


def _chosen_block(level: Level, tile: Tile, choice: StageChoice) -> Level:
    """A ticket's rows or columns as chosen, in whole tiles."""
    rows = level.axis == tile.unrolled
    chosen = choice.rows if rows else choice.columns
    if chosen is None:
        return level
    return Level(level.axis, _round_up(chosen, tile.count if rows else tile.lanes * tile.vectors))


def _passes(stage: Stage, tile: Tile, target: Target, chosen: int | None) -> list[Level]:
    """A long reduction runs in passes over the result, so that what a pass reads stays in cache or is read in order.

    Only where the result itself can hold the sums between passes.
    """
    if not stage.holds_sums or tile.vector is None or tile.vector in stage.reduced:
        return []
    if any(as_expr(axis.extent).bounds()[0] < 1 for axis in stage.reduced):
        return []  # no pass would run, and nothing be stored
    if chosen is not None:
        return _chosen_passes(stage, tile, chosen)
    if not _has_many_rows(stage, tile):
        return _row_passes(stage, tile, target)
    order = ordered_reductions(stage, tile.vector)
    terms = _pass_terms(stage, tile, target)
    length = 1.0
    for k in range(len(order) - 1, -1, -1):
        extent = stage.extent(order[k])
        if length * extent >= 2 * terms:
            pieces = math.ceil(length * extent / terms)
            step = _grouped(tile, order[k], max(1, math.ceil(extent / pieces)))
            return [*(Level(axis, _grouped(tile, axis, 1)) for axis in order[:k]), Level(order[k], step)]
        length *= extent
    return []


def _pass_terms(stage: Stage, tile: Tile, target: Target) -> float:
    """Terms of a pass: a panel of them stays in the first-level cache, where the result comes back from a cache.

    A large result comes from memory in each pass, which then is twice as long (2048³ in f32: 363 against 394 GFLOP/s; shorter
    ones are as fast up to half that size).  Narrower values are as many as take the same bytes.
    """
    if tile.tensor is not None:
        return PASS_LENGTH * tile.tensor.group
    result = math.prod(stage.extent(axis) for axis in stage.axes) * stage.tensor.dtype.itemsize
    return PASS_LENGTH if result <= target.l3_bytes / 4 else 2 * PASS_LENGTH


def _grouped(tile: Tile, axis: Axis, step: int) -> int:
    """A step in whole groups of the tile's tensor lanes."""
    return step if tile.tensor is None else tile.tensor.step(axis, step)


def _chosen_passes(stage: Stage, tile: Tile, positions: int) -> list[Level]:
    order = ordered_reductions(stage, tile.vector)
    if not positions or positions >= stage.extent(order[-1]):
        return []
    return [
        *(Level(axis, _grouped(tile, axis, 1)) for axis in order[:-1]),
        Level(order[-1], _grouped(tile, order[-1], min(positions, LONGEST_SUM))),
    ]


def _has_many_rows(stage: Stage, tile: Tile) -> bool:
    return tile.unrolled is not None and stage.extent(tile.unrolled) >= MANY_ROWS


def _row_passes(stage: Stage, tile: Tile, target: Target) -> list[Level]:
    """A few rows of a large operand at a time, each from one end to the other, where lanes lie across the rows.

    Summing one register's width down all rows would jump through memory; a pass reads its rows as parallel streams.
    """
    assert tile.vector is not None
    streamed = [item for item in stage.loads() if _is_streamed(stage, item, tile, target)]
    in_order = Access(stage.tensor, stage.indices).stride(tile.vector) == 1.0
    if not streamed or not in_order or stage.extent(tile.vector) <= tile.lanes * tile.vectors:
        return []
    order = ordered_reductions(stage, tile.vector)
    shared = 1.0 if tile.unrolled is None else stage.extent(tile.unrolled)
    rows = min(_MOST_ROWS, max(_ROWS, _ROWS_EACH * int(shared)))
    length = 1.0
    for k in range(len(order) - 1, -1, -1):
        if length * stage.extent(order[k]) > rows:
            step = max(math.ceil(rows / length), math.ceil(_greatest(order[k]) / LONGEST_SUM))
            outer = [Level(axis, _grouped(tile, axis, 1)) for axis in order[:k]]
            return [*outer, Level(order[k], _grouped(tile, order[k], step))]
        length *= stage.extent(order[k])
    return []


def _is_streamed(stage: Stage, item: Term, tile: Tile, target: Target) -> bool:
    assert tile.vector is not None
    access = access_of(item)
    size = math.prod(stage.extent(axis) for axis in access.axes if axis in (*stage.axes, *stage.reduced))
    in_place = item not in tile.packed and access.stride(tile.vector) == 1.0
    return in_place and tile.unrolled not in access.axes and size * item.dtype.itemsize > target.l2_bytes


def _reduced_levels(stage: Stage, tile: Tile, in_passes: bool) -> tuple[list[Level], list[Level], tuple[Axis, ...]]:
    """Serial levels of the reduced axes, the unrolled levels inside them, and the axes with partial sums."""
    steps = dict(unrolled_reductions(stage, tile.vector, tile.chains))
    axes = ordered_reductions(stage, tile.vector)
    serial = [Level(axis, _grouped(tile, axis, steps.get(axis, 1))) for axis in axes]
    unrolled = [Level(axis, _grouped(tile, axis, 1), LoopKind.UNROLLED) for axis in axes if axis in steps]
    if tile.vector is not None and tile.vector in stage.reduced:
        serial.append(Level(tile.vector, tile.lanes * tile.vectors))
        chained = tile.chains > 1
        terms = 1 if chained else tile.vectors
        return _two_levels(stage, serial, terms), unrolled, (tile.vector,) if chained else ()
    chained = tile.chains > 1
    if in_passes:
        return serial, unrolled, tuple(steps) if chained else ()
    terms = 1 if chained else math.prod(steps.values())
    return _two_levels(stage, serial, terms), unrolled, tuple(steps) if chained else ()


def _two_levels(stage: Stage, serial: list[Level], terms: int) -> list[Level]:
    """A second serial level where a lane would take too many terms of a float sum (`terms` in one innermost step).

    The error of a sum grows with the terms one number takes in; `lower_stage` gives what runs inside the outer level an
    accumulator of its own.
    """
    if not any(p.accumulator.combine is Combine.SUM and p.accumulator.dtype.is_float for p in stage.partials):
        return serial
    for k in range(len(serial) - 1, -1, -1):
        level = serial[k]
        greatest = _greatest(level.axis)
        if terms * greatest / level.step > LONGEST_SUM:
            block = level.step * max(1, BLOCK_SUM // terms)
            return [*serial[:k], Level(level.axis, block), *serial[k:]]
        terms *= max(1, math.ceil(greatest / level.step))
    return serial


def _greatest(axis: Axis) -> float:
    """The most an axis may have at run time."""
    return as_expr(axis.extent).bounds()[1]


def _blocks(
    stage: Stage, tile: Tile, target: Target, threads: int, outer: Sequence[Level], in_passes: bool, length: float
) -> list[Level]:
    """Cache blocks of the tile axes that also are the parallel tickets."""
    tickets = math.prod(stage.extent(level.axis) for level in outer)
    blocks: list[Level] = []
    rows = tile.unrolled
    if rows is not None:
        fitting = max(1, int(target.l2_bytes / 2 / max(4.0, 4 * length)) // tile.count) * tile.count
        step = min(max(fitting, tile.count), _ROW_TILES * tile.count, _round_up(stage.extent(rows), tile.count))
        blocks.append(Level(rows, step))
        tickets *= math.ceil(stage.extent(rows) / step)
    vector = tile.vector
    if vector is not None and vector not in stage.reduced:
        width = tile.lanes * tile.vectors
        streams = in_passes and not _has_many_rows(stage, tile)
        pieces = max(1.0, (threads if streams else 8 * threads) / max(1.0, tickets))
        widest = _STREAM if streams else 32 * width
        blocks.append(Level(vector, min(_round_up(stage.extent(vector) / pieces, width), _round_up(widest, width))))
    return blocks


def _own_blocks(stage: Stage, tile: Tile, threads: int, outer: Sequence[Level]) -> list[Level]:
    """Tickets that pack for themselves: the rows of a copy together, and columns in pieces for every thread."""
    assert tile.unrolled is not None
    assert tile.vector is not None
    rows = ticket_rows(stage.extent(tile.unrolled), tile.count)
    tickets = math.prod(stage.extent(level.axis) for level in outer) * math.ceil(stage.extent(tile.unrolled) / rows)
    panel, extent = tile.lanes * tile.vectors, stage.extent(tile.vector)

    def span(width: int) -> float:
        """Columns that the busiest thread goes through, what a ticket costs counted as columns too."""
        each = math.ceil(tickets * math.ceil(extent / width) / threads)
        return each * (width + _TICKET_COLUMNS) + width / 2

    widths = range(panel, _round_up(min(extent, _OWN_COLUMNS), panel) + 1, panel)
    return [Level(tile.unrolled, rows), Level(tile.vector, min(widths, key=span))]


def _round_up(value: float, multiple: int) -> int:
    return max(1, math.ceil(value / multiple)) * multiple
