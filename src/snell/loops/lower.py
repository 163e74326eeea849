"""Lowering: a stage and its levels become loops, accumulators and a store.

The accumulators live in registers from the first level after which every data axis is unrolled or vectorised.  A level
of a reduced axis outside that point makes passes over the result, which holds the sums between them.  A reduced axis
with two serial levels adds up in two steps: what runs inside the outer one has an accumulator of its own, added to the
total after it, so that no number takes in more terms than it holds accurately.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from snell.loops.ir import (
    Accumulator,
    Combine,
    Init,
    Level,
    Loop,
    LoopKind,
    ReadAccumulator,
    Statement,
    Store,
    Update,
    read,
)
from snell.loops.stage import Stage, map_term
from snell.rewrite.term import Term, load, number, term
from snell.symbolic import Axis, as_expr

__all__ = ["lower_stage"]


def lower_stage(
    stage: Stage,
    levels: Sequence[Level],
    partial: Sequence[Axis] = (),
    *,
    prologue: tuple[Statement, ...] = (),
    hints: tuple[Statement, ...] = (),
) -> tuple[Statement, ...]:
    """The loop nest of a stage under `levels` (outermost first); `partial` reduced axes keep independent partial sums.

    The `prologue` runs at the start of each pass over the result, or first of all; `hints` come before each tile.
    """
    if not stage.partials:
        return _wrap(levels, (Store(stage.tensor, stage.indices, stage.value),))
    split = _register_point(stage, levels)
    outer, inner = levels[:split], levels[split:]
    data = [level for level in inner if level.axis not in stage.reduced]
    renamed = {p.accumulator: _accumulator(stage, p.accumulator, partial) for p in stage.partials}
    updates = tuple(Update(renamed[p.accumulator], p.body) for p in stage.partials)
    blocks = _block_levels(stage, inner)
    if not blocks:
        sums = (*_wrap(data, _starts(stage, outer, renamed)), *_wrap(inner, updates))
        totals = renamed
    else:
        totals = {old: replace(new, name=f"{new.name}.total", partial=()) for old, new in renamed.items()}
        added = tuple(Update(totals[old], read(new)) for old, new in renamed.items())
        block = (*_wrap(data, _inits(renamed)), *_wrap(inner[blocks:], updates), *_wrap(data, added))
        sums = (*_wrap(data, _inits(totals)), *_wrap(inner[:blocks], block))
    value = _rename(stage.value, totals)
    passes = next((k for k, level in enumerate(outer) if level.axis not in stage.reduced), len(outer))
    nest = _wrap(outer[passes:], (*hints, *sums, *_wrap(data, (Store(stage.tensor, stage.indices, value),))))
    return _wrap(outer[:passes], (*prologue, *nest))


def _starts(stage: Stage, outer: Sequence[Level], renamed: Mapping[Accumulator, Accumulator]) -> tuple[Init, ...]:
    """The identity; or, where the reduction runs in passes, what the pass before left in the result."""
    passes = tuple(as_expr(level.axis) - 1 for level in outer if level.axis in stage.reduced)
    if not passes:
        return _inits(renamed)
    (accumulator,) = renamed.values()
    return (Init(accumulator, load(stage.tensor, stage.indices, passes)),)


def _inits(renamed: Mapping[Accumulator, Accumulator]) -> tuple[Init, ...]:
    return tuple(Init(new, _identity(new)) for new in renamed.values())


def _block_levels(stage: Stage, inner: Sequence[Level]) -> int:
    """How many of the levels lie outside the inner accumulators: up to the first of two serial ones of a reduced axis."""
    serial = [level.axis for level in inner if level.kind is LoopKind.SERIAL and level.axis in stage.reduced]
    twice = [axis for axis in stage.reduced if serial.count(axis) > 1]
    return 1 + next(k for k, level in enumerate(inner) if level.axis in twice) if twice else 0


def _register_point(stage: Stage, levels: Sequence[Level]) -> int:
    """The first level that reduces and after which every data level is unrolled or vectorised."""
    for k, level in enumerate(levels):
        if level.axis not in stage.reduced:
            continue
        rest = levels[k:]
        if all(m.axis in stage.reduced or m.kind is not LoopKind.SERIAL for m in rest):
            return k
    raise AssertionError(f"schedule of {stage.tensor.name} never reaches its registers")


def _accumulator(stage: Stage, old: Accumulator, partial: Sequence[Axis]) -> Accumulator:
    return replace(old, name=f"{stage.tensor.name}.{old.name}", axes=stage.axes, partial=tuple(partial))


def _rename(value: Term, renamed: dict[Accumulator, Accumulator]) -> Term:
    def swap(item: Term) -> Term | None:
        if isinstance(item.op, ReadAccumulator):
            return term(ReadAccumulator(renamed[item.op.accumulator]), (), item.dtype)
        return None

    return map_term(value, swap)


def _identity(accumulator: Accumulator) -> Term:
    value = 0 if accumulator.combine is Combine.SUM else accumulator.dtype.lowest
    return number(value, accumulator.dtype)


def _wrap(levels: Sequence[Level], body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    for level in reversed(levels):
        body = (Loop(level, body),)
    return body
