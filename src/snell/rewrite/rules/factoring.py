"""Factoring: what does not depend on a summed axis leaves the sum, wholly or over part of the axes.

A factor leaves a sum only if the sum is known to be non-empty: an empty one is 0 whatever the factor, but an infinite
factor times 0 is NaN.  For the same reason no factor leaves a selection whose condition depends on the summed axes,
unless the policy is fast: a guarded row, `where(c, e/s, 0)` with s = 0, must stay finite.
"""

from __future__ import annotations

from snell.dtypes import DType, f32, i32, u4
from snell.rewrite.facts import DEPENDENT, INDEPENDENT, NOT_NUMBER
from snell.rewrite.language import rational
from snell.rewrite.rules.notation import B, I, J, K, add, less, mul, number, select, subtract, sum_, tensor, x, y, z
from snell.rewrite.rules.rule import Rule, Tag, rule
from snell.rewrite.term import Term, cast, index
from snell.symbolic import Axis, Dim

__all__ = ["FACTORING"]

_ONE = rational(1)
_LENGTH = Dim("seq", min=0, max=64)
_TIME = Axis("s", _LENGTH + 0)


def _present(axes: str) -> str:
    """No axis of the set can be empty."""
    return f"(= E (possibly-empty)) {INDEPENDENT('E', axes)}"


_SUM = f"(= t (Sum J a)) {NOT_NUMBER('t')} (= d (dtype t)) (wide d)"


def _cast_field(*axes: Axis, dtype: DType = f32) -> Term:
    return cast(tensor("q", *axes, dtype=u4), dtype)


def _block(d: Term, q: Term, m: Term, a: Term) -> Term:
    return mul(add(mul(d, q), m), a)


