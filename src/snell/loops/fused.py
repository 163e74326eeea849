"""The kernel of a group: its stages one after the other for a block of rows, what passes between them in local buffers.

    tickets over the outer axes, rows together
      packed operands
      for rows:
        stages before             (of a stream: its state)
        for the reduced axes, a block at a time:
          step                    (a stream's values of the block, then the state after it)
        stages after

Without `Group.blocks` there is one part.  Where a step reads packed operands of a block, all rows of a ticket share
them: a block is packed and walked by all rows before the next one, and each of the three parts has a loop over rows.
Where a ticket has a piece of the first reduced axis (`Blocks.pieces`), its blocks are those of the piece.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from snell.dtypes import DType
from snell.loops.absence import absences, shared_guards
from snell.loops.access import access_of
from snell.loops.grouping import Blocks, Group
from snell.loops.ir import Allocate, Buffer, BufferScope, Dense, Level, Loop, Phase, Statement
from snell.loops.lower import lower_stage
from snell.loops.packing import Packing, pack_operands
from snell.loops.plan import HEURISTICS, Plan, StageChoice
from snell.loops.pruning import bounded_loop, pruned
from snell.loops.schedule import StageSchedule, schedule_stage
from snell.loops.stage import Stage
from snell.loops.teed import teed
from snell.rewrite.cut import typical_size
from snell.symbolic import Axis, Expr, as_expr, as_size
from snell.targets import Target

__all__ = ["fused_phases", "is_far", "placed_stages", "row_block"]

_TILE_BYTES = 96 * 1024
_LINES = 32  # rows walked together where they lie side by side: whole cache lines of each
_ROWS = 24  # rows of a few register tiles
_NEAR = 8.0  # second-level caches that a packed operand may fill and still be near (measured: 4 do, 12 do not)


def fused_phases(
    group: Group, target: Target, threads: int, *, prunes: bool, plan: Plan = HEURISTICS
) -> tuple[tuple[Phase, ...], tuple[Buffer, ...]]:
    """The phases, and the local buffers in them."""
    group = _with_block(group, plan.block)
    rows, block = group.outer[-1], plan.rows or row_block(group, target)
    fixed = (*((axis, 1) for axis in group.outer[:-1]), (rows, block))
    copies: list[_Copy] = []
    nests: list[tuple[Statement, ...]] = []
    stages = placed_stages(group, fixed)
    schedules = [_schedule(stage, group, target, plan.stage(place)) for place, stage in enumerate(stages)]
    for stage, schedule in zip(stages, schedules, strict=True):
        packing = pack_operands(stage, schedule, BufferScope.LOCAL, group.outer)
        copies += map(_Copy, packing.copies, packing.buffers)
        nests.append(lower_stage(packing.stage, schedule.levels, schedule.partial))
    blocks = group.blocks or Blocks((), len(stages), len(stages))
    bounded = pruned(stages, nests, group.local, dict(fixed)) if prunes else list(nests)
    joined = _with_values_in_readers(stages, schedules, _parts(blocks, len(stages)), nests, bounded)
    once = [copy for copy in copies if not copy.is_of_block(blocks, target)]
    each = [copy.of_block(blocks) for copy in copies if copy.is_of_block(blocks, target)]
    share = _row_share(group, block, threads) if copies else block
    if each:
        share = min(share, _rows_in_cache(group, block, target))
    body, local = _in_blocks(group, blocks, joined, dict(fixed), _Shared(each, share, target))
    if once:
        body = body if each else (Loop(Level(rows, block), body),)
        body = (*_packed(once, target), *body)
    tickets = (*(Level(axis, 1) for axis in group.outer[:-1]), Level(rows, share))
    return (Phase(tickets, body),), (*local, *(copy.buffer for copy in (*once, *each)))


@dataclass(frozen=True, slots=True)
class _Copy:
    """A packed operand and the local buffer that holds it."""

    packing: Packing
    buffer: Buffer

    def is_of_block(self, blocks: Blocks, target: Target) -> bool:
        """Whether it is packed block by block: all of it would come from memory again for every few rows, or a ticket
        has but a piece of it."""
        axes = self.packing.stage.axes
        pays = blocks.pieces is not None or is_far(axes, self.buffer.dtype, target)
        return pays and any(axis in axes for axis, _ in blocks.levels)

    def of_block(self, blocks: Blocks) -> _Copy:
        """The copy of one block."""
        lengths = dict(blocks.levels)
        sizes = zip(self.packing.stage.axes, self.buffer.shape, strict=True)
        return replace(self, buffer=replace(self.buffer, shape=tuple(lengths.get(axis, size) for axis, size in sizes)))

    def statements(self, target: Target) -> tuple[Statement, ...]:
        """The copy as loops: row by row where a block has the columns, else in panels."""
        columns = self.buffer.shape[self.packing.stage.axes.index(self.packing.vector)]
        if isinstance(columns, int) and columns < typical_size(self.packing.vector.extent):
            return self.packing.statements(target, columns)
        return lower_stage(self.packing.stage, self.packing.levels(target))


@dataclass(frozen=True, slots=True)
class _Shared:
    """What the rows of a ticket share of each block: packed operands."""

    copies: Sequence[_Copy]
    rows: int
    target: Target


def is_far(axes: Iterable[Axis], dtype: DType, target: Target) -> bool:
    """Whether an operand over these axes, packed whole, would come from memory for every few rows."""
    return math.prod(typical_size(axis.extent) for axis in axes) * dtype.itemsize > _NEAR * target.l2_bytes


def _packed(copies: Sequence[_Copy], target: Target) -> tuple[Statement, ...]:
    """The buffers of packed operands, and how they are filled."""
    filled = (statement for copy in copies for statement in copy.statements(target))
    return (Allocate(tuple(copy.buffer for copy in copies)), *filled)


def _with_values_in_readers(
    stages: Sequence[Stage],
    schedules: Sequence[StageSchedule],
    parts: Sequence[range],
    nests: Sequence[tuple[Statement, ...]],
    bounded: Sequence[tuple[Statement, ...]],
) -> list[tuple[Statement, ...]]:
    """The bounded nests; values that a later stage reduces are made in its loop where masks bound neither of the two."""
    found = list(bounded)
    for pair in teed(stages, schedules, parts):
        made, taken = pair.producer, pair.consumer
        if not schedules[taken].packed and (nests[made], nests[taken]) == (found[made], found[taken]):
            levels = schedules[taken].levels
            found[made], found[taken] = (), lower_stage(pair.stage, levels, schedules[taken].partial)
    return found


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
    group: Group, blocks: Blocks, nests: list[tuple[Statement, ...]], fixed: dict[Axis, int], shared: _Shared
) -> tuple[tuple[Statement, ...], list[Buffer]]:
    """The nests in their three parts, each value alive where it is used, and the local buffers."""
    rows = Level(group.outer[-1], fixed[group.outer[-1]])
    ticket = fixed | {rows.axis: shared.rows} if shared.copies else fixed
    lasting = list(dict.fromkeys(_local(stage, ticket) for stage in _around(group) if stage.tensor in group.local))
    kept = {buffer.tensor for buffer in lasting}
    step = group.stages[blocks.start : blocks.stop]
    values = [_local(stage, fixed | dict(blocks.levels)) for stage in step if stage.tensor not in kept]
    advanced = _allocated(values, nests[blocks.start : blocks.stop])
    before, after = nests[: blocks.start], nests[blocks.stop :]
    guards = _step_guards(group, blocks)
    if shared.copies:
        walk = bounded_loop(Loop(rows, advanced), guards, fixed | dict(blocks.levels))
        advanced = (*_packed(shared.copies, shared.target), walk)
        before, after = ([(Loop(rows, _allocated([], part)),)] for part in (before, after))
    for axis, length in reversed(blocks.levels):
        advanced = (bounded_loop(Loop(Level(axis, length), advanced), guards, ticket),)
    if blocks.pieces is not None:
        (piece, length), (axis, _) = blocks.pieces, blocks.levels[0]
        first = as_expr(piece) * length
        advanced = (Loop(Level(axis, length), advanced, lower=first, upper=first + length),)
    body = _allocated(lasting, [*before, advanced, *after])
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
    if group.blocks is None and any(_reads_along(stage, group) for stage in group.stages):
        return _LINES if typical_size(rows.extent) >= _LINES else target.vector_bits // 32
    reuses = any(stage.partials and _shares_operand(stage, group) for stage in group.stages)
    extent = typical_size(rows.extent)
    if not reuses or extent < 2:
        return 1
    fitting = int(min(_TILE_BYTES, target.l2_bytes / 4) / max(1.0, widest))
    block = max(1, min(fitting, _ROWS, math.ceil(extent)))
    return block if block < 6 else min(block // 6, math.ceil(extent / math.ceil(extent / block) / 6)) * 6


def _reads_along(stage: Stage, group: Group) -> bool:
    """Whether neighbouring rows are neighbours in memory, in a tensor from outside of which a row reads many elements."""
    accesses = [access_of(item) for item in stage.loads()]
    rows, outer = group.outer[-1], set(group.outer)
    return any(a.stride(rows) == 1.0 and not outer >= set(a.axes) and a.tensor not in group.local for a in accesses)


def _shares_operand(stage: Stage, group: Group) -> bool:
    """Whether what rows share of what the stage reads is no less than what each reads for itself."""
    shared = own = 0.0
    for item in stage.loads():
        elements = math.prod(typical_size(axis.extent) for axis in item.free if axis not in group.outer)
        if group.outer[-1] in item.free:
            own = max(own, elements)
        else:
            shared = max(shared, elements)
    return 0 < shared >= own


def _row_bytes(stage: Stage, group: Group) -> float:
    lengths = dict(group.blocks.levels) if group.blocks is not None else {}
    inner = [axis for axis in stage.axes if axis not in group.outer]
    return stage.tensor.dtype.itemsize * math.prod(lengths.get(axis, typical_size(axis.extent)) for axis in inner)


def _row_share(group: Group, block: int, threads: int) -> int:
    """Rows of one ticket when operands are packed per ticket: as many as the threads allow."""
    positions = math.prod(typical_size(axis.extent) for axis in group.outer[:-1])
    pieces = max(1, math.ceil(threads / positions))
    return max(block, math.ceil(typical_size(group.outer[-1].extent) / pieces / block) * block)


def _rows_in_cache(group: Group, block: int, target: Target) -> int:
    """Rows, in whole blocks, whose states stay in the second-level cache beside a packed block of operands."""
    lasting = [stage for stage in _around(group) if stage.tensor in group.local]
    state = sum(_row_bytes(stage, group) for stage in lasting)
    return max(1, int(target.l2_bytes / 4 / max(1.0, state) / block)) * block


def _around(group: Group) -> tuple[Stage, ...]:
    """The stages that are not part of a step."""
    blocks = group.blocks
    return group.stages if blocks is None else (*group.stages[: blocks.start], *group.stages[blocks.stop :])


def _local(stage: Stage, steps: Mapping[Axis, int]) -> Buffer:
    """What is alive of a value at once: along every dimension, what its index reaches from where the block begins."""
    shape = tuple(_reach(place, steps) for place in stage.indices)
    return Buffer(stage.tensor, shape, Dense(), BufferScope.LOCAL, writable=True)


def _reach(place: Expr, outer: Mapping[Axis, int]) -> int | Expr:
    """One more than the greatest value of an index, with outer axes within one step of their levels."""
    ranges = {axis: as_expr(outer.get(axis, axis.extent)) - 1 for axis in place.axes()}
    return as_size(place.substitute(ranges) + 1)  # type: ignore[arg-type]
