"""Values that a later stage reduces are reduced as they are made: one loop stores and takes in.

A stage of a group that only computes values, and a reduction that takes in each of them once, walk the same positions.
The values are then made in the reduction's loop (`ir.Tee`), which saves a pass over them; others read them as before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from snell.loops.access import access_of
from snell.loops.ir import tee
from snell.loops.retarget import rebuilt_stage
from snell.loops.schedule import StageSchedule
from snell.loops.stage import Stage, map_term
from snell.rewrite.term import Load, Term, walk
from snell.symbolic import Axis, Expr, as_expr

__all__ = ["Teed", "teed"]


@dataclass(frozen=True, slots=True)
class Teed:
    """The stage at `consumer`, which makes and stores what the stage at `producer` made."""

    producer: int
    consumer: int
    stage: Stage


def teed(stages: Sequence[Stage], schedules: Sequence[StageSchedule], parts: Sequence[range]) -> Iterator[Teed]:
    """Pairs of stages to be one; both of one part (stages of a part run equally often)."""
    for part in parts:
        taken: set[int] = set()
        for place in part:
            reader = next((k for k in part if k > place and stages[place].tensor in stages[k].reads()), None)
            if reader is None or reader in taken or stages[place].partials:
                continue
            joined = _joined(stages[place], stages[reader], schedules[reader])
            if joined is not None:
                taken.add(reader)
                yield Teed(place, reader, joined)


def _joined(producer: Stage, consumer: Stage, schedule: StageSchedule) -> Stage | None:
    """The consumer making the producer's values itself, None where it does not take in each of them exactly once."""
    found = [item for item in consumer.loads() if isinstance(item.op, Load) and item.op.tensor == producer.tensor]
    takers = [k for k, partial in enumerate(consumer.partials) if any(item in found for item in _loads(partial.body))]
    if len(found) != 1 or len(takers) != 1 or found[0] in _loads(consumer.value):
        return None
    (item,) = found
    assert isinstance(item.op, Load)
    axes = _matched(producer, item.op.indices)
    walked = {*consumer.axes, *consumer.reduced}
    if axes is None or item.op.guards or {*axes.values()} != walked or _jumps(item, schedule):
        return None
    made = tee(producer.tensor, item.op.indices, rebuilt_stage(producer, axes).value)
    partials = list(consumer.partials)
    partial = partials[takers[0]]
    partials[takers[0]] = replace(partial, body=map_term(partial.body, lambda term: made if term is item else None))
    return replace(consumer, partials=tuple(partials))


def _loads(root: Term) -> list[Term]:
    return [item for item in walk(root) if isinstance(item.op, Load)]


def _matched(producer: Stage, indices: Sequence[Expr]) -> dict[Axis, Axis] | None:
    """The consumer's axis for each of the producer's where every value is read where it was made."""
    axes: dict[Axis, Axis] = {}
    for written, read in zip(producer.indices, indices, strict=True):
        own, other = _lone(written), _lone(read)
        if own is None or other is None:
            if written != read or written.axes():
                return None
        elif own.extent != other.extent or axes.setdefault(own, other) != other:
            return None
    is_one_to_one = len(set(axes.values())) == len(axes) and set(axes) == set(producer.axes)
    fixed = {axis for axis, _ in producer.ranges}
    return axes if is_one_to_one and all(axes.get(axis, axis) == axis for axis in fixed) else None


def _lone(expression: Expr) -> Axis | None:
    """The axis that an index is, None where it is something else."""
    (axis, *others) = expression.axes() or (None,)
    return axis if axis is not None and not others and expression == as_expr(axis) else None


def _jumps(item: Term, schedule: StageSchedule) -> bool:
    """Whether lanes of the consumer's loop lie apart in memory, or several of them hold one value."""
    tile = schedule.tile
    return tile is None or tile.vector is None or access_of(item).stride(tile.vector) != 1.0
