"""Equality solving: a sum that selects one position becomes an indexed load.

    Σ_j [j == idx]·x[j]   →   [0 <= idx < n]·x[idx]        idx an integer free of j

so that embedding and take cost what their result holds.  The equation is solved for a summed axis of coefficient ±1;
the other side may be any integer term (an opaque atom of the index expression) or index expression.  Loads that the
solution may send out of range are guarded, hence memory outside is never touched.
"""

from __future__ import annotations

from snell.dtypes import DType, bool_
from snell.graph.primitives import Add, LessThan, Mul
from snell.rewrite.substitution import substitute
from snell.rewrite.term import (
    And,
    Cast,
    Equal,
    Index,
    Load,
    Number,
    Select,
    Sum,
    Term,
    cast,
    index,
    logical_not,
    number,
    opaque,
    term,
)
from snell.symbolic import Axis, Expr, Opaque, as_expr

__all__ = ["conditions", "conjunction", "conjuncts", "equation", "gathered", "holds", "select", "vanishes"]


def holds(guard: Expr) -> Term:
    """`guard >= 0` as a term."""
    lone = guard.terms[0][0][0] if len(guard.terms) == 1 and len(guard.terms[0][0]) == 1 else None
    if isinstance(lone, Opaque) and isinstance(lone.key, Term) and abs(guard.terms[0][1]) == 1:
        loaded = lone.key
        if guard.terms[0][1] == 1 and guard.constant == 0:
            return logical_not(term(LessThan(), (loaded, number(0, loaded.dtype)), bool_))
        if guard.terms[0][1] == -1 and guard.constant + 1 <= loaded.dtype.range[1]:
            return term(LessThan(), (loaded, number(guard.constant + 1, loaded.dtype)), bool_)
    position = index(guard)
    return logical_not(term(LessThan(), (position, number(0, position.dtype)), bool_))


def conjunction(conditions: list[Term]) -> Term:
    """All of the conditions; true for none."""
    result = conditions[0] if conditions else number(1, bool_)
    for condition in conditions[1:]:
        result = term(And(), (result, condition), bool_)
    return result


def select(condition: Term, value: Term) -> Term:
    """`value` where the condition holds, else 0; constants folded."""
    if isinstance(condition.op, Number):
        return value if condition.op.value else number(0, value.dtype)
    if isinstance(value.op, Number) and value.op.value == 0:
        return value
    return term(Select(), (condition, value), value.dtype)


def vanishes(value: Term, guards: tuple[Expr, ...]) -> bool:
    """True when the value is 0 wherever one of the guards fails, because its loads are."""
    match value.op:
        case Load(_, _, own):
            return set(guards) <= set(own)
        case Number(constant):
            return constant == 0
        case Cast() | Sum():
            return vanishes(value.args[0], guards)
        case Select():
            return vanishes(value.args[1], guards)
        case Add() | Mul():
            return all(vanishes(argument, guards) for argument in value.args)
        case _:
            return False


def gathered(axes: tuple[Axis, ...], body: Term) -> tuple[tuple[Axis, ...], Term]:
    """The axes and body of an equal sum in which no summed axis is fixed by an equation."""
    while True:
        required, value = conditions(body)
        solved = next((found for c in required for axis in axes if (found := _solved(c, axis)) is not None), None)
        if solved is None:
            return axes, body
        condition, axis, solution = solved
        rest = [c for c in required if c is not condition]
        body = _placed(rest, value, axis, solution)
        axes = tuple(a for a in axes if a != axis)


def _placed(conditions: list[Term], value: Term, axis: Axis, solution: Expr) -> Term:
    """The one term of the sum where `axis == solution`, 0 where the solution is out of the axis's range."""
    ends = (solution, as_expr(axis.extent) - 1 - solution)
    if any(end.bounds()[1] < 0 for end in ends):
        return number(0, value.dtype)
    guards = tuple(end for end in ends if not end.is_non_negative())
    moved = substitute(value, {axis: solution}, guards)
    for condition in reversed(conditions):
        moved = select(substitute(condition, {axis: solution}, guards), moved)
    return moved if not guards or vanishes(moved, guards) else select(conjunction([holds(g) for g in guards]), moved)


def conditions(body: Term) -> tuple[list[Term], Term]:
    """The conjuncts under which a body is not 0, and what it is there."""
    match body.op:
        case Select():
            below, value = conditions(body.args[1])
            return conjuncts(body.args[0]) + below, value
        case Cast() if body.args[0].dtype != bool_:
            below, value = conditions(body.args[0])
            return (below, cast(value, body.dtype)) if below else ([], body)
        case _:
            return [], body


def conjuncts(condition: Term) -> list[Term]:
    """The conditions that hold exactly where this one does."""
    if isinstance(condition.op, And):
        return [c for argument in condition.args for c in conjuncts(argument)]
    return [condition]


def _solved(condition: Term, axis: Axis) -> tuple[Term, Axis, Expr] | None:
    """The equation solved for the axis, where it can be."""
    difference = equation(condition) if axis in condition.free else None
    if difference is None:
        return None
    coefficient = difference.coefficient(axis)
    if abs(coefficient) != 1 or not difference.is_affine_in(axis):
        return None
    rest = difference - as_expr(axis) * coefficient
    return condition, axis, rest * -coefficient


def equation(condition: Term) -> Expr | None:
    """The index expression that is 0 exactly where the condition holds; None for what is no equation of integers."""
    if not isinstance(condition.op, Equal) or not condition.args[0].dtype.is_integer:
        return None
    left, right = condition.args
    return _expression(left) - _expression(right)


def _expression(value: Term) -> Expr:
    """An integer term as an index expression, opaque where the algebra cannot look or arithmetic may wrap."""
    match value.op:
        case Index(expression):
            return expression
        case Number(constant):
            return as_expr(int(constant))
        case Cast() if value.args[0].dtype.is_integer:
            inner = _expression(value.args[0])
            low, high = inner.bounds()
            if value.dtype.range[0] <= low and high <= value.dtype.range[1]:
                return inner
        case Add() | Mul() if all(argument.dtype == value.dtype for argument in value.args):
            a, b = (_expression(argument) for argument in value.args)
            total = a + b if isinstance(value.op, Add) else a * b
            low, high = total.bounds()
            if value.dtype.range[0] <= low and high <= value.dtype.range[1]:
                return total
        case _:
            pass
    return as_expr(opaque(value, *_integer_range(value.dtype)))


def _integer_range(dtype: DType) -> tuple[int, int]:
    low, high = dtype.range
    return int(low), int(high)
