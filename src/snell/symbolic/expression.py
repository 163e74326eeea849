"""Canonical integer expressions: the one place where index arithmetic lives.

An `Expr` is a polynomial with integer coefficients over atoms: axes (loop or tensor coordinates), dims (run-time
sizes), floor divisions, remainders and opaque values (loaded integers).  Two equal polynomials are the same value:
terms are kept sorted and zero terms are dropped.  Division has floor semantics everywhere (`symbolic.division`), so negative
operands are safe.  A dim that is a multiple of m has one whole part, `n // m`, and `m*(n // m)` is n.  Simplification
uses only the ranges of the atoms themselves, hence it is sound for masked (out-of-range) reads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from numbers import Integral
from typing import TYPE_CHECKING, Any

from snell.symbolic.interval import divided, exact, multiplied, scaled

__all__ = [
    "Arithmetic", "Axis", "Dim", "Expr", "FloorDiv", "Integer", "Monomial", "Opaque", "Remainder", "as_expr", "as_size",
    "dim_of_whole_part", "divided_monomial", "in_whole_parts", "is_integer", "lifted", "polynomial", "product",
]  # fmt: skip


class Arithmetic:
    """Operators shared by atoms and expressions; every result is a canonical `Expr`.

    An operand that is no integer is asked for its own reflected operator: a size and a tensor make a tensor.
    """

    __slots__ = ()
    __array_ufunc__ = None  # NumPy arrays on the left leave the operator to us, which refuses them

    def __add__(self, other: Integer) -> Expr:
        return _add(as_expr(self), as_expr(other)) if is_integer(other) else NotImplemented

    __radd__ = __add__

    def __sub__(self, other: Integer) -> Expr:
        return _add(as_expr(self), _scale(as_expr(other), -1)) if is_integer(other) else NotImplemented

    def __rsub__(self, other: Integer) -> Expr:
        return _add(as_expr(other), _scale(as_expr(self), -1)) if is_integer(other) else NotImplemented

    def __neg__(self) -> Expr:
        return _scale(as_expr(self), -1)

    def __mul__(self, other: Integer) -> Expr:
        return _multiply(as_expr(self), as_expr(other)) if is_integer(other) else NotImplemented

    __rmul__ = __mul__

    if TYPE_CHECKING:  # attached by `snell.symbolic.division`

        def __floordiv__(self, other: Integer) -> Expr: ...
        def __rfloordiv__(self, other: Integer) -> Expr: ...
        def __mod__(self, other: Integer) -> Expr: ...
        def __rmod__(self, other: Integer) -> Expr: ...


@dataclass(frozen=True, slots=True)
class Dim(Arithmetic):
    """A symbolic size, an argument of the compiled program: `min <= value <= max`, a multiple of `multiple`."""

    name: str
    min: int = 1
    max: int = 1 << 31
    multiple: int = 1
    typical: tuple[int, ...] = ()

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Axis(Arithmetic):
    """A coordinate that runs over `0 <= value < extent`."""

    name: str
    extent: int | Expr

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Opaque(Arithmetic):
    """A run-time integer the algebra does not look into (a loaded index), known to lie in `lower..upper`."""

    key: Hashable
    lower: int
    upper: int
    axes: frozenset[Axis] = frozenset()

    def __str__(self) -> str:
        return f"<{self.key}>"


@dataclass(frozen=True, slots=True)
class FloorDiv(Arithmetic):
    """`floor(numerator / divisor)` that did not simplify."""

    numerator: Expr
    divisor: Expr

    def __str__(self) -> str:
        return f"({self.numerator}) // ({self.divisor})"


@dataclass(frozen=True, slots=True)
class Remainder(Arithmetic):
    """`numerator mod divisor` with the sign of the divisor, that did not simplify."""

    numerator: Expr
    divisor: Expr

    def __str__(self) -> str:
        return f"({self.numerator}) % ({self.divisor})"


Atom = Dim | Axis | Opaque | FloorDiv | Remainder
Monomial = tuple[Atom, ...]


class Expr(Arithmetic):
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
        if not isinstance(other, Expr):
            return NotImplemented
        return self.constant == other.constant and self.terms == other.terms

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

    def lone_axis(self) -> Axis | None:
        """The axis that the expression is, None where it is anything else."""
        if len(self.terms) == 1 and not self.constant:
            ((monomial, coefficient),) = self.terms
            if coefficient == 1 and len(monomial) == 1 and isinstance(monomial[0], Axis):
                return monomial[0]
        return None

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
        return lifted(value)  # type: ignore[arg-type]
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"expected an integer, Dim or Expr, received {type(value).__name__}: {value!r}")
    return _constant(int(value))  # type: ignore[call-overload]


def is_integer(value: object) -> bool:
    """Whether `as_expr` takes the value."""
    kind = type(value)
    return kind is int or kind is Expr or kind in _ATOMS or (isinstance(value, Integral) and kind is not bool)


_ATOMS = frozenset({Dim, Axis, Opaque, FloorDiv, Remainder})


@lru_cache(maxsize=1 << 16)
def lifted(atom: Atom) -> Expr:
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


def polynomial(coefficients: dict[Monomial, int], constant: int) -> Expr:
    """The sum of the terms, in canonical form."""
    if _holds_division(coefficients):
        coefficients = _joined_whole_parts(coefficients)
    kept = [(monomial, c) for monomial, c in coefficients.items() if c]
    if len(kept) > 1:
        kept.sort(key=lambda item: _monomial_key(item[0]))
    return Expr(tuple(kept), constant)


def _holds_division(monomials: Iterable[Monomial]) -> bool:
    return any(type(atom) is FloorDiv for monomial in monomials for atom in monomial)


def whole_part(dim: Dim) -> FloorDiv:
    """`n // m` of a dim that is a multiple of m."""
    return FloorDiv(lifted(dim), _constant(dim.multiple))


@lru_cache(maxsize=1 << 14)
def dim_of_whole_part(atom: Atom) -> Dim | None:
    """The dim whose whole part the atom is."""
    if type(atom) is not FloorDiv or len(atom.numerator.terms) != 1 or atom.numerator.constant:
        return None
    (dim, *more), coefficient = atom.numerator.terms[0]
    if more or coefficient != 1 or not isinstance(dim, Dim) or dim.multiple == 1:
        return None
    return dim if atom.divisor == dim.multiple else None


def in_whole_parts(monomial: Monomial, coefficient: int) -> tuple[Monomial, int]:
    """The term with every dim that is a multiple of m spelled m times its whole part."""
    if not any(type(atom) is Dim and atom.multiple > 1 for atom in monomial):
        return monomial, coefficient
    atoms: list[Atom] = []
    for atom in monomial:
        if isinstance(atom, Dim) and atom.multiple > 1:
            atoms.append(whole_part(atom))
            coefficient *= atom.multiple
        else:
            atoms.append(atom)
    return tuple(sorted(atoms, key=_atom_key)), coefficient


def _with_dims(monomial: Monomial, coefficient: int) -> tuple[Monomial, int]:
    """The reverse of `in_whole_parts`, as far as the coefficient is a multiple."""
    atoms = list(monomial)
    for place, atom in enumerate(monomial):
        dim = dim_of_whole_part(atom)
        if dim is not None and coefficient % dim.multiple == 0:
            atoms[place], coefficient = dim, coefficient // dim.multiple
    return tuple(sorted(atoms, key=_atom_key)), coefficient


def _joined_whole_parts(coefficients: dict[Monomial, int]) -> dict[Monomial, int]:
    """Terms counted in whole parts, so that `m*(n // m)` and n meet, and spelled with dims again where that is exact."""
    counts: dict[Monomial, int] = {}
    for monomial, coefficient in coefficients.items():
        whole, count = in_whole_parts(monomial, coefficient)
        counts[whole] = counts.get(whole, 0) + count
    return dict(_with_dims(monomial, count) for monomial, count in counts.items())


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
    total = polynomial(coefficients, constant)
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
            factor = Expr(((divided_monomial(monomial, (atom,)) or (), 1),), 0) if len(monomial) > 1 else _constant(1)
            multiple = _multiply((atom.numerator // atom.divisor) * atom.divisor, factor) * coefficient
            if multiple.terms and all(present.get(m) == c for m, c in multiple.terms) and not multiple.constant:
                split = _add_terms(multiple, Expr(((monomial, coefficient),), 0))
                return _add(_add_terms(total, _scale(split, -1)), _multiply(atom.numerator, factor) * coefficient)
    return total


def _add_terms(a: Expr, b: Expr) -> Expr:
    coefficients = dict(a.terms)
    for monomial, coefficient in b.terms:
        coefficients[monomial] = coefficients.get(monomial, 0) + coefficient
    return polynomial(coefficients, a.constant + b.constant)


def _scale(a: Expr, factor: int) -> Expr:
    if factor == 1:
        return a
    if factor == 0:
        return _constant(0)
    if _holds_division(monomial for monomial, _ in a.terms):
        return polynomial({m: c * factor for m, c in a.terms}, a.constant * factor)
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
    return polynomial(coefficients, constant)


def divided_monomial(monomial: Monomial, pattern: Monomial) -> Monomial | None:
    """The monomial without the atoms of the pattern, or None where it lacks one."""
    left = list(monomial)
    for atom in pattern:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


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
            return numerator.map_atoms(replace) // divisor.map_atoms(replace)
        case Remainder(numerator, divisor):
            return numerator.map_atoms(replace) % divisor.map_atoms(replace)
        case _:
            return lifted(atom)


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
            return -(-atom.min // atom.multiple) * atom.multiple, atom.max // atom.multiple * atom.multiple
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
