"""Value: an operand with arithmetic, so that formulas over primitives read as formulas."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from snell.dtypes import bool_
from snell.graph.node import Builder, Operand, full_view
from snell.graph.primitives import Add, Constant, LessThan, Mul, Op, Recip

__all__ = ["Number", "Value"]

Number = int | float | Fraction


class Value:
    """An operand and the builder in which what is computed from it is made."""

    def __init__(self, builder: Builder, operand: Operand) -> None:
        self.builder, self.seen = builder, operand

    def constant(self, value: Number) -> Value:
        scalar = full_view(self.builder.add(Constant(value, self.seen.dtype)))
        return Value(self.builder, Operand(scalar.node, scalar.view.expand(self.seen.shape)))

    def apply(self, op: Op, *others: Value | Number) -> Value:
        lifted = [other if isinstance(other, Value) else self.constant(other) for other in others]
        node = self.builder.add(op, [self.seen, *(value.seen for value in lifted)])
        return Value(self.builder, full_view(node))

    def __add__(self, other: Value | Number) -> Value:
        return self.apply(Add(), other)

    def __mul__(self, other: Value | Number) -> Value:
        return self.apply(Mul(), other)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Value:
        return self * -1

    def __sub__(self, other: Value | Number) -> Value:
        return self + (-other)

    def __rsub__(self, other: Number) -> Value:
        return -self + other

    def __truediv__(self, other: Value) -> Value:
        return self * other.apply(Recip())

    def __lt__(self, other: Value | Number) -> Value:
        return self.apply(LessThan(), other)

    def negated(self) -> Value:
        true = full_view(self.builder.add(Constant(1, bool_)))
        wide = Value(self.builder, Operand(true.node, true.view.expand(self.seen.shape)))
        return self.apply(LessThan(), wide)

    def choose(self, yes: Value, no: Value) -> Value:
        return self.apply(Mul(), yes) + self.negated().apply(Mul(), no)

    def magnitude(self) -> Value:
        return (self < 0).choose(-self, self)

    def polynomial(self, coefficients: Sequence[Number]) -> Value:
        """Horner's rule, constant term first."""
        result = self.constant(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            result = result * self + coefficient
        return result
