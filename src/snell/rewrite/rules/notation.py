"""Short builders of the terms that rules show as examples."""

from __future__ import annotations

from fractions import Fraction

from snell.dtypes import DType, bool_, f32
from snell.graph.primitives import Add, Exp2, LessThan, Mul, Op, Recip
from snell.rewrite import term as t
from snell.rewrite.term import Tensor, Term
from snell.symbolic import Axis

__all__ = [
    "B", "I", "J", "K", "add", "apply", "both", "divide", "exp2", "less", "max_", "maximum", "mul", "negate", "number",
    "otherwise", "recip", "select", "subtract", "sum_", "tensor", "x", "y", "z",
]  # fmt: skip

B, I, J, K = Axis("b", 2), Axis("i", 3), Axis("j", 5), Axis("k", 4)  # noqa: E741 - the axis i


def tensor(name: str, *axes: Axis, dtype: DType = f32) -> Term:
    """A load that depends on exactly these axes."""
    held = Tensor(name, tuple(axis.extent for axis in axes), dtype)
    return t.load(held, tuple(axis + 0 for axis in axes))


def _named(letter: str, axes: tuple[Axis, ...], dtype: DType) -> Term:
    """A tensor of its own for each set of axes: x(I) and x(J) are different tensors."""
    return tensor("_".join([letter, *(axis.name for axis in axes)]), *axes, dtype=dtype)


def x(*axes: Axis, dtype: DType = f32) -> Term:
    return _named("x", axes, dtype)


def y(*axes: Axis, dtype: DType = f32) -> Term:
    return _named("y", axes, dtype)


def z(*axes: Axis, dtype: DType = f32) -> Term:
    return _named("z", axes, dtype)


def number(value: Fraction | int | float, dtype: DType = f32) -> Term:
    return t.number(value, dtype)


def apply(op: Op, *args: Term) -> Term:
    """An operation whose result has the dtype of its last argument."""
    return t.term(op, args, args[-1].dtype)


def add(a: Term, b: Term) -> Term:
    return apply(Add(), a, b)


def subtract(a: Term, b: Term) -> Term:
    return apply(t.Subtract(), a, b)


def mul(*factors: Term) -> Term:
    """A product, from the left."""
    result = factors[0]
    for factor in factors[1:]:
        result = apply(Mul(), result, factor)
    return result


def negate(a: Term) -> Term:
    return mul(a, number(-1, a.dtype))


def recip(a: Term) -> Term:
    return apply(Recip(), a)


def divide(a: Term, b: Term) -> Term:
    return apply(t.Divide(), a, b)


def exp2(a: Term) -> Term:
    return apply(Exp2(), a)


def maximum(a: Term, b: Term) -> Term:
    return apply(t.Maximum(), a, b)


def less(a: Term, b: Term) -> Term:
    return t.term(LessThan(), (a, b), bool_)


def both(a: Term, b: Term) -> Term:
    return t.term(t.And(), (a, b), bool_)


def select(c: Term, a: Term) -> Term:
    return apply(t.Select(), c, a)


def otherwise(c: Term, a: Term, b: Term) -> Term:
    return apply(t.SelectElse(), c, a, b)


def sum_(body: Term, *axes: Axis) -> Term:
    return t.reduction(t.Sum(axes), body)


def max_(body: Term, *axes: Axis) -> Term:
    return t.reduction(t.Max(axes), body)
