"""Index expressions at the current positions: from `symbolic.Expr` to linear forms, and to i64 scalars and vectors."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd, inf
from typing import assert_never

from snell.codegen.assembler import Value
from snell.codegen.instructions import Instructions, Scalar
from snell.codegen.linear import Fact, Linear
from snell.codegen.position import Dynamic, Extent, Position, Positions
from snell.dtypes import i64
from snell.errors import CompileError
from snell.rewrite.term import Term
from snell.symbolic import Axis, Dim, Expr, FloorDiv, Opaque, Remainder, as_expr
from snell.symbolic.expression import Atom

__all__ = ["Indexing", "Origin"]

# Positions of the axes where a local buffer was allocated.
Origin = dict[Axis, Position]


class Indexing:
    """Evaluates index expressions; `evaluate` gives the value of a term inside an opaque index (a gather)."""

    def __init__(self, code: Instructions, positions: Positions, evaluate: Callable[[Term], Value]) -> None:
        self.code = code
        self.positions = positions
        self.facts: dict[str, Fact] = {}
        self.sizes: dict[Dim, str] = {}
        self._exact: dict[str, tuple[str, int]] = {}
        self._evaluate = evaluate

    # -- expressions to linear forms

    def linear(self, expression: Expr, origin: Origin | None = None) -> Linear:
        """The expression's value here; with an origin, axes count from the origin's position."""
        total = Linear.known(expression.constant)
        for monomial, coefficient in expression.terms:
            part = self._atom(monomial[0], origin)
            for atom in monomial[1:]:
                part = self.multiply(part, self._atom(atom, origin))
            total = self.add(total, self.scale(part, coefficient))
        return total

    def _atom(self, atom: Atom, origin: Origin | None) -> Linear:
        match atom:
            case Axis():
                return self._axis(atom, origin)
            case Dim():
                return self._dim(atom)
            case Opaque():
                return self._opaque(atom)
            case FloorDiv(numerator, divisor):
                return self.floor_divide(self.linear(numerator, origin), self.linear(divisor, origin))
            case Remainder(numerator, divisor):
                return self.remainder(self.linear(numerator, origin), self.linear(divisor, origin))
            case _:
                assert_never(atom)

    def _axis(self, axis: Axis, origin: Origin | None) -> Linear:
        position = self.positions.at.get(axis)
        if position is None:
            raise CompileError(f"axis {axis} is used outside of its loops; the schedule must bind it")
        terms, constant = position.terms, position.constant
        start = origin.get(axis) if origin is not None else None
        if start is not None:
            terms, constant = terms[len(start.terms) :], constant - start.constant
        lane = 1 if position.lanes else 0
        high: float = constant + (position.lanes - 1 if lane else 0)
        low: float = constant
        for name in terms:
            fact = self.facts[name]
            low, high = low + fact.low, high + fact.high
        if start is None:
            high = min(high, as_expr(axis.extent).bounds()[1] - 1)
        return Linear(constant, dict.fromkeys(terms, 1), low, max(low, high), lane)

    def _dim(self, dim: Dim) -> Linear:
        name = self.sizes.get(dim)
        if name is None:
            raise CompileError(f"size {dim} is used but is not among the kernel's dims; add it there")
        return Linear(0, {name: 1}, dim.min, dim.max)

    def _opaque(self, atom: Opaque) -> Linear:
        if not isinstance(atom.key, Term):
            raise CompileError(f"expected a term as the key of an opaque index, received {atom.key!r}")
        value = self._evaluate(atom.key)
        if value.dtype.bits < 64:
            value = self.code.convert("sext" if value.dtype.kind == "int" else "zext", value, i64)
        if value.lanes:
            return Linear(0, {}, atom.lower, atom.upper, 0, value)
        if not value.text.startswith("%"):
            return Linear.known(int(value.text))
        self.facts.setdefault(value.text, Fact(1, atom.lower, atom.upper))
        return Linear(0, {value.text: 1}, atom.lower, atom.upper)

    def base(self, axis: Axis) -> Linear:
        """Start of the axis's current range, lanes left out."""
        position = self.positions.at[axis]
        return Linear(position.constant, dict.fromkeys(position.terms, 1), -inf, inf)

    # -- arithmetic of linear forms

    def add(self, a: Linear, b: Linear) -> Linear:
        if a.vector is not None and b.vector is not None:
            vector = self.code.binary("add", a.vector, b.vector)
            a = Linear(a.constant, a.terms, a.low, a.high, a.lane)
            b = Linear(b.constant, b.terms, b.low, b.high, b.lane, vector)
        return a.plus(b)

    def scale(self, form: Linear, factor: int) -> Linear:
        if factor == 1:
            return form
        scaled = form.scaled(factor)
        if form.vector is not None and factor:
            scaled.vector = self.code.binary("mul", form.vector, self.code.constant(factor, i64, form.vector.lanes))
        return scaled

    def multiply(self, a: Linear, b: Linear) -> Linear:
        if b.is_constant:
            return self.scale(a, b.constant)
        if a.is_constant:
            return self.scale(b, a.constant)
        corners = [_product(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
        low, high = min(corners), max(corners)
        if a.is_scalar and b.is_scalar:
            name = self.code.integer("mul", self.scalar(a), self.scalar(b))
            return self._named(name, Fact(self.multiple(a) * self.multiple(b), low, high))
        x, y = self.vector(a), self.vector(b)
        return Linear(0, {}, low, high, 0, self.code.binary("mul", x, y))

    def multiple(self, form: Linear) -> int:
        """A number that divides the scalar part."""
        found = abs(form.constant)
        for name, k in form.terms.items():
            found = gcd(found, k * self.facts[name].multiple)
        return max(1, found)

    def floor_divide(self, numerator: Linear, divisor: Linear) -> Linear:
        if not divisor.is_constant or divisor.constant <= 0:
            return self._divide_generally(numerator, divisor)
        quotient, rest = self._split(numerator, divisor.constant)
        inner = self._rest_quotient(rest, divisor.constant)
        total = self.add(quotient, inner)
        if numerator.low > -inf and numerator.high < inf:
            total.low = numerator.low // divisor.constant
            total.high = numerator.high // divisor.constant
        return total

    def remainder(self, numerator: Linear, divisor: Linear) -> Linear:
        if not divisor.is_constant or divisor.constant <= 0:
            quotient = self._divide_generally(numerator, divisor)
            rest = self.add(numerator, self.scale(self.multiply(quotient, divisor), -1))
            rest.low, rest.high = 0, divisor.high - 1
            return rest
        d = divisor.constant
        _, rest = self._split(numerator, d)
        if rest.low // d == rest.high // d:
            shift = int(rest.low // d) * d
            return rest.plus(Linear.known(-shift))
        aligned, small = self._aligned(rest, d)
        if aligned is not None and small is not None:
            name = self._scalar_remainder(aligned, d)
            return self._named(name, Fact(gcd(self.multiple(aligned), d), 0, d - 1)).plus(small)
        if rest.is_scalar:
            return self._named(self._scalar_remainder(rest, d), Fact(1, 0, d - 1))
        return Linear(0, {}, 0, d - 1, 0, self._vector_remainder(self.vector(rest), d))

    def _split(self, form: Linear, d: int) -> tuple[Linear, Linear]:
        """`form = d·quotient + rest`, every part that is a multiple of d in the quotient."""
        quotient, rest = Linear(form.constant // d), Linear(form.constant % d)
        rest.low = rest.high = rest.constant
        for name, k in form.terms.items():
            fact = self.facts[name]
            if k % d == 0:
                quotient.terms[name] = k // d
            elif k * fact.multiple % d == 0:
                common = gcd(k, d)
                part = self._exact_quotient(name, d // common)
                quotient.terms[part] = quotient.terms.get(part, 0) + k // common
            else:
                rest.terms[name] = k
                rest.low += min(k * fact.low, k * fact.high)
                rest.high += max(k * fact.low, k * fact.high)
        if form.lane % d == 0:
            quotient.lane = form.lane // d
        else:
            rest.lane = form.lane
            reach = form.lane * (self.positions.lanes - 1)
            rest.low, rest.high = rest.low + min(0, reach), rest.high + max(0, reach)
        if form.vector is not None:
            rest.vector = form.vector
            rest.low, rest.high = -inf, inf
        return quotient, rest

    def _rest_quotient(self, rest: Linear, d: int) -> Linear:
        if rest.vector is None and rest.low // d == rest.high // d:
            return Linear.known(int(rest.low // d))
        aligned, _ = self._aligned(rest, d)
        scalar = aligned if aligned is not None else rest if rest.is_scalar else None
        if scalar is not None:
            name = self._scalar_quotient(scalar, d)
            return self._named(name, Fact(1, rest.low // d, rest.high // d))
        return Linear(0, {}, rest.low, rest.high, 0, self._vector_quotient(self.vector(rest), d))

    def _aligned(self, rest: Linear, d: int) -> tuple[Linear | None, Linear | None]:
        """Split a form with lanes into an aligned scalar and a small part that never carries over d."""
        if rest.vector is not None or not rest.lane:
            return None, None
        unit = gcd(d, *(k * self.facts[name].multiple for name, k in rest.terms.items()))
        small = rest.constant % unit
        reach = rest.lane * (self.positions.lanes - 1)
        if small + min(0, reach) < 0 or small + max(0, reach) >= unit:
            return None, None
        start = rest.constant - small
        aligned = Linear(start, rest.terms, rest.low - small, rest.high)
        return aligned, Linear(small, {}, small + min(0, reach), small + max(0, reach), rest.lane)

    def _divide_generally(self, numerator: Linear, divisor: Linear) -> Linear:
        low, high = _quotient_bounds(numerator, divisor)
        if numerator.is_scalar and divisor.is_scalar:
            n, d = self.scalar(numerator), self._divisor(divisor)
            if numerator.low >= 0 and divisor.low >= 0:
                name = self.code.scopes.emit_limited(f"udiv i64 {n}, {d}", 0, n, d, memory=True)
            else:
                name = self._floor_scalar(n, d)
            return self._named(name, Fact(1, low, high))
        if divisor.low < 0:
            raise CompileError("a division of lane positions by a run-time size needs the size to be non-negative")
        n = self.vector(numerator)
        given = Value(str(self._divisor(divisor)), i64) if divisor.is_scalar else self.vector(divisor)
        d = self.code.splat(given, n.lanes)
        quotient = self.code.binary("udiv", n, d) if numerator.low >= 0 else self._floor_vector(n, d)
        return Linear(0, {}, low, high, 0, quotient)

    def _divisor(self, divisor: Linear) -> Scalar:
        """A size that is 0 divides nothing that is used, but positions are computed before a range is found empty."""
        value = self.scalar(divisor)
        return self.code.clamp("smax", value, 1) if divisor.low == 0 else value

    def _floor_scalar(self, n: Scalar, d: Scalar) -> str:
        code = self.code
        quotient = code.scopes.emit_limited(f"sdiv i64 {n}, {d}", 0, n, d, memory=True)
        rest = code.integer("sub", n, code.integer("mul", quotient, d))
        zero = Value("0", i64)
        odd = code.compare("icmp", "ne", Value(str(rest), i64), zero)
        sign = code.binary("xor", Value(str(rest), i64), Value(str(d), i64))
        lower = code.binary("and", odd, code.compare("icmp", "slt", sign, zero))
        return code.binary("add", Value(quotient, i64), code.convert("sext", lower, i64)).text

    def _named(self, name: Scalar, fact: Fact) -> Linear:
        if isinstance(name, int):
            return Linear.known(name)
        self.facts.setdefault(name, fact)
        return Linear(0, {name: 1}, fact.low, fact.high)

    def _exact_quotient(self, name: str, d: int) -> str:
        """`name / d` where it is known to divide; remembered so that a later multiplication can undo it."""
        part = self.code.scopes.emit(f"sdiv exact i64 {name}, {d}", name)
        fact = self.facts[name]
        self.facts.setdefault(part, Fact(max(1, fact.multiple // d), fact.low // d, fact.high // d))
        self._exact.setdefault(part, (name, d))
        return part

    def _scalar_quotient(self, form: Linear, d: int) -> Scalar:
        value = self.scalar(form)
        if isinstance(value, int):
            return value // d
        if d & (d - 1) == 0:
            return self.code.scopes.emit(f"ashr i64 {value}, {d.bit_length() - 1}", value)
        if form.low >= 0:
            return self.code.scopes.emit(f"udiv i64 {value}, {d}", value)
        return self._floor_scalar(value, d)

    def _scalar_remainder(self, form: Linear, d: int) -> Scalar:
        value = self.scalar(form)
        if isinstance(value, int):
            return value % d
        if d & (d - 1) == 0:
            return self.code.scopes.emit(f"and i64 {value}, {d - 1}", value)
        quotient = self._scalar_quotient(form, d)
        return self.code.integer("sub", value, self.code.integer("mul", quotient, d))

    def _vector_quotient(self, value: Value, d: int) -> Value:
        code, lanes = self.code, value.lanes
        if d & (d - 1) == 0:
            return code.binary("ashr", value, code.constant(d.bit_length() - 1, i64, lanes))
        return self._floor_vector(value, code.constant(d, i64, lanes))

    def _floor_vector(self, value: Value, divisor: Value) -> Value:
        """Lanes divided by positive ones, rounded down."""
        code = self.code
        quotient = code.binary("sdiv", value, divisor)
        rest = code.binary("sub", value, code.binary("mul", quotient, divisor))
        lower = code.compare("icmp", "slt", rest, code.constant(0, i64, value.lanes))
        return code.binary("add", quotient, code.convert("sext", lower, i64))

    def _vector_remainder(self, value: Value, d: int) -> Value:
        code, lanes = self.code, value.lanes
        if d & (d - 1) == 0:
            return code.binary("and", value, code.constant(d - 1, i64, lanes))
        quotient = self._vector_quotient(value, d)
        return code.binary("sub", value, code.binary("mul", quotient, code.constant(d, i64, lanes)))

    # -- linear forms to instructions

    def parts(self, form: Linear) -> list[tuple[str, int]]:
        """Names and coefficients, outermost scopes first; exact divisions are undone where the coefficient allows."""
        merged: dict[str, int] = {}
        for name, k in form.terms.items():
            source = self._exact.get(name)
            while source is not None and k % source[1] == 0:
                name, k = source[0], k // source[1]
                source = self._exact.get(name)
            merged[name] = merged.get(name, 0) + k
        depth = self.code.scopes.depth
        return sorted(((name, k) for name, k in merged.items() if k), key=lambda item: depth(item[0]))

    def scalar(self, form: Linear) -> Scalar:
        """The scalar part as one i64; inner loops add to what outer ones computed."""
        total: Scalar = 0
        for name, k in self.parts(form):
            total = self.code.integer("add", total, self.code.integer("mul", name, k))
        return self.code.integer("add", total, form.constant)

    def vector(self, form: Linear) -> Value:
        """The whole form as an i64 vector of the current lanes."""
        lanes = self.positions.lanes
        if not lanes:
            raise CompileError("a lane-dependent index outside of a vector level")
        value = self.code.splat(Value(str(self.scalar(form)), i64), lanes)
        if form.lane:
            value = self.code.binary("add", value, self.code.steps(lanes, form.lane, i64))
        if form.vector is not None:
            value = self.code.binary("add", value, form.vector)
        return value

    def extent(self, size: int | Expr) -> Extent:
        """An axis's size as a range."""
        expression = as_expr(size)
        if expression.is_constant:
            return expression.constant
        form = self.linear(expression)
        name = self.scalar(form)
        top = expression.bounds()[1]
        maximum = 1 << 62 if top == inf else int(top)
        if isinstance(name, int):
            return name
        self.facts.setdefault(name, Fact(self.multiple(form), form.low, form.high))
        return Dynamic(name, maximum, multiple=self.multiple(form))


def _product(a: float, b: float) -> float:
    return 0 if a == 0 or b == 0 else a * b


def _quotient_bounds(numerator: Linear, divisor: Linear) -> tuple[float, float]:
    if divisor.low <= 0 or numerator.low < 0:
        return -inf, inf
    return 0, numerator.high if numerator.high == inf else numerator.high // divisor.low