_FACTORS = (
    rule(
        "factor",
        Tag.EXACT,
        "A factor that does not depend on the summed axes leaves the sum.",
        f"{_SUM} (split J a f b) {_present('J')}",
        "(union t (Mul f (Sum J b)))",
        lambda: (sum_(mul(mul(x(I), y(I, J)), z(J)), J), mul(x(I), sum_(mul(y(I, J), z(J)), J))),
        lambda: sum_(mul(x(_TIME), y(I)), _TIME),  # the sum may be empty
    ),
    rule(
        "factor-over-part",
        Tag.EXACT,
        "A factor that depends on some of the summed axes leaves the sum over the others.",
        f"{_SUM} (part J a K) (!= K J) (split K a f b) {_present('K')}",
        "(union t (Sum (set-diff J K) (Mul f (Sum K b))))",
        lambda: (sum_(mul(x(B), mul(y(B, K), z(B, K))), B, K), sum_(mul(x(B), sum_(mul(y(B, K), z(B, K)), K)), B)),
        lambda: sum_(mul(x(B, K), mul(y(B, K), z(B, K))), B, K),
    ),
    rule(
        "factor-out-of-selection",
        Tag.FAST,
        "A factor leaves a sum through a condition that depends on its axes.",
        f"{_SUM} (= a (Select c b)) (= s (free c)) {DEPENDENT('J', 's')} (split J b f e) {_present('J')}",
        "(union t (Mul f (Sum J (Select c e))))",
        lambda: (
            sum_(select(less(x(J), y(J)), mul(z(I), x(J))), J),
            mul(z(I), sum_(select(less(x(J), y(J)), x(J)), J)),
        ),
        lambda: sum_(select(less(x(J), y(J)), mul(z(J), x(J))), J),
    ),
)
_COUNTS = (
    rule(
        "sum-of-invariant",
        Tag.EXACT,
        "A sum over axes on which nothing depends is a product with their extent.",
        f"{_SUM} (= s (free a)) (= K (set-diff J s)) (< 0 (set-length K)) {_present('K')} {NOT_NUMBER('a')}",
        f"(union t (Mul (Sum (set-diff J K) a) (Sum K (Number {_ONE} d))))",
        lambda: (sum_(x(J), J, K), mul(sum_(x(J), J), number(4))),
        lambda: sum_(x(J, K), J, K),
    ),
    rule(
        "sum-of-number",
        Tag.EXACT,
        "A sum of equal numbers is one number.",
        "(= t (Sum J (Number v d))) (extent j n) (set-contains J j)",
        "(union t (Sum (set-remove J j) (Number (* n v) d)))",
        lambda: (sum_(x(I), J), mul(x(I), number(5))),
        lambda: sum_(x(I, J), J),
    ),
    rule(
        "sum-of-number-at-run-time",
        Tag.EXACT,
        "A sum of equal numbers over a run-time extent is a product with it.",
        "(= t (Sum J (Number v d))) (run-time-extent j d n) (set-contains J j)",
        "(union t (Mul (Cast d n) (Sum (set-remove J j) (Number v d))))",
        lambda: (sum_(number(1), _TIME), mul(cast(index(_LENGTH + 0), f32), number(1))),
        lambda: sum_(number(1), J),
    ),
)
# Distribution pays where the part that varies is integers times something free of the inner axes: then Σ x·(d·q + m)
# is d·Σ x·q + m·Σ x with an integer sum inside.  It is not done for other sums: over a data-dependent centre it cancels.
_INNER = f"(= s (free a)) (= u (free c)) (= K (set-diff (set-intersect J s) u)) (< 0 (set-length K)) {NOT_NUMBER('t')}"
_SPREAD = "(union t (Add (Mul a e) (Mul c e))) (spread t)"
_DISTRIBUTION = (
    rule(
        "ask-before-distributing",
        Tag.EXACT,
        "Marks a product under a sum that may be worth distributing; changes nothing itself.",
        f"(within J r t) (= t (Mul (Add a c) e)) {_INNER} (= d (dtype t)) (float d)",
        "(wanted K a)",
        lambda: (
            sum_(_block(x(B), _cast_field(B, K), y(B), z(B, K)), B, K),
            sum_(_block(x(B), _cast_field(B, K), y(B), z(B, K)), B, K),
        ),
        lambda: sum_(_block(x(B), _cast_field(B, K), y(B, K), z(B, K)), B, K),
    ),
    rule(
        "distribute-quantised",
        Tag.REFINES,
        "A sum of quantised values and offsets comes apart, so that integers are summed alone.",
        f"(within J r t) (= t (Mul (Add a c) e)) {_INNER} (= d (dtype t)) (wide d) (coded K a)",
        _SPREAD,
        lambda: (
            sum_(_block(x(B), _cast_field(B, K), y(B), z(B, K)), B, K),
            sum_(add(mul(x(B), sum_(mul(_cast_field(B, K), z(B, K)), K)), mul(y(B), sum_(z(B, K), K))), B),
        ),
        lambda: sum_(mul(subtract(x(I, J), y(I)), z(J)), J),  # a centre, not a zero point
    ),
    rule(
        "distribute-integers",
        Tag.EXACT,
        "An integer offset under a sum comes apart from what varies.",
        f"(within J r t) (= t (Mul (Add a c) e)) (= d (dtype t)) (integer d) (= s (free a)) (= u (free c)) "
        f"{DEPENDENT('J', 's')} {INDEPENDENT('J', 'u')} {NOT_NUMBER('t')}",
        _SPREAD,
        lambda: (
            sum_(mul(add(x(I, J, dtype=i32), number(-8, i32)), y(J, dtype=i32)), J),
            add(sum_(mul(x(I, J, dtype=i32), y(J, dtype=i32)), J), mul(sum_(y(J, dtype=i32), J), number(-8, i32))),
        ),
        lambda: sum_(mul(add(x(I, J), number(-8)), y(J)), J),
    ),
    rule(
        "distribute",
        Tag.FAST,
        "A product with a sum is distributed under a sum, over any centre.",
        f"(within J r t) (= t (Mul (Add a c) e)) {_INNER}",
        _SPREAD,
        lambda: (
            sum_(mul(subtract(x(I, J), y(I)), z(J)), J),
            subtract(sum_(mul(x(I, J), z(J)), J), mul(sum_(z(J), J), y(I))),
        ),
        lambda: sum_(mul(subtract(x(I, J), y(J)), z(J)), J),
    ),
    rule(
        "distribute-further",
        Tag.EXACT,
        "What was distributed is distributed over the next factor, too.",
        f"(within J r t) (= t (Mul b e)) {NOT_NUMBER('t')} (spread b) (= b (Add a c))",
        _SPREAD,
        lambda: (
            sum_(mul(mul(add(x(I, J, dtype=i32), number(-8, i32)), y(J, dtype=i32)), z(J, dtype=i32)), J),
            add(
                sum_(mul(mul(x(I, J, dtype=i32), y(J, dtype=i32)), z(J, dtype=i32)), J),
                mul(sum_(mul(y(J, dtype=i32), z(J, dtype=i32)), J), number(-8, i32)),
            ),
        ),
        lambda: sum_(mul(add(x(I, J, dtype=i32), number(-8, i32)), y(J, dtype=i32)), J),
    ),
    rule(
        "sum-of-spread",
        Tag.EXACT,
        "A sum of what was distributed is a sum of each part.",
        "(= t (Sum J b)) (spread b) (= b (Add a c))",
        "(union t (Add (Sum J a) (Sum J c))) (apart t)",
        lambda: (
            sum_(mul(add(x(I, J, dtype=i32), number(2, i32)), y(J, dtype=i32)), J),
            add(sum_(mul(x(I, J, dtype=i32), y(J, dtype=i32)), J), sum_(mul(number(2, i32), y(J, dtype=i32)), J)),
        ),
        lambda: sum_(add(x(I, J), y(I, J)), J),
    ),
    rule(
        "join-sums",
        Tag.EXACT,
        "Two sums over the same axes run in one pass.",
        "(apart t) (= t (Add (Sum J a) (Sum J c)))",
        "(union t (Sum J (Add a c)))",
        lambda: (
            sum_(_block(x(B), _cast_field(B, K), y(B), z(B, K)), B, K),
            sum_(add(mul(x(B), sum_(mul(_cast_field(B, K), z(B, K)), K)), mul(y(B), sum_(z(B, K), K))), B),
        ),
        lambda: add(sum_(x(I, J), J), sum_(y(I, J), J)),
    ),
)

FACTORING: tuple[Rule, ...] = (*_FACTORS, *_COUNTS, *_DISTRIBUTION)
