"""Element-wise primitives as terms, with the idioms that need no rule.

Mul(bool, x) → Select     Mul(bool, bool) → And     c < True → Not(c)     not a<b and not b<a (integers) → Equal
"""

from __future__ import annotations

from snell.dtypes import DType, bool_, i64
from snell.graph.node import Node
from snell.graph.primitives import Add, Contiguous, LessThan, Mod, Mul, Op
from snell.rewrite.gather import select
from snell.rewrite.term import And, Cast, Equal, Index, Not, Number, Term, cast, index, logical_not, term
from snell.symbolic import Expr, as_expr

__all__ = ["elementwise", "rounded"]


def elementwise(op: Op, arguments: tuple[Term, ...], node: Node, dtype: DType) -> Term:
    """The operation of `node` on terms; `dtype` is the node's compute dtype."""
    match op:
        case Contiguous(target):
            if node.operands[0].dtype == target:
                return arguments[0]
            return rounded(arguments[0], target, dtype)
        case Mul():
            return _product(arguments[0], arguments[1], dtype)
        case LessThan():
            return _less_than(arguments[0], arguments[1])
        case Add() | Mod():
            folded = _index_arithmetic(op, arguments[0], arguments[1])
            return folded if folded is not None else term(op, arguments, dtype)
        case _:
            return term(op, arguments, dtype)


def rounded(value: Term, target: DType, compute: DType) -> Term:
    """A cast to `target`, held in its compute dtype."""
    if isinstance(value.op, Cast) and value.args[0].dtype == target and target != compute:
        return value
    return cast(cast(value, target), compute)


def _product(a: Term, b: Term, dtype: DType) -> Term:
    if a.dtype == bool_ and b.dtype == bool_:
        return _conjunction(a, b)
    if a.dtype == bool_:
        return select(a, b)
    if b.dtype == bool_:
        return select(b, a)
    folded = _index_arithmetic(Mul(), a, b)
    return folded if folded is not None else term(Mul(), (a, b), dtype)


def _conjunction(a: Term, b: Term) -> Term:
    for one, other in ((a, b), (b, a)):
        if isinstance(one.op, Number):
            return other if one.op.value else one
    if a is b:
        return a
    if isinstance(a.op, Not) and isinstance(b.op, Not):
        left, right = a.args[0], b.args[0]
        opposite = isinstance(left.op, LessThan) and isinstance(right.op, LessThan) and left.args == right.args[::-1]
        if opposite and left.args[0].dtype.is_integer:
            return term(Equal(), left.args, bool_)
    return term(And(), (a, b), bool_)


def _less_than(a: Term, b: Term) -> Term:
    if a.dtype != bool_:
        return term(LessThan(), (a, b), bool_)
    if isinstance(b.op, Number):
        return logical_not(a) if b.op.value else b
    return _conjunction(logical_not(a), b)


def _index_arithmetic(op: Op, a: Term, b: Term) -> Term | None:
    """i64 arithmetic on positions and sizes stays an index expression."""
    left, right = _position(a), _position(b)
    if left is None or right is None or a.dtype != i64:
        return None
    match op:
        case Add():
            return index(left + right)
        case Mul():
            return index(left * right) if left.is_constant or right.is_constant else None
        case Mod():
            return index(left % right) if right.is_constant and right.constant > 0 else None
        case _:
            return None


def _position(value: Term) -> Expr | None:
    match value.op:
        case Index(expression):
            return expression
        case Number(constant) if isinstance(constant, int):
            return as_expr(constant)
        case _:
            return None
