"""The inverse of an index map: which coordinates of a view read a given element of its source.

A view reads `source[e_0(i), e_1(i), …]`.  Solving `e_d(i) = p_d` for the coordinates i gives each as an expression over
the element's position p and *free* coordinates: an axis that the view repeats, a place in a window.  What the equations
demand beyond that (a stride that divides, a range) are guards.  Mixed radices are taken apart as digits and put together
from them, so the inverse of a reshape is a reshape.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from snell.symbolic import Axis, Dim, Expr, FloorDiv, Remainder, Shape, View, as_expr, as_size, coordinates, product

__all__ = ["Inverse", "inverse"]

_Unknown = Axis | FloorDiv | Remainder


@dataclass(frozen=True, slots=True)
class Inverse:
    """`view` reads the viewed value at (position in the source, free coordinates); its last `free` axes are free."""

    view: View
    free: int


def inverse(view: View, source: Shape) -> Inverse | None:
    """The solved view; None where an index is no sum of multiples of coordinates, quotients and remainders."""
    solver = _Solver(view, source)
    return solver.result() if solver.solve() else None


@dataclass(slots=True)
class _Solver:
    """Equations that are left, coordinates that are known, and conditions that were met on the way."""

    view: View
    source: Shape
    equations: list[tuple[Expr, Expr]] = field(default_factory=list[tuple[Expr, Expr]])
    known: dict[Axis, Expr] = field(default_factory=dict[Axis, Expr])
    free: list[Axis] = field(default_factory=list[Axis])
    guards: list[Expr] = field(default_factory=list[Expr])

    def solve(self) -> bool:
        """Find every coordinate; False where an equation has a form that is not solved."""
        positions = [as_expr(axis) for axis in self._positions()]
        self.equations = list(zip(self.view.indices, positions, strict=True))
        while self.equations:
            if not (self._joined_digits() or self._solved_one()):
                return False
        for axis in self._unknown():
            self._set(axis, self._freed(axis.extent))
        return True

    def _positions(self) -> list[Axis]:
        return [Axis(f"p{d}", size) for d, size in enumerate(self.source)]

    def _unknown(self) -> list[Axis]:
        axes = [axis for place in coordinates(self.view.shape) for axis in place.axes()]
        return [axis for axis in axes if axis not in self.known]

    def _joined_digits(self) -> bool:
        """`n // d = a` and `n mod d = b` become `n = d·a + b`."""
        for low, (digit, b) in enumerate(self.equations):
            atom = _lone(digit)
            if not isinstance(atom, Remainder):
                continue
            above = atom.numerator // atom.divisor
            for high, (quotient, a) in enumerate(self.equations):
                if high != low and quotient == above:
                    self._require_range(b, atom.divisor)
                    others = [pair for k, pair in enumerate(self.equations) if k not in (low, high)]
                    self.equations = [*others, (atom.numerator, atom.divisor * a + b)]
                    return True
        return False

    def _solved_one(self) -> bool:
        """Take out the simplest equation: `Σ coefficient · unknown = value`."""
        axes = frozenset(self._unknown())
        found = [(_linear(e, axes), k) for k, (e, _) in enumerate(self.equations)]
        ready = [(parts, k) for parts, k in found if parts is not None]
        if not ready:
            return False
        parts, chosen = min(ready, key=lambda pair: (any(not isinstance(a, Axis) for a in pair[0]), len(pair[0])))
        expression, value = self.equations.pop(chosen)
        if not parts:
            self._require_zero(value - expression)
            return True
        known = expression - _total(coefficient * atom for atom, coefficient in parts.items())
        atom = _lone(expression)
        if isinstance(atom, FloorDiv):
            self.equations.append((atom.numerator, atom.divisor * value + self._freed(as_size(atom.divisor))))
            return True
        sizes = {atom: _size(atom) for atom in parts}
        if isinstance(atom, Remainder):
            return self._solved_remainder(atom, value)
        return self._set_all(parts, {a: s for a, s in sizes.items() if s is not None}, value - known)

    def _solved_remainder(self, atom: Remainder, value: Expr) -> bool:
        """`n mod d = b` alone: n = d·q + b for every q."""
        quotients = _size(FloorDiv(atom.numerator, atom.divisor))
        if quotients is None:
            return False
        self._require_range(value, atom.divisor)
        self.equations.append((atom.numerator, atom.divisor * self._freed(as_size(quotients)) + value))
        return True

    def _set_all(self, parts: Mapping[_Unknown, Expr], sizes: Mapping[_Unknown, Expr], value: Expr) -> bool:
        if len(sizes) < len(parts):
            return False
        falling = {atom for atom, c in parts.items() if (-c).is_non_negative()}
        value = value - _total(parts[atom] * (sizes[atom] - 1) for atom in falling)
        steps = {atom: -c if atom in falling else c for atom, c in parts.items()}
        order = _as_digits(steps, sizes)
        if not order:
            order = [max(steps, key=lambda atom: sizes[atom].bounds()[1])] if steps else []
            for atom in steps:
                if atom not in order:
                    chosen = self._freed(as_size(sizes[atom]))
                    value = value - steps[atom] * chosen
                    self._set(atom, sizes[atom] - 1 - chosen if atom in falling else chosen)
        for atom in order:
            digit, value = value // steps[atom], value % steps[atom]
            self._require_range(digit, sizes[atom])
            self._set(atom, sizes[atom] - 1 - digit if atom in falling else digit)
        self._require_zero(value)
        return True

    def _set(self, atom: _Unknown, value: Expr) -> None:
        if not isinstance(atom, Axis):
            self.equations.append((as_expr(atom), value))
            return
        self.known[atom] = value
        self.equations = [(e.substitute({atom: value}), right) for e, right in self.equations]

    def _freed(self, extent: int | Expr) -> Expr:
        self.free.append(Axis(f"f{len(self.free)}", extent))
        return as_expr(self.free[-1])

    def _require_range(self, value: Expr, size: Expr) -> None:
        self.guards += [guard for guard in (value, size - 1 - value) if not guard.is_non_negative()]

    def _require_zero(self, value: Expr) -> None:
        self.guards += [guard for guard in (value, -value) if not guard.is_non_negative()]

    def result(self) -> Inverse:
        """The coordinates and conditions over (position, free coordinates)."""
        shape = (*self.source, *(axis.extent for axis in self.free))
        places = dict(zip((*self._positions(), *self.free), coordinates(shape), strict=True))
        indices = [place.substitute(self.known).substitute(places) for place in coordinates(self.view.shape)]
        guards = [*self.guards, *(guard.substitute(self.known) for guard in self.view.guards)]
        moved = (guard.substitute(places) for guard in guards)
        kept = tuple(dict.fromkeys(guard for guard in moved if not guard.is_non_negative()))
        return Inverse(View(shape, tuple(indices), kept), len(self.free))


def _total(terms: object) -> Expr:
    return sum(terms, as_expr(0))  # type: ignore[call-overload, no-any-return]  # Expr adds to Expr


def _lone(expression: Expr) -> object:
    """The only atom of an expression that is one, else None."""
    (term,) = expression.terms if len(expression.terms) == 1 else (((), 0),)
    monomial, coefficient = term
    return monomial[0] if len(monomial) == 1 and coefficient == 1 and not expression.constant else None


def _linear(expression: Expr, axes: frozenset[Axis]) -> dict[_Unknown, Expr] | None:
    """The coefficient of each unknown; None where two of them are multiplied."""
    found: dict[_Unknown, Expr] = {}
    for monomial, count in expression.terms:
        unknown = [atom for atom in monomial if as_expr(atom).axes() & axes]
        if not unknown:
            continue
        atom = unknown[0]
        if len(unknown) > 1 or not isinstance(atom, Axis | FloorDiv | Remainder):
            return None
        others = list(monomial)
        others.remove(atom)
        found[atom] = found.get(atom, as_expr(0)) + product([as_expr(a) for a in others]) * count
    return found


def _size(atom: _Unknown) -> Expr | None:
    """How many values an unknown may have, from 0 on; None where that is not known."""
    match atom:
        case Axis():
            return as_expr(atom.extent)
        case Remainder():
            return atom.divisor
        case FloorDiv(numerator, divisor):
            if not numerator.is_non_negative():
                return None
            high, most = numerator.bounds()[1], _most(numerator)
            if most is not None and (divisor - 1).is_non_negative():
                return most // divisor + 1
            return as_expr(int(high)) // divisor + 1 if math.isfinite(high) else None


def _most(expression: Expr) -> Expr | None:
    """A size-dependent value that an expression never exceeds; None where none is seen.  Not all parts may reach theirs
    together: a remainder is not greatest at the end of its axis."""
    total = as_expr(expression.constant)
    for monomial, count in expression.terms:
        factors = [_most_of_atom(atom) for atom in monomial]
        found = [factor for factor in factors if factor is not None]
        if count < 0 or len(found) < len(factors):
            return None
        total = total + product(found) * count
    return total


def _most_of_atom(atom: object) -> Expr | None:
    match atom:
        case Axis():
            return as_expr(atom.extent) - 1
        case Dim():
            return as_expr(atom)
        case FloorDiv(numerator, divisor) if (divisor - 1).is_non_negative() and not divisor.axes():
            most = _most(numerator)
            return None if most is None else most // divisor
        case Remainder(_, divisor) if (divisor - 1).is_non_negative() and not divisor.axes():
            return divisor - 1
        case _:
            return None


def _as_digits(steps: Mapping[_Unknown, Expr], sizes: Mapping[_Unknown, Expr]) -> Sequence[_Unknown]:
    """The unknowns from the greatest step down where all below a step together never reach it; empty elsewhere."""
    rising = sorted(steps, key=lambda atom: (steps[atom].bounds()[1], sizes[atom].bounds()[1]))
    reached = as_expr(0)
    for atom in rising:
        if not (steps[atom] - 1 - reached).is_non_negative():
            return []
        reached = reached + steps[atom] * (sizes[atom] - 1)
    return rising[::-1]
