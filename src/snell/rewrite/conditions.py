"""Conditions as affine guards: a conjunction of integer comparisons becomes expressions that must be `>= 0`."""

from __future__ import annotations

from snell.graph.primitives import LessThan
from snell.rewrite.substitution import rebuilt
from snell.rewrite.term import And, Cast, Index, Not, Number, Select, SelectElse, Term, walk
from snell.symbolic import Expr, as_expr

__all__ = ["decided", "guards_of", "integer_of"]


def decided(root: Term) -> Term:
    """The term without selections whose condition holds for every position and size."""
    images: dict[Term, Term] = {}
    for item in walk(root):
        match item.op:
            case Select() | SelectElse() if _always(item.args[0]):
                images[item] = images[item.args[1]]
            case _:
                images[item] = rebuilt(item, images, {})
    return images[root]


def _always(condition: Term) -> bool:
    guards = guards_of(condition)
    return guards is not None and all(guard.is_non_negative() for guard in guards)


def guards_of(condition: Term) -> tuple[Expr, ...] | None:
    """Expressions that are all non-negative exactly where the condition holds, or None when it is no such conjunction."""
    match condition.op:
        case And():
            parts = [guards_of(arg) for arg in condition.args]
            return None if any(p is None for p in parts) else tuple(g for p in parts if p is not None for g in p)
        case LessThan():
            a, b = (integer_of(arg) for arg in condition.args)
            return None if a is None or b is None else (b - a - 1,)
        case Not():
            (inner,) = condition.args
            if not isinstance(inner.op, LessThan):
                return None
            a, b = (integer_of(arg) for arg in inner.args)
            return None if a is None or b is None else (a - b,)
        case _:
            return None


def integer_of(item: Term) -> Expr | None:
    """The integer expression a term stands for, where it is one (casts to integers that hold its range included)."""
    match item.op:
        case Index(expression):
            return expression
        case Number(value) if isinstance(value, int):
            return as_expr(value)
        case Cast() if item.dtype.is_integer:
            inner = integer_of(item.args[0])
            if inner is None:
                return None
            low, high = inner.bounds()
            least, most = item.dtype.range
            return inner if least <= low and high <= most else None
        case _:
            return None
