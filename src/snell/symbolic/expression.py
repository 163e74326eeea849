"""Canonical integer expressions: the one place where index arithmetic lives.

An `Expr` is a polynomial with integer coefficients over atoms: axes (loop or tensor coordinates), dims (run-time
sizes), floor divisions, remainders and opaque values (loaded integers).  Two equal polynomials are the same value:
terms are kept sorted and zero terms are dropped.  Division has floor semantics everywhere, so negative operands are
safe.  Simplification uses only the ranges of the atoms themselves, hence it is sound for masked (out-of-range) reads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from snell.symbolic.interval import divided, exact, multiplied, scaled

__all__ = ["Axis", "Dim", "Expr", "FloorDiv", "Integer", "Opaque", "Remainder", "as_expr", "as_size", "product"]


class _Arithmetic:
    """Operators shared by atoms and expressions; every result is a canonical `Expr`."""

    __slots__ = ()

    def __add__(self, other: Integer) -> Expr:
        return _add(as_expr(self), as_expr(other))

    __radd__ = __add__

    def __sub__(self, other: Integer) -> Expr:
        return _add(as_expr(self), _scale(as_expr(other), -1))

    def __rsub__(self, other: Integer) -> Expr:
        return _add(as_expr(other), _scale(as_expr(self), -1))

    def __neg__(self) -> Expr:
        return _scale(as_expr(self), -1)

    def __mul__(self, other: Integer) -> Expr:
        return _multiply(as_expr(self), as_expr(other))

    __rmul__ = __mul__

    def __floordiv__(self, other: Integer) -> Expr:
        return _floor_divide(as_expr(self), as_expr(other))

    def __mod__(self, other: Integer) -> Expr:
        numerator, divisor = as_expr(self), as_expr(other)
        return _remainder(numerator, divisor)


@dataclass(frozen=True, slots=True)
class Dim(_Arithmetic):
    """A symbolic size, an argument of the compiled program: `min <= value <= max`, a multiple of `multiple`."""

    name: str
    min: int = 1
    max: int = 1 << 31
    multiple: int = 1
    typical: tuple[int, ...] = ()

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Axis(_Arithmetic):
    """A coordinate that runs over `0 <= value < extent`."""

    name: str
    extent: int | Expr

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Opaque(_Arithmetic):
    """A run-time integer the algebra does not look into (a loaded index), known to lie in `lower..upper`."""

    key: Hashable
    lower: int
    upper: int
    axes: frozenset[Axis] = frozenset()

    def __str__(self) -> str:
        return f"<{self.key}>"


@dataclass(frozen=True, slots=True)
class FloorDiv(_Arithmetic):
    """`floor(numerator / divisor)` that did not simplify."""

    numerator: Expr
    divisor: Expr

    def __str__(self) -> str:
        return f"({self.numerator}) // ({self.divisor})"


@dataclass(frozen=True, slots=True)
class Remainder(_Arithmetic):
    """`numerator mod divisor` with the sign of the divisor, that did not simplify."""

    numerator: Expr
    divisor: Expr

    def __str__(self) -> str:
        return f"({self.numerator}) % ({self.divisor})"


Atom = Dim | Axis | Opaque | FloorDiv | Remainder
Monomial = tuple[Atom, ...]


class Expr(_Arithmetic):
    """A sum of integer multiples of products of atoms, plus a constant.  Immutable and hashable."""

    __slots__ = ("_hash", "constant", "terms")

    terms: tuple[tuple[Monomial, int], ...]
    constant: int

    def __init__(self, terms: tuple[tuple[Monomial, int], ...], constant: int) -> None:
        object.__setattr__(self, "terms", terms)
        object.__setattr__(self, "constant", constant)
        object.__setattr__(self, "_hash", hash((terms, constant)))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Expr is immutable; cannot set {name}")

    def __reduce__(self) -> tuple[Any, ...]:
        return (Expr, (self.terms, self.constant))

    def __hash__(self) -> int:
        return self._hash  # type: ignore[no-any-return, attr-defined]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int):
            return not self.terms and self.constant == other
        return isinstance(other, Expr) and self.constant == other.constant and self.terms == other.terms

    def __str__(self) -> str:
        parts = [_show_term(monomial, coefficient) for monomial, coefficient in self.terms]
        if self.constant or not parts:
            parts.append(str(self.constant))
        return " + ".join(parts).replace("+ -", "- ")

    def __repr__(self) -> str:
        return f"Expr({self})"

    @property
    def is_constant(self) -> bool:
        return not self.terms

    def atoms(self) -> frozenset[Atom]:
        """Every atom, those inside divisions and remainders included."""
        return _atoms(self)

    def axes(self) -> frozenset[Axis]:
        """The axes the value depends on (those of opaque values included)."""
        found: set[Axis] = set()
        for atom in self.atoms():
            if isinstance(atom, Axis):
                found.add(atom)
            elif isinstance(atom, Opaque):
                found |= atom.axes
        return frozenset(found)

    def dims(self) -> frozenset[Dim]:
        """The run-time sizes the value depends on."""
        return frozenset(atom for atom in self.atoms() if isinstance(atom, Dim))

    def coefficient(self, atom: Atom) -> int:
        """The constant coefficient of a lone atom, 0 when absent."""
        return next((c for monomial, c in self.terms if monomial == (atom,)), 0)

    def is_affine_in(self, axis: Axis) -> bool:
        """True when the axis occurs only as a lone atom (never inside a product, division or opaque value)."""
        for monomial, _ in self.terms:
            if monomial == (axis,):
                continue
            if any(axis in as_expr(atom).axes() for atom in monomial):
                return False
        return True

    def substitute(self, mapping: Mapping[Atom, Integer]) -> Expr:
        """Replace atoms by expressions, re-simplifying everything above them."""
        if not mapping or not (self.atoms() & mapping.keys()):
            return self
        return self.map_atoms(lambda atom: mapping.get(atom))

    def map_atoms(self, replace: Callable[[Atom], Integer | None]) -> Expr:
        """Rebuild with each leaf atom replaced where `replace` returns a value."""
        return _sum([(self._rebuilt_monomial(m, replace), c) for m, c in self.terms], self.constant)

    @staticmethod
    def _rebuilt_monomial(monomial: Monomial, replace: Callable[[Atom], Integer | None]) -> Expr:
        term = _replaced(monomial[0], replace)
        for atom in monomial[1:]:
            term = _multiply(term, _replaced(atom, replace))
        return term

    def bounds(self) -> tuple[float, float]:
        """Numeric interval that holds every value; ±inf where unbounded."""
        return _bounds(self)

    def is_non_negative(self) -> bool:
        """True when `self >= 0` is proved for all axis values and all sizes."""
        return _proves_non_negative(self)

    def evaluate(self, values: Mapping[Any, Any]) -> Any:
        """Value with atoms taken from `values` (Python integers or NumPy integer arrays)."""
        total: Any = self.constant
        for monomial, coefficient in self.terms:
            term: Any = coefficient
            for atom in monomial:
                term = term * _evaluate_atom(atom, values)
            total = total + term
        return total


Integer = int | Expr | Dim | Axis | Opaque | FloorDiv | Remainder


@lru_cache(maxsize=1 << 16)
def _constant(value: int) -> Expr:
    return Expr((), value)


def as_expr(value: object) -> Expr:
    """Lift an integer or atom to an expression."""
    kind = type(value)
    if kind is Expr:
        return value  # type: ignore[return-value]
    if kind is int:
        return _constant(value)  # type: ignore[arg-type]
    if kind in _ATOMS:
        return _lifted(value)  # type: ignore[arg-type]
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"expected an integer, Dim or Expr, received {type(value).__name__}: {value!r}")
    return _constant(int(value))  # type: ignore[call-overload]


_ATOMS = frozenset({Dim, Axis, Opaque, FloorDiv, Remainder})


@lru_cache(maxsize=1 << 16)
def _lifted(atom: Atom) -> Expr:
    if isinstance(atom, Axis) and atom.extent == 1:
        return _constant(0)
    return Expr((((atom,), 1),), 0)


def as_size(value: Integer) -> int | Expr:
    """An `int` where the value is known, else the expression: the normal form of a shape entry."""
    expression = as_expr(value)
    return expression.constant if expression.is_constant else expression


def product(sizes: Iterator[Integer] | tuple[Integer, ...] | list[Integer]) -> Expr:
    """Product of sizes, 1 for none."""
    result = as_expr(1)
    for size in sizes:
        result = _multiply(result, as_expr(size))
    return result


@lru_cache(maxsize=1 << 16)
def _atom_key(atom: Atom) -> tuple[str, str]:
    return (type(atom).__name__, str(atom))


def _monomial_key(monomial: Monomial) -> tuple[tuple[str, str], ...]:
    return tuple(_atom_key(atom) for atom in monomial)


def _build(coefficients: dict[Monomial, int], constant: int) -> Expr:
    kept = [(monomial, c) for monomial, c in coefficients.items() if c]
    if len(kept) > 1:
        kept.sort(key=lambda item: _monomial_key(item[0]))
    return Expr(tuple(kept), constant)


def _add(a: Expr, b: Expr) -> Expr:
    if not a.terms and not a.constant:
        return b
    if not b.terms and not b.constant:
        return a
    return _sum([(a, 1), (b, 1)], 0)


def _sum(parts: list[tuple[Expr, int]], constant: int) -> Expr:
    """The sum of multiples of expressions, split indices rejoined."""
    coefficients: dict[Monomial, int] = {}
    for expression, factor in parts:
        constant += expression.constant * factor
        for monomial, coefficient in expression.terms:
            coefficients[monomial] = coefficients.get(monomial, 0) + coefficient * factor
    total = _build(coefficients, constant)
    if any(type(atom) is Remainder for monomial, _ in total.terms for atom in monomial):
        return _rejoined(total)
    return total


def _rejoined(total: Expr) -> Expr:
    """`d*(x // d) + x % d = x`, also under a common factor: a split index that comes back together."""
    present = dict(total.terms)
    for monomial, coefficient in total.terms:
        for atom in monomial:
            if not isinstance(atom, Remainder):
                continue
            factor = Expr(((_divide_monomial(monomial, (atom,)) or (), 1),), 0) if len(monomial) > 1 else _constant(1)
            multiple = _multiply(_floor_divide(atom.numerator, atom.divisor) * atom.divisor, factor) * coefficient
            if multiple.terms and all(present.get(m) == c for m, c in multiple.terms) and not multiple.constant:
                split = _add_terms(multiple, Expr(((monomial, coefficient),), 0))
                return _add(_add_terms(total, _scale(split, -1)), _multiply(atom.numerator, factor) * coefficient)
    return total


def _add_terms(a: Expr, b: Expr) -> Expr:
    coefficients = dict(a.terms)
    for monomial, coefficient in b.terms:
        coefficients[monomial] = coefficients.get(monomial, 0) + coefficient
    return _build(coefficients, a.constant + b.constant)


def _scale(a: Expr, factor: int) -> Expr:
    if factor == 1:
        return a
    if factor == 0:
        return _constant(0)
    return Expr(tuple((m, c * factor) for m, c in a.terms), a.constant * factor)


def _multiply(a: Expr, b: Expr) -> Expr:
    if not b.terms:
        return _scale(a, b.constant)
    if not a.terms:
        return _scale(b, a.constant)
    coefficients: dict[Monomial, int] = {}
    for left, x in (*a.terms, ((), a.constant)):
        for right, y in (*b.terms, ((), b.constant)):
            monomial = tuple(sorted(left + right, key=_atom_key))
            coefficients[monomial] = coefficients.get(monomial, 0) + x * y
    constant = coefficients.pop((), 0)
    return _build(coefficients, constant)


def _split_multiples(numerator: Expr, divisor: Expr) -> tuple[Expr, Expr]:
    """`numerator = quotient*divisor + rest`, moving every term that the divisor divides exactly into the quotient."""
    if not divisor.terms:
        d = divisor.constant
        quotient = {m: c // d for m, c in numerator.terms if c % d == 0}
        rest = {m: c for m, c in numerator.terms if c % d}
        constant_quotient, constant_rest = divmod(numerator.constant, d)
        return _build(quotient, constant_quotient), _build(rest, constant_rest)
    if len(divisor.terms) != 1 or divisor.constant:
        return _split_polynomial(numerator, divisor)
    pattern, d = divisor.terms[0]
    quotient_terms: dict[Monomial, int] = {}
    rest_terms: dict[Monomial, int] = {}
    for monomial, coefficient in numerator.terms:
        left = _divide_monomial(monomial, pattern)
        if left is None or coefficient % d:
            rest_terms[monomial] = coefficient
        else:
            quotient_terms[left] = quotient_terms.get(left, 0) + coefficient // d
    constant_quotient = quotient_terms.pop((), 0)
    return _build(quotient_terms, constant_quotient), _build(rest_terms, numerator.constant)


def _split_polynomial(numerator: Expr, divisor: Expr) -> tuple[Expr, Expr]:
    """Long division by the divisor's leading term, kept only while it makes the numerator smaller."""
    (pattern, d) = divisor.terms[0]
    quotient, rest = _constant(0), numerator
    for _ in range(8):
        step = next(
            (
                _build({left: c // d}, 0) if left else _constant(c // d)
                for monomial, c in rest.terms
                if c % d == 0 and (left := _divide_monomial(monomial, pattern)) is not None
            ),
            None,
        )
        if step is None:
            break
        reduced = rest - step * divisor
        if len(reduced.terms) > len(rest.terms):
            break
        quotient, rest = quotient + step, reduced
    return quotient, rest


def _divide_monomial(monomial: Monomial, pattern: Monomial) -> Monomial | None:
    left = list(monomial)
    for atom in pattern:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def _is_within(rest: Expr, divisor: Expr) -> bool:
    """True when `0 <= rest < divisor` is proved; a divisor is not 0, so sizes that are its factors are at least 1."""
    if not rest.is_non_negative():
        return False
    gap = divisor - rest - 1
    if gap.is_non_negative():
        return True
    monomial = divisor.terms[0][0] if len(divisor.terms) == 1 else ()
    factors = {atom for atom in monomial if isinstance(atom, Dim) and atom.min == 0}
    positive = {dim: as_expr(Dim(dim.name, 1, dim.max, dim.multiple)) for dim in factors}
    return bool(positive) and gap.substitute(positive).is_non_negative()  # type: ignore[arg-type]


@lru_cache(maxsize=1 << 16)
def _floor_divide(numerator: Expr, divisor: Expr) -> Expr:
    if divisor == 1:
        return numerator
    if not divisor.terms and divisor.constant == 0:
        raise ZeroDivisionError("index expression divided by 0")
    if numerator == divisor and (divisor - 1).is_non_negative():
        return _constant(1)
    quotient, rest = _split_multiples(numerator, divisor)
    if _is_within(rest, divisor):
        return quotient
    merged = _merge_nested_division(rest, divisor)
    return quotient + (merged if merged is not None else _reduced_division(rest, divisor))


def _merge_nested_division(rest: Expr, divisor: Expr) -> Expr | None:
    """`(n // a) // b = n // (a*b)` for positive divisors."""
    if len(rest.terms) == 1 and not rest.constant:
        (monomial, coefficient) = rest.terms[0]
        if coefficient == 1 and len(monomial) == 1 and isinstance(monomial[0], FloorDiv):
            return _floor_divide(monomial[0].numerator, monomial[0].divisor * divisor)
    return None


def _factor_candidates(numerator: Expr, divisor: Expr) -> list[Expr]:
    """Proper factors of a one-term divisor by which part of the numerator is divisible, largest first."""
    if len(divisor.terms) > 1 or (divisor.terms and divisor.constant):
        return []
    monomial: Monomial = divisor.terms[0][0] if divisor.terms else ()
    content = divisor.terms[0][1] if divisor.terms else divisor.constant
    numbers = {math.gcd(content, coefficient) for _, coefficient in numerator.terms}
    dims = [atom for atom in monomial if isinstance(atom, Dim)]
    factors = [_constant(n) for n in sorted(numbers, reverse=True) if n > 1]
    factors += [as_expr(dim) * n for dim in dims for n in sorted({1, *numbers}, reverse=True)]
    return [factor for factor in factors if factor != divisor]


def _peel(numerator: Expr, divisor: Expr) -> tuple[Expr, Expr, Expr] | None:
    """`numerator = factor*q + r` with `0 <= r < factor` and `factor` dividing the divisor: (factor, q, r)."""
    for factor in _factor_candidates(numerator, divisor):
        quotient, rest = _split_multiples(numerator, factor)
        if quotient.terms and _is_within(rest, factor):
            return factor, quotient, rest
    return None


def _reduced_division(rest: Expr, divisor: Expr) -> Expr:
    """`(f*q + r) // (f*d) = q // d` where r is too small to matter, else an irreducible division."""
    if not rest.terms and not divisor.terms:
        return _constant(rest.constant // divisor.constant)
    peeled = _peel(rest, divisor)
    if peeled is not None:
        factor, quotient, _ = peeled
        return _floor_divide(quotient, _split_multiples(divisor, factor)[0])
    return _lifted(FloorDiv(rest, divisor))


@lru_cache(maxsize=1 << 16)
def _remainder(numerator: Expr, divisor: Expr) -> Expr:
    if divisor == 1:
        return _constant(0)
    _, rest = _split_multiples(numerator, divisor)
    if _is_within(rest, divisor):
        return rest
    if not rest.terms and not divisor.terms:
        return _constant(rest.constant % divisor.constant)
    if len(rest.terms) == 1 and not rest.constant and not divisor.terms:
        (monomial, coefficient) = rest.terms[0]
        if coefficient == 1 and len(monomial) == 1 and isinstance(monomial[0], Remainder):
            inner = monomial[0]
            if inner.divisor.is_constant and inner.divisor.constant % divisor.constant == 0:
                return _remainder(inner.numerator, divisor)
    peeled = _peel(rest, divisor)
    if peeled is not None:
        factor, quotient, small = peeled
        return factor * _remainder(quotient, _split_multiples(divisor, factor)[0]) + small
    return _lifted(Remainder(rest, divisor))


@lru_cache(maxsize=1 << 16)
def _atoms(expression: Expr) -> frozenset[Atom]:
    found: set[Atom] = set()
    for monomial, _ in expression.terms:
        for atom in monomial:
            found.add(atom)
            if isinstance(atom, FloorDiv | Remainder):
                found |= atom.numerator.atoms() | atom.divisor.atoms()
            elif isinstance(atom, Axis) and isinstance(atom.extent, Expr):
                found |= {a for a in atom.extent.atoms() if isinstance(a, Dim)}
    return frozenset(found)


def _replaced(atom: Atom, replace: Callable[[Atom], Integer | None]) -> Expr:
    value = replace(atom)
    if value is not None:
        return as_expr(value)
    match atom:
        case FloorDiv(numerator, divisor):
            return _floor_divide(numerator.map_atoms(replace), divisor.map_atoms(replace))
        case Remainder(numerator, divisor):
            return _remainder(numerator.map_atoms(replace), divisor.map_atoms(replace))
        case _:
            return _lifted(atom)


@lru_cache(maxsize=1 << 16)
def _bounds(expression: Expr) -> tuple[float, float]:
    low: float = expression.constant
    high: float = expression.constant
    for monomial, coefficient in expression.terms:
        interval = (1.0, 1.0)
        for atom in monomial:
            interval = multiplied(interval, _atom_bounds(atom))
        a, b = (scaled(interval[0], coefficient), scaled(interval[1], coefficient))
        low, high = low + min(a, b), high + max(a, b)
    return exact(low), exact(high)


def _atom_bounds(atom: Atom) -> tuple[float, float]:
    match atom:
        case Dim():
            return atom.min, atom.max
        case Axis():
            return 0, max(0, as_expr(atom.extent).bounds()[1] - 1)
        case Opaque():
            return atom.lower, atom.upper
        case FloorDiv(numerator, divisor):
            return divided(numerator.bounds(), divisor.bounds())
        case Remainder(_, divisor):
            low, high = divisor.bounds()
            return (0, high - 1) if low > 0 else (-math.inf, math.inf)


@lru_cache(maxsize=1 << 16)
def _proves_non_negative(expression: Expr) -> bool:
    """Eliminate axes at their worst end (extents may be symbolic), then bound what is left over the dims."""
    if expression.bounds()[0] >= 0:
        return True
    worst = expression
    for axis in sorted(expression.axes(), key=str):
        if not worst.is_affine_in(axis):
            worst = _eliminate_products(worst, axis)
            continue
        coefficient = worst.coefficient(axis)
        worst = worst.substitute({axis: 0 if coefficient >= 0 else as_expr(axis.extent) - 1})
    return worst.bounds()[0] >= 0


def _eliminate_products(expression: Expr, axis: Axis) -> Expr:
    """An axis multiplied by sizes (a symbolic stride): take its worst end when all its products have one sign."""
    signs = {c > 0 for monomial, c in expression.terms if axis in monomial}
    inside = any(axis not in m and any(axis in as_expr(a).axes() for a in m) for m, _ in expression.terms)
    others_fixed = all(
        all(a == axis or (isinstance(a, Dim) and a.min >= 0) for a in m) for m, _ in expression.terms if axis in m
    )
    if len(signs) != 1 or inside or not others_fixed:
        return expression
    return expression.substitute({axis: 0 if signs == {True} else as_expr(axis.extent) - 1})


def _evaluate_atom(atom: Atom, values: Mapping[Any, Any]) -> Any:
    if atom in values:
        return values[atom]
    match atom:
        case FloorDiv(numerator, divisor):
            return numerator.evaluate(values) // divisor.evaluate(values)
        case Remainder(numerator, divisor):
            return numerator.evaluate(values) % divisor.evaluate(values)
        case _:
            raise KeyError(f"no value given for {atom}")


def _show_term(monomial: Monomial, coefficient: int) -> str:
    body = "*".join(f"({atom})" if isinstance(atom, FloorDiv | Remainder) else str(atom) for atom in monomial)
    return body if coefficient == 1 else f"{coefficient}*{body}"
