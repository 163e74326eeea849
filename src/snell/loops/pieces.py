"""Pieces: the rows of a stream are cut for threads to share where there are too few rows to hand out.

    rows:          init; blocks: step;             finish
                           →
    pieces, rows:  init; blocks of a piece: step;  parts[piece, row] = state
    rows:          combine the parts;              finish

A piece knows nothing of the others: one whose positions a mask hides leaves the identity.  How a row is cut depends on
sizes alone, so results are the same for any number of threads.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

from snell.loops.grouping import Group
from snell.loops.retarget import retarget_stage
from snell.loops.stage import stages_of
from snell.rewrite.cut import typical_size
from snell.rewrite.state import NEXT, renamed
from snell.rewrite.stream import Stream
from snell.rewrite.term import Tensor
from snell.symbolic import Axis, as_expr, as_size
from snell.targets import Target

__all__ = ["in_pieces", "named_after", "panels", "pieces_of"]

_FEW_ROWS, _TICKETS = 32.0, 64.0  # rows that make a handful of tickets, and how many there are with pieces
_LEAST_WORK = 4096.0  # cycles of a piece


def pieces_of(group: Group, work: float, target: Target) -> tuple[Axis, int] | None:
    """The axis that numbers the pieces of a row and the length of one; None where rows are tickets enough, or short.

    `work` is what the group costs, in cycles.
    """
    rows = math.prod(typical_size(axis.extent) for axis in group.outer)
    if rows >= _FEW_ROWS or group.blocks is None or not group.blocks.levels:
        return None
    axis, block = group.blocks.levels[0]
    unit = min(block, panels(target))
    positions = typical_size(axis.extent)
    count = math.floor(min(_TICKETS, work / _LEAST_WORK) / rows)
    if count < 2 or positions < 2 * unit:
        return None
    length = unit * math.ceil(positions / count / unit)
    return Axis("pieces", as_size((as_expr(axis.extent) + length - 1) // length)), length


def in_pieces(
    whole: Group, stream: Stream, pieces: tuple[Axis, int], result: Tensor, target: Target
) -> tuple[Group, Group]:
    """The states of the pieces, and what they are together; `whole` is the stream's group without pieces."""
    assert whole.blocks is not None
    number, length = pieces
    (axis, block), *inner = whole.blocks.levels
    unit = min(block, panels(target))
    even = unit * math.ceil(length / unit / math.ceil(length / block))
    fresh = itertools.count()
    names = {tensor: named_after(tensor, result) for tensor in stream.state}
    held = {definition.tensor: named_after(definition.tensor, result) for definition in stream.part(number)}
    stored = [stage for definition in stream.part(number) for stage in stages_of(definition, fresh)]
    made = (*whole.stages[: whole.blocks.stop], *(retarget_stage(stage, names | held) for stage in stored))
    local = whole.local.intersection(stage.tensor for stage in made)
    blocks = replace(whole.blocks, levels=((axis, even), *inner), pieces=pieces)
    first = Group(made, (number, *whole.outer), local, blocks)
    stages = [stage for d in (*stream.combine(number), *stream.finish) for stage in stages_of(d, fresh)]
    after = {stage.tensor: named_after(stage.tensor, result) for stage in stages if stage.tensor != result}
    state = {tensor: after[renamed(tensor, NEXT)] for tensor in stream.state}
    combining = tuple(retarget_stage(stage, after | held | state) for stage in stages)
    return first, Group(combining, whole.outer, frozenset(after.values()))


def named_after(tensor: Tensor, result: Tensor) -> Tensor:
    """A tensor of a stream's own among those of the program."""
    return replace(tensor, name=f"{result.name}{tensor.name}")


def panels(target: Target) -> int:
    """Positions of whole panels, whichever width the schedules choose for packed operands: 1 to 4 registers of lanes."""
    return 12 * target.vector_bits // 32
