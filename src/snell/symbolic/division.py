"""Division of index expressions: floor and remainder with the divisor's sign, simplified where ranges prove it.

Importing this file attaches `//` and `%` to expressions, which it is written with.
"""

from __future__ import annotations

import math
from functools import lru_cache

from snell.symbolic.expression import (
    Arithmetic,
    Dim,
    Expr,
    FloorDiv,
    Integer,
    Monomial,
    Remainder,
    as_expr,
    dim_of_whole_part,
    divided_monomial,
    in_whole_parts,
    is_integer,
    lifted,
    polynomial,
)

__all__ = ["floor_divide", "remainder"]


def _split_multiples(numerator: Expr, divisor: Expr) -> tuple[Expr, Expr]:
    """`numerator = quotient*divisor + rest`, moving every term that the divisor divides exactly into the quotient."""
    if len(divisor.terms) > 1 or (divisor.terms and divisor.constant):
        return _split_polynomial(numerator, divisor)
    pattern, d = in_whole_parts(*divisor.terms[0]) if divisor.terms else ((), divisor.constant)
    quotient_terms: dict[Monomial, int] = {}
    rest_terms: dict[Monomial, int] = {}
    for monomial, coefficient in numerator.terms:
        whole, count = in_whole_parts(monomial, coefficient)
        left = divided_monomial(whole, pattern)
        if left is None or count % d:
            rest_terms[monomial] = coefficient
        else:
            quotient_terms[left] = quotient_terms.get(left, 0) + count // d
    constant_quotient, constant_rest = (0, numerator.constant) if pattern else divmod(numerator.constant, d)
    constant_quotient += quotient_terms.pop((), 0)
    return polynomial(quotient_terms, constant_quotient), polynomial(rest_terms, constant_rest)


def _split_polynomial(numerator: Expr, divisor: Expr) -> tuple[Expr, Expr]:
    """Long division by the divisor's leading term, kept only while it makes the numerator smaller."""
    (pattern, d) = divisor.terms[0]
    quotient, rest = as_expr(0), numerator
    for _ in range(8):
        step = next(
            (
                polynomial({left: c // d}, 0) if left else as_expr(c // d)
                for monomial, c in rest.terms
                if c % d == 0 and (left := divided_monomial(monomial, pattern)) is not None
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


def _is_within(rest: Expr, divisor: Expr) -> bool:
    """True when `0 <= rest < divisor` is proved; a divisor is not 0, so sizes that are its factors are at least 1."""
    if not rest.is_non_negative():
        return False
    gap = divisor - rest - 1
    if gap.is_non_negative():
        return True
    monomial = divisor.terms[0][0] if len(divisor.terms) == 1 else ()
    dims = (atom if isinstance(atom, Dim) else dim_of_whole_part(atom) for atom in monomial)
    factors = {dim for dim in dims if dim is not None and dim.min == 0}
    positive = {dim: as_expr(Dim(dim.name, 1, dim.max, dim.multiple)) for dim in factors}
    return bool(positive) and gap.substitute(positive).is_non_negative()  # type: ignore[arg-type]


@lru_cache(maxsize=1 << 16)
def _floor_divide(numerator: Expr, divisor: Expr) -> Expr:
    if divisor == 1:
        return numerator
    if not divisor.terms and divisor.constant == 0:
        raise ZeroDivisionError("index expression divided by 0")
    if numerator == divisor and (divisor - 1).is_non_negative():
        return as_expr(1)
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
    factors = [as_expr(n) for n in sorted(numbers, reverse=True) if n > 1]
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
        return as_expr(rest.constant // divisor.constant)
    peeled = _peel(rest, divisor)
    if peeled is not None:
        factor, quotient, _ = peeled
        return _floor_divide(quotient, _split_multiples(divisor, factor)[0])
    return lifted(FloorDiv(rest, divisor))


@lru_cache(maxsize=1 << 16)
def _remainder(numerator: Expr, divisor: Expr) -> Expr:
    if divisor == 1:
        return as_expr(0)
    _, rest = _split_multiples(numerator, divisor)
    if _is_within(rest, divisor):
        return rest
    if not rest.terms and not divisor.terms:
        return as_expr(rest.constant % divisor.constant)
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
    return lifted(Remainder(rest, divisor))


def floor_divide(numerator: Integer, divisor: Integer) -> Expr:
    """⌊numerator / divisor⌋; ZeroDivisionError for a divisor that is 0."""
    return _floor_divide(as_expr(numerator), as_expr(divisor))


def remainder(numerator: Integer, divisor: Integer) -> Expr:
    """numerator mod divisor, with the sign of the divisor."""
    return _remainder(as_expr(numerator), as_expr(divisor))


def _floordiv(self: Arithmetic, other: Integer) -> Expr:
    return floor_divide(self, other) if is_integer(other) else NotImplemented  # type: ignore[arg-type]  # an atom or Expr


def _rfloordiv(self: Arithmetic, other: Integer) -> Expr:
    return floor_divide(other, self) if is_integer(other) else NotImplemented  # type: ignore[arg-type]  # an atom or Expr


def _mod(self: Arithmetic, other: Integer) -> Expr:
    return remainder(self, other) if is_integer(other) else NotImplemented  # type: ignore[arg-type]  # an atom or Expr


def _rmod(self: Arithmetic, other: Integer) -> Expr:
    return remainder(other, self) if is_integer(other) else NotImplemented  # type: ignore[arg-type]  # an atom or Expr


for _name, _operator in {
    "__floordiv__": _floordiv, "__rfloordiv__": _rfloordiv, "__mod__": _mod, "__rmod__": _rmod,
}.items():  # fmt: skip
    setattr(Arithmetic, _name, _operator)
