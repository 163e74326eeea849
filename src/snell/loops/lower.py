"""Lowering: a stage and its levels become loops, accumulators and a store.

The accumulators live in registers from the first level after which every data axis is unrolled or vectorised.  A level
of a reduced axis outside that point makes passes over the result, which holds the sums between them.  A reduced axis
with two serial levels adds up in two steps: what runs inside the outer one has an accumulator of its own, added to the
total after it, so that no number takes in more terms than it holds accurately.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from snell.loops.ir import (
    Accumulator,
    Combine,
    Init,
    Level,
    Loop,
    LoopKind,
    Prefetch,
    ReadAccumulator,
    Statement,
    Store,
    Update,
    read,
)
from snell.loops.stage import Stage, map_term
from snell.rewrite.term import Term, load, number, term
from snell.symbolic import Axis, as_expr

__all__ = ["Hints", "lower_stage"]


@dataclass(frozen=True, slots=True)
class Hints:
    """What each register tile asks for before its sums, and what each innermost step of them asks for."""

    tile: tuple[Prefetch, ...] = ()
    step: tuple[Prefetch, ...] = ()


def lower_stage(
    stage: Stage,
    levels: Sequence[Level],
    partial: Sequence[Axis] = (),
    *,
    prologue: tuple[Statement, ...] = (),
    hints: Hints | None = None,
) -> tuple[Statement, ...]:
    """The loop nest of a stage under `levels` (outermost first); `partial` reduced axes keep independent partial sums.

    The `prologue` runs at the start of each pass over the result, or first of all; `hints` come before each tile and in each
    innermost step of its sums.
    """
    hints = hints or Hints()
    if not stage.partials:
        return _wrap(levels, (Store(stage.tensor, stage.indices, stage.value),))
    split = _register_point(stage, levels)
    outer, inner = levels[:split], levels[split:]
    data = [level for level in inner if level.axis not in stage.reduced]
    renamed = {p.accumulator: _accumulator(stage, p.accumulator, partial) for p in stage.partials}
    updates = tuple(Update(renamed[p.accumulator], p.body) for p in stage.partials)
    blocks = _block_levels(stage, inner)
    passes = [level for level in outer if level.axis in stage.reduced]
    if passes:
        sums = (*_wrap(data, _inits(renamed)), *_summed(inner, updates, hints))
        nest = _wrap(outer[len(passes) :], (*hints.tile, *sums, *_carried(stage, passes, data, renamed)))
        return _wrap(passes, (*prologue, *nest))
    if not blocks:
        sums = (*_wrap(data, _inits(renamed)), *_summed(inner, updates, hints))
        totals = renamed
    else:
        totals = {old: _total(new) for old, new in renamed.items()}
        added = tuple(Update(totals[old], read(new)) for old, new in renamed.items())
        block = (*_wrap(data, _inits(renamed)), *_summed(inner[blocks:], updates, hints), *_wrap(data, added))
        sums = (*_wrap(data, _inits(totals)), *_wrap(inner[:blocks], block))
    value = _rename(stage.value, totals)
    store = Store(stage.tensor, stage.indices, value)
    return (*prologue, *_wrap(outer, (*hints.tile, *sums, *_wrap(data, (store,)))))


def _summed(levels: Sequence[Level], updates: tuple[Statement, ...], hints: Hints) -> tuple[Statement, ...]:
    """The loops of the sums, each innermost step of them asking for what comes after."""
    serial = next((k for k, level in enumerate(levels) if level.kind is not LoopKind.SERIAL), len(levels))
    return _wrap(levels[:serial], (*hints.step, *_wrap(levels[serial:], updates)))


def _carried(
    stage: Stage, passes: Sequence[Level], data: Sequence[Level], renamed: Mapping[Accumulator, Accumulator]
) -> tuple[Statement, ...]:
    """The result takes in a pass: a total of what the passes before left there (nothing in the first) and this one.

    What becomes of the finished sums is worked out in the last pass.
    """
    ((old, accumulator),) = renamed.items()
    total = _total(accumulator)
    later = sum((as_expr(level.axis) for level in passes), as_expr(-1))
    before = load(stage.tensor, stage.indices, (later,))
    total_store = Store(stage.tensor, stage.indices, read(total))
    added = _wrap(data, (Init(total, before), Update(total, read(accumulator)), total_store))
    if isinstance(stage.value.op, ReadAccumulator):
        return added
    finished = _wrap(data, (Store(stage.tensor, stage.indices, _rename(stage.value, {old: total})),))
    for level in reversed(passes):
        last = (as_expr(level.axis.extent) - 1) // level.step * level.step
        finished = (Loop(level, finished, lower=last),)
    return (*added, *finished)


def _total(accumulator: Accumulator) -> Accumulator:
    return replace(accumulator, name=f"{accumulator.name}.total", partial=())


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
