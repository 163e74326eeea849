"""The kernel of a group: its stages one after the other for a block of rows, what passes between them in local buffers.

    tickets over the outer axes, rows together
      packed operands
      for rows:
        stages before             (of a stream: its state)
        for the reduced axes, a block at a time:
          step                    (a stream's values of the block, then the state after it)
        stages after

Without `Group.blocks` there is one part.  Where a ticket has a piece of the first reduced axis (`Blocks.pieces`), its
packed operands and its blocks are those of the piece.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from snell.loops.absence import absences, shared_guards
from snell.loops.access import access_of
from snell.loops.grouping import Blocks, Group
from snell.loops.ir import Allocate, Buffer, BufferScope, Dense, Level, Loop, Phase, Statement
from snell.loops.lower import lower_stage
from snell.loops.packing import pack_operands
from snell.loops.plan import HEURISTICS, Plan, StageChoice
from snell.loops.pruning import bounded_loop, pruned
from snell.loops.schedule import StageSchedule, schedule_stage
from snell.loops.stage import Stage
from snell.loops.teed import teed
from snell.rewrite.cut import typical_size
from snell.rewrite.term import Tensor
from snell.symbolic import Axis, Expr, as_expr, as_size
from snell.targets import Target

__all__ = ["fused_phases", "placed_stages", "row_block"]

_TILE_BYTES = 96 * 1024
_LINES = 32  # rows walked together where they lie side by side: whole cache lines of each
_ROWS = 24  # rows of a few register tiles


def fused_phases(
    group: Group, target: Target, threads: int, *, prunes: bool, plan: Plan = HEURISTICS
) -> tuple[tuple[Phase, ...], tuple[Buffer, ...]]:
    """The phases, and the local buffers in them."""
    group = _with_block(group, plan.block)
    rows, block = group.outer[-1], plan.rows or row_block(group, target)
    fixed = (*((axis, 1) for axis in group.outer[:-1]), (rows, block))
    once: list[Statement] = []
    packed: list[Buffer] = []
    nests: list[tuple[Statement, ...]] = []
    stages = placed_stages(group, fixed)
    schedules = [_schedule(stage, group, target, plan.stage(place)) for place, stage in enumerate(stages)]
    for stage, schedule in zip(stages, schedules, strict=True):
        packing = pack_operands(stage, schedule, BufferScope.LOCAL, group.outer)
        packed += [_of_piece(b, c.stage, group) for b, c in zip(packing.buffers, packing.copies, strict=True)]
        for copy in packing.copies:
            once += lower_stage(copy.stage, copy.levels(target))
        nests.append(lower_stage(packing.stage, schedule.levels, schedule.partial))
    blocks = group.blocks or Blocks((), len(stages), len(stages))
    bounded = pruned(stages, nests, group.local, dict(fixed)) if prunes else list(nests)
    for pair in teed(stages, schedules, _parts(blocks, len(stages))):
        made, taken = pair.producer, pair.consumer
        if not schedules[taken].packed and (nests[made], nests[taken]) == (bounded[made], bounded[taken]):
            levels = schedules[taken].levels
            bounded[made], bounded[taken] = (), lower_stage(pair.stage, levels, schedules[taken].partial)
    prologue: tuple[Statement, ...] = ()
    if once and blocks.pieces is not None:
        prologue, once = (Allocate(tuple(packed)), *once), []
    body, values = _in_blocks(group, blocks, bounded, dict(fixed), prologue)
    tickets = [Level(axis, 1) for axis in group.outer[:-1]]
    if once:
        tickets.append(Level(rows, _row_share(group, block, threads)))
        body = (Allocate(tuple(packed)), *once, Loop(Level(rows, block), body))
    else:
        tickets.append(Level(rows, block))
    return (Phase(tuple(tickets), body),), (*values, *packed)


def _of_piece(buffer: Buffer, copy: Stage, group: Group) -> Buffer:
    """The buffer of a packed operand, as long as a piece where tickets have one."""
    if group.blocks is None or group.blocks.pieces is None:
        return buffer
    (split, _), length = group.blocks.levels[0], group.blocks.pieces[1]
    sizes = zip(copy.axes, buffer.shape, strict=True)
    return replace(buffer, shape=tuple(length if axis == split else size for axis, size in sizes))


def _parts(blocks: Blocks, count: int) -> tuple[range, ...]:
    return range(blocks.start), range(blocks.start, blocks.stop), range(blocks.stop, count)


def _with_block(group: Group, positions: int | None) -> Group:
    """The group with blocks of so many positions of the innermost blocked axis."""
    if positions is None or group.blocks is None:
        return group
    *outer, (axis, _) = group.blocks.levels
    return replace(group, blocks=replace(group.blocks, levels=(*outer, (axis, positions))))


def placed_stages(group: Group, fixed: tuple[tuple[Axis, int], ...]) -> list[Stage]:
    """The stages, restricted to a block of rows, and those of a step to a block of positions."""
    made = frozenset(stage.tensor for stage in group.stages)
    inner = group.blocks.levels if group.blocks is not None else ()
    inside = range(group.blocks.start, group.blocks.stop) if group.blocks is not None else range(0)
    return [
        replace(stage, ranges=(*inner, *fixed) if k in inside else fixed, inside=made)
        for k, stage in enumerate(group.stages)
    ]


def _in_blocks(
    group: Group,
    blocks: Blocks,
    nests: list[tuple[Statement, ...]],
    fixed: dict[Axis, int],
    prologue: tuple[Statement, ...],
) -> tuple[tuple[Statement, ...], list[Buffer]]:
    """The nests in their three parts, each value alive where it is used, and the local buffers."""
    around = [*group.stages[: blocks.start], *group.stages[blocks.stop :]]
    lasting = list(dict.fromkeys(_local(stage, fixed) for stage in around if stage.tensor in group.local))
    kept = {buffer.tensor for buffer in lasting}
    step = group.stages[blocks.start : blocks.stop]
    values = [_local(stage, fixed | dict(blocks.levels)) for stage in step if stage.tensor not in kept]
    advanced = _allocated(values, nests[blocks.start : blocks.stop])
    for axis, length in reversed(blocks.levels):
        loop = bounded_loop(Loop(Level(axis, length), advanced), _step_guards(group, blocks), fixed)
        advanced = (loop,)
    if blocks.pieces is not None:
        (piece, length), (axis, _) = blocks.pieces, blocks.levels[0]
        first = as_expr(piece) * length
        advanced = (Loop(Level(axis, length), (*prologue, *advanced), lower=first, upper=first + length),)
    body = _allocated(lasting, [*nests[: blocks.start], advanced, *nests[blocks.stop :]])
    return body, [*lasting, *values]


def _allocated(buffers: list[Buffer], nests: Iterable[tuple[Statement, ...]]) -> tuple[Statement, ...]:
    body = tuple(statement for nest in nests for statement in nest)
    return (Allocate(tuple(buffers)), *body) if buffers else body


def _step_guards(group: Group, blocks: Blocks) -> frozenset[Expr]:
    """Guards outside of which a step leaves the state as it is: all of its reductions take in their identity."""
    known = absences(group.stages, group.local)
    axes = {axis for axis, _ in blocks.levels}
    step = group.stages[blocks.start : blocks.stop]
    partials = [partial for stage in step if axes & set(stage.reduced) for partial in stage.partials]
    return shared_guards(partials, known)


def _schedule(stage: Stage, group: Group, target: Target, choice: StageChoice) -> StageSchedule:
    """Inner levels with the outer axes fixed; an axis walked one position at a time needs no level of its own."""
    schedule = schedule_stage(stage, target, fixed=group.outer, choice=choice)
    inner = (*schedule.tickets, *schedule.levels)
    fixed = set(group.outer[:-1])
    levels = tuple(level for level in inner if level.axis not in fixed)
    return replace(schedule, tickets=(), levels=levels)


def row_block(group: Group, target: Target) -> int:
    """Rows walked together: enough for the register tiles of product sums, few enough that local values stay in cache."""
    rows = group.outer[-1]
    widest = max(_row_bytes(stage, group) for stage in group.stages)
    if group.blocks is None and any(_reads_along(stage, rows, group.local) for stage in group.stages):
        return _LINES if typical_size(rows.extent) >= _LINES else target.vector_bits // 32
    reuses = any(stage.partials and any(rows not in item.free for item in stage.loads()) for stage in group.stages)
    extent = typical_size(rows.extent)
    if not reuses or extent < 2:
        return 1
    fitting = int(min(_TILE_BYTES, target.l2_bytes / 4) / max(1.0, widest))
    block = max(1, min(fitting, _ROWS, math.ceil(extent)))
    return block if block < 6 else block // 6 * 6


def _reads_along(stage: Stage, rows: Axis, local: frozenset[Tensor]) -> bool:
    """Whether neighbouring rows are neighbours in memory, in a tensor from outside that moves with other axes too."""
    accesses = [access_of(item) for item in stage.loads()]
    return any(a.stride(rows) == 1.0 and len(a.axes) > 1 and a.tensor not in local for a in accesses)


def _row_bytes(stage: Stage, group: Group) -> float:
    lengths = dict(group.blocks.levels) if group.blocks is not None else {}
    inner = [axis for axis in stage.axes if axis not in group.outer]
    return stage.tensor.dtype.itemsize * math.prod(lengths.get(axis, typical_size(axis.extent)) for axis in inner)


def _row_share(group: Group, block: int, threads: int) -> int:
    """Rows of one ticket when operands are packed per ticket: as many as the threads allow."""
    positions = math.prod(typical_size(axis.extent) for axis in group.outer[:-1])
    pieces = max(1, math.ceil(threads / positions))
    return max(block, math.ceil(typical_size(group.outer[-1].extent) / pieces / block) * block)


def _local(stage: Stage, steps: Mapping[Axis, int]) -> Buffer:
    """What is alive of a value at once: along every dimension, what its index reaches from where the block begins."""
    shape = tuple(_reach(place, steps) for place in stage.indices)
    return Buffer(stage.tensor, shape, Dense(), BufferScope.LOCAL, writable=True)


def _reach(place: Expr, outer: Mapping[Axis, int]) -> int | Expr:
    """One more than the greatest value of an index, with outer axes within one step of their levels."""
    ranges = {axis: as_expr(outer.get(axis, axis.extent)) - 1 for axis in place.axes()}
    return as_size(place.substitute(ranges) + 1)  # type: ignore[arg-type]
