"""What of a sum depends on its axes, and how: the form in which a sum may be taken in pieces before it is known what
the finished reductions in it are.

    Sum{J} body  =  outside · Sum{J} [condition] · weight · f(exponent + shift) · Π (value_k + centre_k)^power_k

`outside`, `shift` and the centres do not depend on J and may hold finished reductions over J; the condition, the weight,
the exponent and the values do and hold none.  `f` is an exponential.  A reason is given where a sum has no such form.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from snell.graph.primitives import Add, Exp2, Mul, Op, Recip, ScalarFunction
from snell.rewrite.arithmetic import add, applied, both, constant_of, divide, multiply, negative_infinity, scale
from snell.rewrite.rules.idioms import LOG2_E
from snell.rewrite.term import (
    Divide,
    Max,
    Reduction,
    Select,
    SelectElse,
    Subtract,
    Sum,
    Term,
    logical_not,
    number,
    walk,
)  # fmt: skip
from snell.symbolic import Axis

__all__ = ["Addend", "Base", "Separated", "holds_finished", "separate"]

_EXP = ScalarFunction("exp")
_EXP2 = ScalarFunction("exp2")


@dataclass(frozen=True, slots=True)
class Addend:
    """One part of a sum: `coefficient * value`."""

    coefficient: Fraction
    value: Term

    @property
    def term(self) -> Term:
        return scale(self.coefficient, self.value)


@dataclass(frozen=True, slots=True)
class Base:
    """A factor `(value + centre)^power`, the centre a sum of addends free of the axes."""

    value: Term
    centre: tuple[Addend, ...]
    power: int


@dataclass(frozen=True, slots=True)
class Separated:
    """A reduction over `axes` in the form above; parts that are absent are None or empty.

    For a maximum, `exponent` is what the maximum is taken of and `shift` what is added to it.
    """

    outside: Term
    condition: Term | None = None
    weight: Term | None = None
    function: Op | None = None
    exponent: Term | None = None
    shift: tuple[Addend, ...] = ()
    bases: tuple[Base, ...] = ()


class _InseparableError(Exception):
    """The reason why a reduction has no separated form."""


def holds_finished(item: Term, axes: frozenset[Axis]) -> bool:
    """Whether a reduction over exactly `axes`, which does not depend on them, lies in the term."""
    return any(
        isinstance(part.op, Reduction) and frozenset(part.op.axes) == axes and not part.free & axes
        for part in walk(item)
    )


def separate(reduction: Term, axes: frozenset[Axis]) -> Separated | str:
    """The separated form of a reduction over `axes`, or why there is none."""
    body = reduction.args[0]
    try:
        match reduction.op:
            case Sum():
                return _separated_sum(body, axes)
            case Max():
                return _separated_max(body, axes)
            case _:
                return f"{type(reduction.op).__name__} is no sum or maximum"
    except _InseparableError as reason:
        return str(reason)


def _separated_max(body: Term, axes: frozenset[Axis]) -> Separated:
    parts = _Parts(axes)
    dependent, free = parts.split(body)
    return Separated(number(1, body.dtype), exponent=dependent, shift=tuple(free))


def _separated_sum(body: Term, axes: frozenset[Axis]) -> Separated:
    if not body.dtype.is_float:
        if holds_finished(body, axes):
            raise _InseparableError(f"a sum of {body.dtype} has no moments")
        return Separated(number(1, body.dtype), weight=body)
    parts = _Parts(axes)
    parts.factor(body)
    return parts.separated(body)


@dataclass(slots=True)
class _Parts:
    """The parts of a product while it is walked."""

    axes: frozenset[Axis]
    outside: list[Term] = field(default_factory=list[Term])
    divisors: list[Term] = field(default_factory=list[Term])
    weights: list[Term] = field(default_factory=list[Term])
    condition: Term | None = None
    exponents: list[tuple[Op, Term]] = field(default_factory=list[tuple[Op, Term]])
    bases: dict[tuple[Term, tuple[Addend, ...]], int] = field(
        default_factory=dict[tuple[Term, tuple[Addend, ...]], int]
    )

    def factor(self, item: Term) -> None:
        """Take in one factor of the body."""
        if not item.free & self.axes:
            self.outside.append(item)
            return
        match item.op:
            case Mul():
                for argument in item.args:
                    self.factor(argument)
            case Select():
                self.condition = both(self.condition, self._plain(item.args[0], "a condition"))
                self.factor(item.args[1])
            case Divide() if not item.args[1].free & self.axes:
                self.divisors.append(item.args[1])
                self.factor(item.args[0])
            case Divide():
                self.weights.append(applied(Recip(), self._plain(item.args[1], "a divisor")))
                self.factor(item.args[0])
            case Exp2():
                self.exponents.append((Exp2(), item.args[0]))
            case ScalarFunction() if item.op in (_EXP, _EXP2):
                self.exponents.append((_EXP if item.op == _EXP else Exp2(), item.args[0]))
            case _ if holds_finished(item, self.axes):
                self._base(item)
            case _:
                self.weights.append(item)

    def _plain(self, item: Term, what: str) -> Term:
        if item.free & self.axes and holds_finished(item, self.axes):
            raise _InseparableError(f"{what} depends on a finished reduction: {item}")
        return item

    def _base(self, item: Term) -> None:
        """A factor `k·value + centre` as `k · (value + centre/k)`, so that equal values are recognised."""
        dependent, free = self._addends(item, Fraction(1))
        if len(dependent) == 1:
            factor = dependent[0].coefficient
            value = dependent[0].value
        else:
            factor = Fraction(1)
            value = _total(dependent)
        if factor == 0:
            raise _InseparableError(f"a factor is multiplied by 0: {item}")
        if factor != 1:
            self.outside.append(number(factor, item.dtype))
        centre = tuple(Addend(part.coefficient / factor, part.value) for part in free)
        self.bases[value, centre] = self.bases.get((value, centre), 0) + 1

    def split(self, item: Term) -> tuple[Term, list[Addend]]:
        """A sum as what depends on the axes and what does not."""
        dependent, free = self._addends(item, Fraction(1))
        return (_total(dependent) if dependent else number(0, item.dtype)), free

    def _addends(self, item: Term, factor: Fraction) -> tuple[list[Addend], list[Addend]]:
        """Addends that depend on the axes, and those that do not.  Only sums that hide a finished reduction are opened:
        what the program reduces stays the same term wherever it occurs."""
        if not item.free & self.axes:
            return [], [Addend(factor, item)]
        if not holds_finished(item, self.axes):
            return [Addend(factor, item)], []
        match item.op:
            case Add() | Subtract():
                sign = -1 if isinstance(item.op, Subtract) else 1
                left = self._addends(item.args[0], factor)
                right = self._addends(item.args[1], sign * factor)
                return left[0] + right[0], left[1] + right[1]
            case Mul():
                return self._product_addends(item, factor)
            case Divide() if not item.args[1].free & self.axes:
                divisor = self._plain_divisor(item.args[1])
                dependent, free = self._addends(item.args[0], factor)
                return (
                    [Addend(part.coefficient, divide(part.value, divisor)) for part in dependent],
                    [Addend(part.coefficient, divide(part.value, divisor)) for part in free],
                )
            case _:
                raise _InseparableError(f"{type(item.op).__name__} of a finished reduction: {item}")

    def _plain_divisor(self, item: Term) -> Term:
        if holds_finished(item, self.axes):
            raise _InseparableError(f"what depends on the axes is divided by a finished reduction: {item}")
        return item

    def _product_addends(self, item: Term, factor: Fraction) -> tuple[list[Addend], list[Addend]]:
        for outer, inner in (item.args, item.args[::-1]):
            if outer.free & self.axes:
                continue
            constant = constant_of(outer)
            if constant is not None:
                return self._addends(inner, factor * constant)
            self._plain_divisor(outer)
            dependent, free = self._addends(inner, factor)
            return (
                [Addend(p.coefficient, multiply(outer, p.value)) for p in dependent],
                [Addend(p.coefficient, multiply(outer, p.value)) for p in free],
            )
        raise _InseparableError(f"a product of what depends on the axes and a finished reduction: {item}")

    def separated(self, body: Term) -> Separated:
        function, exponent, shift = self._exponent()
        outside = number(1, body.dtype)
        for item in self.outside:
            outside = multiply(outside, item)
        for item in self.divisors:
            outside = divide(outside, item)
        weight = None
        for item in self.weights:
            weight = item if weight is None else multiply(weight, item)
        bases = tuple(Base(value, centre, power) for (value, centre), power in self.bases.items())
        return Separated(outside, self.condition, weight, function, exponent, shift, bases)

    def _exponent(self) -> tuple[Op | None, Term | None, tuple[Addend, ...]]:
        """All exponentials as one: in their own base where they share it, else in base 2."""
        if not self.exponents:
            return None, None, ()
        functions = {type(function) for function, _ in self.exponents}
        function = self.exponents[0][0] if len(functions) == 1 else Exp2()
        dependent: list[Addend] = []
        free: list[Addend] = []
        for own, item in self.exponents:
            item = self._unmasked(item)
            factor = LOG2_E if own != function else Fraction(1)
            found = self._addends(item, factor)
            dependent += found[0]
            free += found[1]
        return function, _total(dependent), tuple(free)

    def _unmasked(self, item: Term) -> Term:
        """`x` of `where(c, x, -inf)` with c as a condition, where x hides a finished reduction."""
        while isinstance(item.op, SelectElse) and holds_finished(item, self.axes):
            condition, first, second = item.args
            least = negative_infinity(item)
            if least not in (first, second):
                break
            keep = condition if second is least else logical_not(condition)
            self.condition = both(self.condition, self._plain(keep, "a condition"))
            item = first if second is least else second
        return item


def _total(addends: list[Addend]) -> Term:
    result = addends[0].term
    for part in addends[1:]:
        result = add(result, part.term)
    return result
