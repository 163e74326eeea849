"""Running values of a stream: what is kept of the positions seen so far, and how it moves to another reference.

A sum of `weight · f(k·x) · Π (y + c)^p` over positions that come in pieces is kept as moments relative to a reference,

    M_α = Σ weight · f(k·(x − E)) · Π (y − β)^α,    α ≤ p,

with E the greatest x so far and β near the mean of y under the weights.  Moving to another reference is a polynomial:

    M'_α = f(k·(E − E')) · Σ_{γ ≤ α} Π C(α, γ) (β − β')^(α − γ) · M_γ.

"Move both to one reference, then add" is associative and commutative, so the positions may be split at will.  E is 0
where nothing finite was seen.  The running maximum and weighted mean: B. P. Welford, Technometrics 4 (1962), and
M. Milakov and N. Gimelshein, arXiv:1805.02867; the theorem for any such sum is DESIGN, section 4.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from snell.graph.primitives import Op
from snell.rewrite.arithmetic import add, applied, magnitude, multiply, power, scale, select, subtract
from snell.rewrite.term import Term, number
from snell.symbolic import Axis

__all__ = [
    "Component", "Greatest", "Mass", "Mean", "Moment", "Powers", "Reference", "Total", "Weights", "central",
    "components_of", "exponential", "free_axes", "identity", "mass_of", "moved", "polynomial",
]  # fmt: skip

Powers = tuple[tuple[Term, int], ...]
"""Values and the powers to which their distances from the centre are raised, none of them 0."""


@dataclass(frozen=True, slots=True)
class Reference:
    """`function(factor · exponent)` is kept relative to the greatest exponent."""

    function: Op
    factor: Fraction
    exponent: Term


@dataclass(frozen=True, slots=True)
class Weights:
    """`weight · f(k·x)` where the condition holds, else 0; without a reference there is no exponential."""

    like: Term
    reference: Reference | None
    condition: Term | None
    weight: Term | None

    def at(self, exponential: Term | None, rest: Term) -> Term:
        """The weight of one position times `rest`, given its exponential."""
        value = rest
        for factor in (self.weight, exponential):
            value = value if factor is None else multiply(factor, value)
        return select(self.condition, value)

    def size(self, exponential: Term | None, rest: Term) -> Term:
        """As `at`, with the magnitude of the weight."""
        if self.weight is None:
            return self.at(exponential, rest)
        return Weights(self.like, self.reference, self.condition, magnitude(self.weight)).at(exponential, rest)


@dataclass(frozen=True, slots=True)
class Greatest:
    """The maximum of a term."""

    body: Term


@dataclass(frozen=True, slots=True)
class Total:
    """The sum of a term that needs no reference."""

    body: Term


@dataclass(frozen=True, slots=True)
class Mass:
    """The sum of the weights' magnitudes: the zeroth moment where they are not negative."""

    weights: Weights


@dataclass(frozen=True, slots=True)
class Mean:
    """A centre for a value: its mean under the weights' magnitudes, as a block of positions changes it."""

    weights: Weights
    value: Term


@dataclass(frozen=True, slots=True)
class Moment:
    """The sum of the weights times powers of the values' distances from their means."""

    weights: Weights
    powers: Powers


Component = Greatest | Total | Mass | Mean | Moment


def components_of(weights: Weights, powers: Powers) -> Iterator[Component]:
    """What has to be kept for one sum: its reference, the means of its values, and all moments up to its powers."""
    if weights.reference is not None:
        yield Greatest(weights.reference.exponent)
    if powers:
        yield mass_of(weights)
    for value, _ in powers:
        yield Mean(weights, value)
    for lower in _below(powers):
        yield Moment(weights, lower)


def mass_of(weights: Weights) -> Mass | Moment:
    """What the weights' magnitudes add up to."""
    return Moment(weights, ()) if weights.weight is None else Mass(weights)


def _below(powers: Powers) -> Iterator[Powers]:
    for chosen in itertools.product(*(range(n + 1) for _, n in powers)):
        yield tuple((value, n) for (value, _), n in zip(powers, chosen, strict=True) if n)


def moved(moment: Moment, distances: Mapping[Term, Term], known: Mapping[Moment, Term], rescale: Term | None) -> Term:
    """A moment relative to other means and another exponent: `distances` are β − β', `rescale` is f(k·(E − E'))."""
    coefficients = [_binomial(n, distances[value]) for value, n in moment.powers]
    values = [value for value, _ in moment.powers]
    total = polynomial(moment.weights, values, coefficients, known)
    return total if rescale is None else multiply(rescale, total)


def _binomial(n: int, distance: Term) -> list[Term]:
    """Coefficients of `(z + distance)^n` by the power of z."""
    return [scale(Fraction(math.comb(n, k)), power(distance, n - k)) for k in range(n + 1)]


def polynomial(
    weights: Weights, values: Sequence[Term], coefficients: Sequence[Sequence[Term]], known: Mapping[Moment, Term]
) -> Term:
    """`Σ weights · Π_k Σ_n coefficients[k][n] · (values[k] − β_k)^n` from the moments."""
    total = number(0, weights.like.dtype)
    for chosen in itertools.product(*(range(len(row)) for row in coefficients)):
        powers = tuple((value, n) for value, n in zip(values, chosen, strict=True) if n)
        part = known[Moment(weights, powers)]
        for row, n in zip(coefficients, chosen, strict=True):
            part = multiply(row[n], part)
        total = add(total, part)
    return total


def exponential(reference: Reference, distance: Term) -> Term:
    """`f(k · distance)`."""
    return applied(reference.function, scale(reference.factor, distance))


def central(moment: Moment, means: Mapping[Term, Term]) -> Term:
    """What one position adds to a moment, beside its weight."""
    result = number(1, moment.weights.like.dtype)
    for value, n in moment.powers:
        result = multiply(result, power(subtract(value, means[value]), n))
    return result


def identity(component: Component) -> Term:
    """The component before any position."""
    match component:
        case Greatest(body):
            return number(body.dtype.lowest, body.dtype)
        case Total(body):
            return number(0, body.dtype)
        case Mass(weights) | Mean(weights, _) | Moment(weights, _):
            return number(0, weights.like.dtype)


def free_axes(component: Component) -> frozenset[Axis]:
    """The axes of everything a component is about, those that are reduced included."""
    match component:
        case Greatest(body) | Total(body):
            return body.free
        case Mass(weights):
            return _weights_axes(weights)
        case Mean(weights, value):
            return _weights_axes(weights) | value.free
        case Moment(weights, powers):
            return _weights_axes(weights).union(*(value.free for value, _ in powers))


def _weights_axes(weights: Weights) -> frozenset[Axis]:
    parts = [weights.condition, weights.weight, weights.reference.exponent if weights.reference else None]
    return frozenset[Axis]().union(*(part.free for part in parts if part is not None))
