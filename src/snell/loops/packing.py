"""Packing: copy an operand into the order in which a schedule reads it.

The layout is computed from the schedule: panels as wide as the register tile along the vector axis, each panel walked
along the reduced axes.  One function serves whole operands (a workspace shared by all threads, its own phase) and the
slices of a fused group (local buffers).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from snell.loops.access import access_of
from snell.loops.ir import Block, Blocked, Buffer, BufferScope, Level, Loop, LoopKind, Prefetch, Statement, Store
from snell.loops.lower import lower_stage
from snell.loops.schedule import StageSchedule
from snell.loops.stage import Partial, Stage, map_term
from snell.loops.tensor import TensorAxis
from snell.loops.tile import reduced_rank
from snell.rewrite.term import Cast, Load, Tensor, Term, load
from snell.symbolic import Axis, Expr, as_expr
from snell.targets import Target

__all__ = ["PackedStage", "Packing", "pack_operands", "packed_operand"]


_SHORT = 4
_COPIED_BYTES = 512
_LINE, _AHEAD = 64, 8  # bytes of a cache line, and rows from asking to reading


@dataclass(frozen=True, slots=True)
class Packing:
    """One copy: the stage that fills the packed buffer, and how it is walked.

    With tensor lanes the elements of a group lie side by side, and are written together.
    """

    stage: Stage
    vector: Axis
    panel: int
    tensor: TensorAxis | None = None

    def levels(self, target: Target) -> tuple[Level, ...]:
        """Panels outermost, then one register of lanes at a time, so that what its rows share (scales) stays in registers.

        Short axes are unrolled: fields of one byte are read together.  What lies in memory as it is wanted is copied
        row by row, a few panels at once, so that whole cache lines are read.
        """
        # A product in a wider type has fewer lanes, whose panels may be no whole number of registers of this one.
        lanes = math.gcd(self.panel, target.vector_bits // max(32, self.stage.tensor.dtype.bits))
        others = [axis for axis in self.stage.axes if axis != self.vector]
        if self._is_copy():
            wide = self.panel * max(1, _COPIED_BYTES // (self.panel * self.stage.tensor.dtype.itemsize))
            rows = (Level(axis, self._step(axis)) for axis in others)
            return (Level(self.vector, wide), *rows, *self._lanes(lanes))
        short = [axis for axis in others if isinstance(axis.extent, int) and axis.extent <= _SHORT]
        serial = [Level(axis, self._step(axis)) for axis in others if axis not in short]
        whole = [Level(axis, self._step(axis, axis.extent)) for axis in short if isinstance(axis.extent, int)]
        unrolled = [Level(axis, self._step(axis), LoopKind.UNROLLED) for axis in short]
        outer = (Level(self.vector, self.panel), Level(self.vector, lanes))
        return (*outer, *serial, *whole, *unrolled, *self._lanes(lanes))

    def _step(self, axis: Axis, size: int = 1) -> int:
        return size if self.tensor is None else self.tensor.step(axis, size)

    def _lanes(self, lanes: int) -> tuple[Level, ...]:
        """The levels of one instruction."""
        last = Level(self.vector, lanes, LoopKind.VECTOR)
        return (last,) if self.tensor is None else (last, Level(self.tensor.axis, self.tensor.group, LoopKind.TENSOR))

    def statements(self, target: Target, columns: int) -> tuple[Statement, ...]:
        """The copy as loops inside of a ticket, whose `columns` are few enough to go through them row by row.

        Rows are short and far apart, so each asks for one of the next.
        """
        levels = self.levels(target)
        if not self._is_copy():
            return lower_stage(self.stage, levels)
        first = next(k for k, level in enumerate(levels) if level.kind is LoopKind.VECTOR)
        rows, lanes = levels[1:first], levels[first:]
        body: tuple[Statement, ...] = (Store(self.stage.tensor, self.stage.indices, self.stage.value),)
        for level in reversed(lanes):
            body = (Loop(level, body),)
        if rows:
            body = (*self._asked(rows[-1].axis, columns), *body)
        for level in reversed(rows):
            body = (Loop(level, body),)
        return body

    def _asked(self, rows: Axis, columns: int) -> Iterator[Prefetch]:
        source = self._source()
        assert isinstance(source.op, Load)
        if source.op.guards or source.op.tensor.storage is not None:
            return
        for lane in range(0, columns, max(1, _LINE // source.dtype.itemsize)):
            moved: dict[Axis, Expr] = {rows: as_expr(rows) + _AHEAD, self.vector: as_expr(self.vector) + lane}
            yield Prefetch(source.op.tensor, tuple(index.substitute(moved) for index in source.op.indices))  # type: ignore[arg-type]

    def _source(self) -> Term:
        """What is copied, before any conversion."""
        value = self.stage.value
        return value.args[0] if isinstance(value.op, Cast) else value

    def _is_copy(self) -> bool:
        """Whether lanes of the copy are read as they lie in memory."""
        source = self._source()
        if not isinstance(source.op, Load) or access_of(source).stride(self.vector) != 1.0:
            return False
        return source is self.stage.value or source.op.tensor.storage is None


@dataclass(frozen=True, slots=True)
class PackedStage:
    """The stage reading packed operands, the copies to run before it, and the packed buffers."""

    stage: Stage
    copies: tuple[Packing, ...]
    buffers: tuple[Buffer, ...]


def pack_operands(stage: Stage, schedule: StageSchedule, scope: BufferScope, outer: Sequence[Axis] = ()) -> PackedStage:
    """Replace the loads the schedule wants packed; `outer` axes are fixed while the packed buffer lives."""
    assert schedule.tile is not None
    vector = schedule.tile.vector
    swaps: dict[Term, Term] = {}
    copies: list[Packing] = []
    buffers: list[Buffer] = []
    for number, item in enumerate(schedule.packed):
        assert vector is not None
        buffer, copy = _packed(stage, item, schedule, scope, outer, number)
        buffers.append(buffer)
        copies.append(Packing(copy, vector, schedule.panel, _tensor_lanes(schedule, item)))
        swaps[item] = load(buffer.tensor, copy.indices)
    if not swaps:
        return PackedStage(stage, (), ())
    partials = tuple(Partial(p.accumulator, map_term(p.body, swaps.get)) for p in stage.partials)
    return PackedStage(replace(stage, partials=partials), tuple(copies), tuple(buffers))


def _tensor_lanes(schedule: StageSchedule, item: Term) -> TensorAxis | None:
    """The schedule's tensor lanes where the item is one of the factors that they read as words."""
    found = schedule.tile.tensor if schedule.tile is not None else None
    return found if found is not None and item in found.factors and found.axis in item.free else None


