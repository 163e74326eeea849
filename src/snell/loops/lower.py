"""Lowering: a stage and its levels become loops, accumulators and a store.

The accumulators live in registers from the first level after which every data axis is unrolled or vectorised; levels of
reduced axes outside that point would re-read the result, so a schedule never has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from snell.loops.ir import Accumulator, Combine, Init, Level, Loop, LoopKind, ReadAccumulator, Statement, Store, Update
from snell.loops.stage import Stage, map_term
from snell.rewrite.term import Term, number, term
from snell.symbolic import Axis

__all__ = ["lower_stage"]


def lower_stage(stage: Stage, levels: Sequence[Level], partial: Sequence[Axis] = ()) -> tuple[Statement, ...]:
    """The loop nest of a stage under `levels` (outermost first); `partial` reduced axes keep independent partial sums."""
    if not stage.partials:
        return _wrap(levels, (Store(stage.tensor, stage.indices, stage.value),))
    split = _register_point(stage, levels)
    outer, inner = levels[:split], levels[split:]
    data = [level for level in inner if level.axis not in stage.reduced]
    renamed = {p.accumulator: _accumulator(stage, p.accumulator, data, partial) for p in stage.partials}
    inits = tuple(Init(renamed[p.accumulator], _identity(p.accumulator)) for p in stage.partials)
    updates = tuple(Update(renamed[p.accumulator], p.body) for p in stage.partials)
    value = _rename(stage.value, renamed)
    body = (
        *_wrap(data, inits),
        *_wrap(inner, updates),
        *_wrap(data, (Store(stage.tensor, stage.indices, value),)),
    )
    return _wrap(outer, body)


def _register_point(stage: Stage, levels: Sequence[Level]) -> int:
    """The first level that reduces and after which every data level is unrolled or vectorised."""
    for k, level in enumerate(levels):
        if level.axis not in stage.reduced:
            continue
        rest = levels[k:]
        if all(m.axis in stage.reduced or m.kind is not LoopKind.SERIAL for m in rest):
            return k
    raise AssertionError(f"schedule of {stage.tensor.name} never reaches its registers")


def _accumulator(stage: Stage, old: Accumulator, data: Sequence[Level], partial: Sequence[Axis]) -> Accumulator:
    del data
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
