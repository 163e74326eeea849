"""Conditions of the form `expression >= 0`: dropped where they are proved, scalar where they can be, lanes else."""

from __future__ import annotations

from collections.abc import Iterable

from snell.codegen.assembler import Value
from snell.codegen.indexing import Indexing
from snell.codegen.instructions import Instructions, Scalar
from snell.codegen.linear import Linear
from snell.codegen.literals import type_text
from snell.codegen.position import Positions
from snell.dtypes import bool_, i32, i64
from snell.symbolic import Expr

__all__ = ["Condition", "Predicates"]

# Known, or an i1 value (scalar or lanes).
Condition = bool | Value

# Lane comparisons are made in 32 bits; limits are clamped to this, which changes no comparison with a lane's offset.
_NARROW = 1 << 30


class Predicates:
    """Evaluates guards and lane masks at the current position; `assumed` holds guards that the loops guarantee."""

    def __init__(self, code: Instructions, positions: Positions, indexing: Indexing) -> None:
        self.code = code
        self.positions = positions
        self.indexing = indexing
        self.assumed: list[Expr] = []

    def all(self, guards: Iterable[Expr]) -> Condition:
        """Conjunction of `guard >= 0`."""
        result: Condition = True
        for guard in guards:
            result = self.both(result, self.non_negative(guard))
            if result is False:
                return False
        return result

    def both(self, a: Condition, b: Condition) -> Condition:
        if isinstance(a, bool):
            return b if a else False
        if isinstance(b, bool):
            return a if b else False
        return self.code.binary("and", *self.code.join(a, b))

    def non_negative(self, expression: Expr) -> Condition:
        if expression in self.assumed or expression.is_non_negative():
            return True
        form = self.indexing.linear(expression)
        if form.low >= 0:
            return True
        if form.high < 0:
            return False
        if form.vector is not None:
            vector = self.indexing.vector(form)
            return self.code.compare("icmp", "sge", vector, self.code.constant(0, i64, vector.lanes))
        if form.lane:
            return self._lanes_reach(form)
        value = self.indexing.scalar(Linear(0, form.terms))
        if isinstance(value, int):
            return value >= -form.constant
        return self.code.compare("icmp", "sge", Value(value, i64), Value(str(-form.constant), i64))

    def _lanes_reach(self, form: Linear) -> Value:
        """`lane·k >= -base` for each lane."""
        base = self.indexing.scalar(Linear(form.constant, form.terms))
        limit = self._narrow(self.code.integer("sub", 0, base))
        lanes = self.positions.lanes
        return self.code.compare("icmp", "sge", self.code.steps(lanes, form.lane, i32), self.code.splat(limit, lanes))

    def below(self, count: Scalar, lanes: int) -> Value:
        """The mask of the first `count` lanes (a run-time count, possibly negative or large)."""
        limit = self.code.splat(self._narrow(count), lanes)
        return self.code.compare("icmp", "slt", self.code.steps(lanes, 1, i32), limit)

    def _narrow(self, value: Scalar) -> Value:
        clamped = self.code.clamp("smax", self.code.clamp("smin", value, _NARROW), -_NARROW)
        if isinstance(clamped, int):
            return Value(str(clamped), i32)
        return self.code.convert("trunc", Value(clamped, i64), i32)

    def lane_mask(self) -> Value | None:
        """The mask of the current vector level, or None when every lane is in range."""
        if self.positions.vector is None:
            return None
        position = self.positions.at[self.positions.vector]
        if position.mask is None:
            return None
        if isinstance(position.mask, int):
            return prefix_mask(position.lanes, position.mask)
        return Value(position.mask, bool_, position.lanes)


def prefix_mask(lanes: int, count: int) -> Value:
    """The constant mask of the first `count` lanes."""
    if count >= lanes:
        return Value(f"splat ({type_text(bool_, 0)} true)", bool_, lanes)
    return Value(f"<{', '.join(f'i1 {int(k < count)}' for k in range(lanes))}>", bool_, lanes)
