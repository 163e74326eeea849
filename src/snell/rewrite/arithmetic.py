"""Building arithmetic on terms, with the foldings that keep derived terms small: zeros, ones, powers.

Nothing here changes a value, except the sign of a zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from snell.dtypes import bool_
from snell.graph.primitives import Add, LessThan, Mul, Op
from snell.rewrite.substitution import rebuilt
from snell.rewrite.term import (
    And,
    Divide,
    Maximum,
    Number,
    Select,
    SelectElse,
    Subtract,
    Term,
    children,
    number,
    term,
)  # fmt: skip

__all__ = [
    "add", "applied", "both", "choose", "constant_of", "divide", "finite_or_zero", "less", "magnitude", "maximum",
    "multiply", "negative_infinity", "power", "replaced", "scale", "select", "subtract",
]  # fmt: skip


def constant_of(item: Term) -> Fraction | None:
    """The exact value of a finite constant, else None."""
    if isinstance(item.op, Number) and not isinstance(item.op.value, float):
        return Fraction(item.op.value)
    return None


def negative_infinity(like: Term) -> Term:
    return number(-math.inf, like.dtype)


def add(a: Term, b: Term) -> Term:
    if constant_of(a) == 0:
        return b
    return a if constant_of(b) == 0 else term(Add(), (a, b), a.dtype)


def subtract(a: Term, b: Term) -> Term:
    return a if constant_of(b) == 0 else term(Subtract(), (a, b), a.dtype)


def multiply(a: Term, b: Term) -> Term:
    if constant_of(a) == 1:
        return b
    return a if constant_of(b) == 1 else term(Mul(), (a, b), a.dtype)


def scale(factor: Fraction, item: Term) -> Term:
    """`factor * item`."""
    return multiply(item, number(factor, item.dtype))


def divide(a: Term, b: Term) -> Term:
    return term(Divide(), (a, b), a.dtype)


def power(item: Term, exponent: int) -> Term:
    """`item` to a non-negative integer power, by products."""
    result = number(1, item.dtype)
    for _ in range(exponent):
        result = multiply(result, item)
    return result


def maximum(a: Term, b: Term) -> Term:
    return a if a is b else term(Maximum(), (a, b), a.dtype)


def magnitude(item: Term) -> Term:
    """The absolute value."""
    return term(Maximum(), (item, scale(Fraction(-1), item)), item.dtype)


def applied(function: Op, item: Term) -> Term:
    """A unary operation whose result has its argument's dtype."""
    return term(function, (item,), item.dtype)


def less(a: Term, b: Term) -> Term:
    return term(LessThan(), (a, b), bool_)


def both(a: Term | None, b: Term | None) -> Term | None:
    """The conjunction of two conditions, where None is no condition."""
    if a is None or b is None or a is b:
        return a if b is None else b
    return term(And(), (a, b), bool_)


def select(condition: Term | None, item: Term) -> Term:
    """`item` where the condition holds, else 0."""
    return item if condition is None else term(Select(), (condition, item), item.dtype)


def choose(condition: Term, a: Term, b: Term) -> Term:
    return term(SelectElse(), (condition, a, b), a.dtype)


def finite_or_zero(item: Term) -> Term:
    """0 where the item is -inf (or NaN), else the item: what may be subtracted from infinities of its sign."""
    return choose(less(negative_infinity(item), item), item, number(0, item.dtype))


def replaced(root: Term, images: Mapping[Term, Term]) -> Term:
    """The term with some of its subterms replaced, the outermost ones first."""
    known: dict[Term, Term] = dict(images)
    stack = [root]
    while stack:
        item = stack[-1]
        if item in known:
            stack.pop()
            continue
        missing = [child for child in children(item) if child not in known]
        if missing:
            stack.extend(missing)
            continue
        known[item] = rebuilt(item, known, {})
        stack.pop()
    return known[root]