def _packed(
    stage: Stage, item: Term, schedule: StageSchedule, scope: BufferScope, outer: Sequence[Axis], number: int
) -> tuple[Buffer, Stage]:
    assert schedule.tile is not None
    vector, grouped = schedule.tile.vector, _tensor_lanes(schedule, item)
    assert vector is not None
    order = [axis for axis in stage.reduced if axis in item.free and axis != vector]
    order.sort(key=lambda axis: -reduced_rank(stage, axis))
    buffer, copy = packed_operand(stage, item, vector, schedule.panel, order, grouped, number, outer)
    return replace(buffer, scope=scope), copy


def packed_operand(
    stage: Stage,
    item: Term,
    vector: Axis,
    panel: int,
    order: Sequence[Axis],
    grouped: TensorAxis | None,
    number: int,
    outer: Sequence[Axis] = (),
) -> tuple[Buffer, Stage]:
    """The buffer of an item in panels along the vector axis, each walked along `order`, and the stage that fills it.

    With `grouped`, positions of its axis that one instruction takes lie side by side.
    """
    data = [axis for axis in stage.axes if axis in item.free and axis != vector and axis not in outer]
    axes = (*data, *order, vector)
    tensor = Tensor(f"{stage.tensor.name}.packed{number}", tuple(axis.extent for axis in axes), item.dtype)
    last = len(axes) - 1
    blocks = (
        *(Block(k, 1) for k in range(len(data))),
        Block(last, panel),
        *(Block(len(data) + k, 1 if grouped is None else grouped.step(axis, 1)) for k, axis in enumerate(order)),
        Block(last, 1),
        *(Block(len(data) + k, 1) for k, axis in enumerate(order) if grouped is not None and axis == grouped.axis),
    )
    buffer = Buffer(tensor, tensor.shape, Blocked(blocks), BufferScope.WORKSPACE, writable=True)
    copy = Stage(tensor, axes, tuple(as_expr(axis) for axis in axes), (), (), item, stage.ranges)
    return buffer, copy
