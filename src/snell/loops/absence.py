"""Where a value is known without being computed: 0 or -inf outside of a region that masks leave.

A selection between a value and a constant, an exponential of -inf, a product with 0: each is its default wherever a
guard (an integer expression) is negative.  What only adds defaults to a sum, or takes their maximum, need not be visited.
A default stands for the product of 0 and infinity too, as refining rules may have it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from snell.graph.primitives import Add, Exp2, Mul, ScalarFunction
from snell.loops.ir import Combine
from snell.loops.stage import Partial, Stage
from snell.rewrite.conditions import guards_of
from snell.rewrite.term import (
    Cast,
    Divide,
    Load,
    Number,
    Select,
    SelectElse,
    Subtract,
    Tensor,
    Term,
    logical_not,
    walk,
)  # fmt: skip
from snell.symbolic import Axis, Expr, as_expr

__all__ = ["Absence", "absences", "dimensions", "shared_guards"]

_ZERO, _LEAST = 0.0, -math.inf


@dataclass(frozen=True, slots=True)
class Absence:
    """The value is `default` (0 or -inf) wherever one of the guards is negative."""

    default: float
    guards: frozenset[Expr]


def dimensions(tensor: Tensor) -> tuple[Axis, ...]:
    """Axes that stand for the dimensions of a tensor, so that what is known of it has no reader's or writer's axes."""
    return tuple(Axis(f"#{k}", size) for k, size in enumerate(tensor.shape))


def absences(stages: Sequence[Stage], local: Iterable[Tensor]) -> dict[Tensor, Absence]:
    """What is absent of the values that stages make for each other, in terms of `dimensions`."""
    made = [stage.tensor for stage in stages]
    once = {tensor for tensor in local if made.count(tensor) == 1}
    found: dict[Tensor, Absence] = {}
    for stage in stages:
        own = _absent_root(stage.value, found) if stage.tensor in once else None
        places = {
            index_axis: dimension
            for index, dimension in zip(stage.indices, dimensions(stage.tensor), strict=True)
            if (index_axis := _lone(index)) is not None
        }
        if own is None:
            continue
        inner = set(stage.axes) - set(places)
        guards = frozenset(
            guard.substitute({axis: as_expr(place) for axis, place in places.items()})
            for guard in own.guards
            if not inner & guard.axes()
        )
        if guards:
            found[stage.tensor] = Absence(own.default, guards)
    return found


def _lone(index: Expr) -> Axis | None:
    axis = next(iter(index.axes()), None)
    return axis if axis is not None and index == as_expr(axis) else None


def shared_guards(partials: Iterable[Partial], known: Mapping[Tensor, Absence]) -> frozenset[Expr]:
    """Guards outside of which all of these reductions take in nothing but their identity."""
    found: frozenset[Expr] | None = None
    for partial in partials:
        own = _absent_root(partial.body, known)
        identity = _ZERO if partial.accumulator.combine is Combine.SUM else _LEAST
        guards = own.guards if own is not None and own.default == identity else frozenset[Expr]()
        found = guards if found is None else found & guards
    return found or frozenset()


def _absent_root(root: Term, known: Mapping[Tensor, Absence]) -> Absence | None:
    """What is absent of a term; `known` says it of the tensors that it loads."""
    found: dict[Term, Absence | None] = {}
    for item in walk(root):
        found[item] = _absent(item, found, known)
    return found[root]


def _absent(item: Term, found: Mapping[Term, Absence | None], known: Mapping[Tensor, Absence]) -> Absence | None:
    match item.op:
        case Load(tensor, indices, guards):
            own = known.get(tensor)
            if own is None or guards:
                return None
            places = dict(zip(dimensions(tensor), indices, strict=True))
            return Absence(own.default, frozenset(guard.substitute(places) for guard in own.guards))  # type: ignore[arg-type]
        case Select():
            condition, value = item.args
            return _selected(condition, _ZERO, found[value])
        case SelectElse():
            return _chosen(item, found)
        case Exp2():
            return _exponential(found[item.args[0]])
        case ScalarFunction("exp" | "exp2"):
            return _exponential(found[item.args[0]])
        case Mul():
            return _product(item, found)
        case Cast() | Divide():
            own = found[item.args[0]]
            zero = own is not None and own.default == _ZERO
            return own if zero or (isinstance(item.op, Cast) and item.dtype.is_float) else None
        case Add() | Subtract():
            parts = found[item.args[0]], found[item.args[1]] if isinstance(item.op, Add) else None
            return next((part for part in parts if part is not None and part.default == _LEAST), None)
        case _:
            return None


def _selected(condition: Term, default: float, value: Absence | None) -> Absence | None:
    """`default` unless the condition holds, and where the value is it anyway."""
    guards = frozenset(g for g in guards_of(condition) or () if g.axes())
    if value is not None and value.default == default:
        guards |= value.guards
    return Absence(default, guards) if guards else None


def _chosen(item: Term, found: Mapping[Term, Absence | None]) -> Absence | None:
    condition, first, second = item.args
    for other, value, holds in (second, first, condition), (first, second, logical_not(condition)):
        default = _default(other)
        if default is not None:
            return _selected(holds, default, found[value])
    return None


def _default(item: Term) -> float | None:
    value = item.op.value if isinstance(item.op, Number) else None
    return float(value) if value in (_ZERO, _LEAST) else None


def _exponential(exponent: Absence | None) -> Absence | None:
    return Absence(_ZERO, exponent.guards) if exponent is not None and exponent.default == _LEAST else None


def _product(item: Term, found: Mapping[Term, Absence | None]) -> Absence | None:
    zeros = [part for part in map(found.get, item.args) if part is not None and part.default == _ZERO]
    if zeros:
        return Absence(_ZERO, frozenset[Expr]().union(*(part.guards for part in zeros)))
    for value, factor in (item.args, item.args[::-1]):
        own = found[value]
        if own is not None and isinstance(factor.op, Number) and factor.op.value > 0:
            return own
    return None
