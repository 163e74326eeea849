"""What a group does, in a few words, for tables: the shape it makes, its reductions and the functions it applies."""

from __future__ import annotations

import math

from snell.graph.primitives import Exp2, Log2, Mul, ScalarFunction, Sin, Sqrt
from snell.loops.grouping import Group
from snell.loops.ir import Combine
from snell.loops.stage import Stage
from snell.rewrite.cut import typical_size
from snell.rewrite.term import Cast, Term, walk

__all__ = ["describe"]

_MOST_PARTS = 4


def describe(group: Group) -> str:
    """Such as ``64×300 f32: sums of 256 products, exp``; symbolic sizes by their names, lengths of sums at typical ones."""
    made = group.stages[-1].tensor
    shape = "×".join(map(str, made.shape)) or "1"
    parts = list(dict.fromkeys(part for stage in group.stages for part in _parts(stage)))
    shown = [*parts[:_MOST_PARTS], "…"] if len(parts) > _MOST_PARTS else parts
    return f"{shape} {made.dtype}" + (f": {', '.join(shown)}" if shown else "")


def _parts(stage: Stage) -> list[str]:
    terms = math.prod(typical_size(axis.extent) for axis in stage.reduced)
    parts: list[str] = []
    for partial in stage.partials:
        is_sum = partial.accumulator.combine is Combine.SUM
        what = "products" if is_sum and isinstance(_uncast(partial.body).op, Mul) else "values"
        parts.append(f"{'sums' if is_sum else 'maxima'} of {terms:.0f} {what}")
    return parts + [name for item in walk(*stage.terms()) if (name := _function(item)) is not None]


def _function(item: Term) -> str | None:
    match item.op:
        case ScalarFunction(name):
            return name
        case Exp2() | Log2() | Sin() | Sqrt():
            return type(item.op).__name__.lower()
        case _:
            return None


def _uncast(item: Term) -> Term:
    while isinstance(item.op, Cast):
        item = item.args[0]
    return item
