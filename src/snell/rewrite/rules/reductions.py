"""Rules of reductions: nests become axis sets, a maximum commutes with what is monotone."""

from __future__ import annotations

from snell.graph.primitives import Sin
from snell.rewrite.facts import DEPENDENT, INDEPENDENT
from snell.rewrite.language import rational
from snell.rewrite.rules.notation import B, I, J, K, add, apply, exp2, max_, mul, negate, number, sum_, x, y
from snell.rewrite.rules.rule import Rule, Tag, rule
from snell.symbolic import Axis, Dim

__all__ = ["REDUCTIONS"]

_TIME = Axis("s", Dim("seq", min=0, max=64) + 0)
_PRESENT = f"(= E (possibly-empty)) {INDEPENDENT('E', 'J')}"
_INVARIANT = f"(= s (free a)) {INDEPENDENT('J', 's')}"

REDUCTIONS: tuple[Rule, ...] = (
    rule(
        "sum-of-sum",
        Tag.EXACT,
        "A sum of sums is one sum over both sets of axes.",
        f"(= t (Sum J (Sum K a))) {INDEPENDENT('J', 'K')} (< 0 (set-length J)) (< 0 (set-length K))",
        "(union t (Sum (set-union J K) a))",
        lambda: (sum_(sum_(x(B, K), K), B), sum_(x(B, K), B, K)),
        lambda: sum_(sum_(x(I, J), J), J),
    ),
    rule(
        "max-of-max",
        Tag.EXACT,
        "A maximum of maxima is one maximum over both sets of axes.",
        f"(= t (Max J (Max K a))) {INDEPENDENT('J', 'K')}",
        "(union t (Max (set-union J K) a))",
        lambda: (max_(max_(x(B, K), K), B), max_(x(B, K), B, K)),
        lambda: max_(max_(x(I, J), J), J),
    ),
    rule(
        "sum-over-nothing",
        Tag.EXACT,
        "A sum over no axes is its term.",
        "(= t (Sum (set-empty) a))",
        "(union t a)",
        lambda: (sum_(x(I)), x(I)),
        lambda: sum_(x(I, J), J),
    ),
    rule(
        "max-of-invariant",
        Tag.EXACT,
        "A maximum over axes on which nothing depends is the value.",
        f"(= t (Max J a)) {_INVARIANT} {_PRESENT}",
        "(union t a)",
        lambda: (max_(x(I), J), x(I)),
        lambda: max_(x(I), _TIME),
    ),
    rule(
        "shift-out-of-max",
        Tag.REFINES,
        "What is added and does not depend on the axes leaves a maximum.",
        # Integers wrap: the greatest of a + b need not be where b is greatest.
        f"(= t (Max J (Add a b))) {_INVARIANT} (= u (free b)) {DEPENDENT('J', 'u')} "
        f"(= d (dtype b)) (float d) {_PRESENT}",
        "(union t (Add a (Max J b)))",
        lambda: (max_(add(x(I), y(I, J)), J), add(x(I), max_(y(I, J), J))),
        lambda: max_(add(x(I, J), y(J)), J),
    ),
    rule(
        "scale-out-of-max",
        Tag.EXACT,
        "A positive scale leaves a maximum.",
        f"(= t (Max J (Scale p a))) (> p {rational(0)}) (= d (dtype a)) (float d) {_PRESENT}",
        "(union t (Scale p (Max J a)))",
        lambda: (max_(mul(x(I, J), number(2)), J), mul(max_(x(I, J), J), number(2))),
        lambda: max_(negate(x(I, J)), J),
    ),
    rule(
        "monotone-out-of-max",
        Tag.REFINES,
        "A function that never falls is applied once, to the maximum.",
        f"(= t (Max J (Unary o a))) (monotone o) {_PRESENT}",
        "(union t (Unary o (Max J a)))",
        lambda: (max_(exp2(x(I, J)), J), exp2(max_(x(I, J), J))),
        lambda: max_(apply(Sin(), x(I, J)), J),
    ),
)
