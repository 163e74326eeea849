"""Axis refinement: split axes by the divisors that occur, so that every index is affine over atomic axes.

    x[j // 32, j % 32]  with j < 128   →   x[a, b]  with j = 32*a + b, a < 4, b < 32

Grouped heads, block splits and reshapes vanish.  Divisors of one axis must divide each other and the extent; those that
do not stay as divisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

from snell.rewrite.canonical import merged
from snell.rewrite.substitution import fresh_axis, rebuilt
from snell.rewrite.term import Index, Load, Reduction, Term, walk
from snell.symbolic import Axis, Expr, FloorDiv, Remainder, as_expr, as_size

__all__ = ["refine"]

_ROUNDS = 4


def refine(value: Term, axes: tuple[Axis, ...]) -> tuple[Term, tuple[Axis, ...], dict[Axis, Expr]]:
    """(term over atomic axes, the free axes split, each given axis as an expression over them)."""
    places = {axis: as_expr(axis) for axis in axes}
    for _ in range(_ROUNDS):
        splits = _splits(value, axes)
        if not splits:
            break
        mapping = {axis: _recombined(parts) for axis, parts in splits.items()}
        value = _resplit(value, splits, mapping)
        places = {axis: place.substitute(mapping) for axis, place in places.items()}  # type: ignore[arg-type]
        axes = tuple(part for axis in axes for part in ([p for p, _ in splits[axis]] if axis in splits else [axis]))
    return value, axes, places


_Parts = list[tuple[Axis, Expr]]


def _splits(value: Term, axes: tuple[Axis, ...]) -> dict[Axis, _Parts]:
    """For each axis to split: its atomic axes with their strides, outermost first."""
    divisors: dict[Axis, dict[Expr, None]] = {}
    for item in walk(value):
        match item.op:
            case Index(expression):
                _collect((expression,), divisors)
            case Load(_, indices, guards):
                _collect((*indices, *guards), divisors)
            case _:
                continue
    found: dict[Axis, _Parts] = {}
    for axis, by in divisors.items():
        chain = _chain(as_expr(axis.extent), by)
        if len(chain) > 2:
            found[axis] = _parts(axis, chain, named=axis in axes)
    return found


def _collect(expressions: Iterable[Expr], divisors: dict[Axis, dict[Expr, None]]) -> None:
    for expression in expressions:
        for atom in expression.atoms():
            if isinstance(atom, FloorDiv | Remainder):
                for axis, divisor in _divided_axes(atom):
                    divisors.setdefault(axis, {})[divisor] = None


def _divided_axes(atom: FloorDiv | Remainder) -> list[tuple[Axis, Expr]]:
    """Axes whose split by the divisor would simplify the atom: `(c*axis + …) // d` splits the axis by `d / c`."""
    found: list[tuple[Axis, Expr]] = []
    for monomial, coefficient in atom.numerator.terms:
        lone = monomial[0] if len(monomial) == 1 else None
        if isinstance(lone, Axis):
            stride, rest = atom.divisor // coefficient, atom.divisor % coefficient
            if rest == 0 and coefficient > 0 and stride != 1:
                found.append((lone, stride))
        elif isinstance(lone, FloorDiv) and coefficient == 1 and isinstance(atom, Remainder):
            found += [(axis, inner * atom.divisor) for axis, inner in _divided_axes(lone)]
    return found


def _chain(extent: Expr, divisors: Iterable[Expr]) -> list[Expr]:
    """1, then divisors that divide each other and the extent, then the extent."""
    chain = [as_expr(1)]
    for divisor in sorted(divisors, key=lambda d: (len(d.atoms()), d.bounds()[1], str(d))):
        if divisor != chain[-1] and divisor != extent and divisor % chain[-1] == 0 and extent % divisor == 0:
            chain.append(divisor)
    return [*chain, extent]


def _parts(axis: Axis, chain: list[Expr], named: bool) -> _Parts:
    steps = list(pairwise(chain))[::-1]
    extents = [as_size(high // low) for low, high in steps]
    if named:
        return [(Axis(f"{axis.name}_{k}", n), low) for k, (n, (low, _)) in enumerate(zip(extents, steps, strict=True))]
    return [(fresh_axis(n), low) for n, (low, _) in zip(extents, steps, strict=True)]


def _recombined(parts: _Parts) -> Expr:
    total = as_expr(0)
    for part, stride in parts:
        total = total + as_expr(part) * stride
    return total


def _resplit(root: Term, splits: Mapping[Axis, _Parts], mapping: Mapping[Axis, Expr]) -> Term:
    """Every occurrence of a split axis, free or bound, replaced (bound axes are unique before canonical naming)."""
    images: dict[Term, Term] = {}
    for item in walk(root):
        if isinstance(item.op, Reduction):
            bound = tuple(part for a in item.op.axes for part in ([p for p, _ in splits[a]] if a in splits else [a]))
            images[item] = merged(type(item.op), bound, images[item.args[0]])
        else:
            images[item] = rebuilt(item, images, mapping)
    return images[root]
