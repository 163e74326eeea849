"""Staging: a dense local copy of the rows that a block of a nest reads again and again.

Rows that lie far apart in memory cost an address translation each, and powers of two between them fall into the same
cache sets.  A block of rows (and a pass of the reduction) is copied once to where it is dense, then read from there for
every panel of the vector axis.  The order of the copy is that of the operand, so copying is as fast as memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from snell.loops.access import access_of
from snell.loops.ir import Allocate, Buffer, BufferScope, Dense, Level, Loop, LoopKind, Statement, Store
from snell.loops.schedule import StageSchedule
from snell.loops.stage import Partial, Stage, map_term
from snell.rewrite.term import Load, Tensor, Term, children, load
from snell.symbolic import Axis, as_expr
from snell.targets import Target

__all__ = ["StagedStage", "stage_rows"]

_FAR = 1024.0  # bytes between rows from which a row is a page of its own for every few cache lines
_LEAST_ROWS = 16
_LEAST_USES = 8.0  # panels of the vector axis that read a copy, so that copying is a few percent of the work
_VECTORS = 4


@dataclass(frozen=True, slots=True)
class StagedStage:
    """The stage reading its copies, and the statements that make them inside a block (after the passes)."""

    stage: Stage
    prologue: tuple[Statement, ...] = ()
    buffers: tuple[Buffer, ...] = ()


def stage_rows(stage: Stage, schedule: StageSchedule, target: Target) -> StagedStage:
    """Replace the operands that are worth a local copy under the schedule's blocks."""
    swaps: dict[Term, Term] = {}
    buffers: list[Buffer] = []
    copies: list[Statement] = []
    for number, item in enumerate(_candidates(stage, schedule)):
        axes = _axes(stage, schedule, item)
        sizes = [schedule.alive(axis) for axis in axes]
        shape = [size for size in sizes if size is not None]
        if len(shape) < len(sizes) or math.prod(shape) * item.dtype.itemsize > target.l2_bytes / 2:
            continue
        tensor = Tensor(f"{stage.tensor.name}.staged{number}", tuple(axis.extent for axis in axes), item.dtype)
        buffers.append(Buffer(tensor, tuple(shape), Dense(), BufferScope.LOCAL, writable=True))
        places = tuple(as_expr(axis) for axis in axes)
        copies.append(_copy(Store(tensor, places, item), axes, target))
        swaps[item] = load(tensor, places)
    if not swaps:
        return StagedStage(stage)
    partials = tuple(Partial(p.accumulator, map_term(p.body, swaps.get)) for p in stage.partials)
    return StagedStage(replace(stage, partials=partials), (Allocate(tuple(buffers)), *copies), tuple(buffers))


def _candidates(stage: Stage, schedule: StageSchedule) -> Iterator[Term]:
    """Loads that the rows of the tile select and its lanes do not, read far apart and used by many panels."""
    tile = schedule.tile
    if tile is None or tile.unrolled is None or tile.vector is None or tile.vector in stage.reduced:
        return
    if schedule.own_copies:
        return  # its rows are walked in blocks that fit beside the copy
    panels = next((level.step for level in schedule.tickets if level.axis == tile.vector), 0) / schedule.panel
    for item in _plain_loads(stage):
        access = access_of(item)
        many = stage.extent(tile.unrolled) >= _LEAST_ROWS and panels >= _LEAST_USES
        if tile.unrolled not in access.axes or tile.vector in item.free or not many:
            continue
        strides = [access.stride(axis) for axis in _axes(stage, schedule, item)]
        if None not in strides and max(abs(s or 0.0) for s in strides) * item.dtype.itemsize >= _FAR:
            yield item


def _plain_loads(stage: Stage) -> list[Term]:
    """The loads of the bodies, those inside loaded indices left out."""
    found: dict[Term, None] = {}
    stack = [partial.body for partial in stage.partials]
    while stack:
        item = stack.pop()
        if isinstance(item.op, Load):
            found[item] = None
        else:
            stack.extend(children(item))
    return list(found)


def _axes(stage: Stage, schedule: StageSchedule, item: Term) -> tuple[Axis, ...]:
    """The axes a copy has, in the order of the operand: those that a ticket fixes are left out."""
    fixed = {level.axis for level in schedule.tickets if level.step == 1}
    access = access_of(item)
    used = [axis for axis in (*stage.axes, *stage.reduced) if axis in item.free and axis not in fixed]
    return tuple(sorted(used, key=lambda axis: -abs(access.stride(axis) or 0.0)))


def _copy(store: Store, axes: tuple[Axis, ...], target: Target) -> Statement:
    lanes = max(1, target.vector_bits // max(32, store.tensor.dtype.bits))
    last = axes[-1]
    levels = (
        *(Level(axis, 1) for axis in axes[:-1]),
        Level(last, lanes * _VECTORS),
        Level(last, lanes, LoopKind.VECTOR),
    )
    body: Statement = store
    for level in reversed(levels):
        body = Loop(level, (body,))
    return body
