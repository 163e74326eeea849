"""Rules of conditions: selections, select-else, equality, and maximum where it is exactly one."""

from __future__ import annotations

import math

from snell.dtypes import bool_, i32
from snell.rewrite import term as t
from snell.rewrite.facts import DEPENDENT, INDEPENDENT
from snell.rewrite.language import rational
from snell.rewrite.rules.notation import (
    I,
    J,
    add,
    both,
    less,
    max_,
    maximum,
    mul,
    number,
    otherwise,
    select,
    sum_,
    x,
    y,
    z,
)
from snell.rewrite.rules.rule import Rule, Tag, rewrite, rule
from snell.rewrite.term import Term, term

__all__ = ["SELECTION"]

_ZERO, _ONE = rational(0), rational(1)


def _not(a: Term) -> Term:
    return term(t.Not(), (a,), bool_)


def _spelled_else(c: Term, a: Term, b: Term) -> Term:
    return add(select(c, a), select(_not(c), b))


def _pair(a: Term, b: Term) -> Term:
    return both(_not(less(a, b)), _not(less(b, a)))


def _is_nan(a: Term) -> Term:
    return both(_not(less(a, number(math.inf))), _not(less(number(-math.inf), a)))


_CONDITIONS = (
    rewrite(
        "not-not",
        Tag.EXACT,
        "A double negation does nothing.",
        "(Not (Not a))",
        "a",
        lambda: (_not(_not(less(x(I), y(I)))), less(x(I), y(I))),
        lambda: _not(less(x(I), y(I))),
    ),
    rewrite(
        "commute-and",
        Tag.EXACT,
        "The conditions of a conjunction change places.",
        "(And a b)",
        "(And b a)",
        lambda: (both(less(x(I), y(I)), less(y(I), z(I))), both(less(y(I), z(I)), less(x(I), y(I)))),
        lambda: add(x(I), y(I)),
    ),
    rewrite(
        "and-with-itself",
        Tag.EXACT,
        "A condition and itself is the condition.",
        "(And a a)",
        "a",
        lambda: (both(less(x(I), y(I)), less(x(I), y(I))), less(x(I), y(I))),
        lambda: both(less(x(I), y(I)), less(y(I), x(I))),
    ),
    rewrite(
        "equal",
        Tag.EXACT,
        "Neither less nor greater is equal, where no NaN can be.",
        "(And (Not (LessThan a b)) (Not (LessThan b a)))",
        "(Equal a b)",
        lambda: (_pair(x(I, dtype=i32), y(I, dtype=i32)), term(t.Equal(), (x(I, dtype=i32), y(I, dtype=i32)), bool_)),
        lambda: _pair(x(I), y(I)),  # floats: true on NaN
        where="(ordered a) (ordered b)",
    ),
    rewrite(
        "equal-to-ordered",
        Tag.EXACT,
        "Neither less nor greater than a number, and no NaN, is equal to it.",
        "(And (And (Not (LessThan a b)) (Not (LessThan b a))) (Not n))",
        "(Equal a b)",
        lambda: (both(_pair(x(I), number(2)), _not(_is_nan(x(I)))), term(t.Equal(), (x(I), number(2)), bool_)),
        lambda: both(_pair(x(I), y(I)), _not(_is_nan(x(I)))),
        where="(nan-test n a) (ordered b)",
    ),
    rewrite(
        "equal-unless-nan",
        Tag.EXACT,
        "Neither less nor greater, and neither a NaN, is equal.",
        "(And (And (And (Not (LessThan a b)) (Not (LessThan b a))) (Not n)) (Not m))",
        "(Equal a b)",
        lambda: (
            both(both(_pair(x(I), y(I)), _not(_is_nan(x(I)))), _not(_is_nan(y(I)))),
            term(t.Equal(), (x(I), y(I)), bool_),
        ),
        lambda: both(both(_pair(x(I), y(I)), _not(_is_nan(x(I)))), _not(_is_nan(z(I)))),
        where="(nan-test n a) (nan-test m b)",
    ),
)
_SELECTIONS = (
    rewrite(
        "select-true",
        Tag.EXACT,
        "Selecting under a condition that always holds is the value.",
        f"(Select (Number {_ONE} 0) a)",
        "a",
        lambda: (select(number(1, bool_), x(I)), x(I)),
        lambda: select(less(x(I), y(I)), x(I)),
    ),
    rewrite(
        "select-false",
        Tag.EXACT,
        "Selecting under a condition that never holds is 0.",
        f"(Select (Number {_ZERO} 0) a)",
        f"(Number {_ZERO} d)",
        lambda: (select(number(0, bool_), x(I)), number(0)),
        lambda: select(less(x(I), y(I)), x(I)),
        where="(= d (dtype a))",
    ),
    rewrite(
        "select-zero",
        Tag.EXACT,
        "Selecting 0 or 0 is 0.",
        f"(Select c (Number {_ZERO} d))",
        f"(Number {_ZERO} d)",
        lambda: (select(less(x(I), y(I)), number(0)), number(0)),
        lambda: select(less(x(I), y(I)), number(1)),
    ),
    rewrite(
        "select-twice",
        Tag.EXACT,
        "Selecting twice under one condition is selecting once.",
        "(Select c (Select c a))",
        "(Select c a)",
        lambda: (select(less(x(I), y(I)), select(less(x(I), y(I)), z(I))), select(less(x(I), y(I)), z(I))),
        lambda: select(less(x(I), y(I)), select(less(y(I), x(I)), z(I))),
    ),
    rewrite(
        "select-else",
        Tag.EXACT,
        "Two values under opposite conditions are one choice between them.",
        "(Add (Select c a) (Select (Not c) b))",
        "(SelectElse c a b)",
        lambda: (_spelled_else(less(x(I), y(I)), x(I), z(I)), otherwise(less(x(I), y(I)), x(I), z(I))),
        lambda: add(select(less(x(I), y(I)), x(I)), select(less(y(I), x(I)), z(I))),
    ),
    rewrite(
        "select-else-not",
        Tag.EXACT,
        "A choice under a negated condition is the choice the other way round.",
        "(SelectElse (Not c) a b)",
        "(SelectElse c b a)",
        lambda: (_spelled_else(_not(less(x(I), y(I))), x(I), z(I)), otherwise(less(x(I), y(I)), z(I), x(I))),
        lambda: _pair(x(I), z(I)),
    ),
    rewrite(
        "maximum",
        Tag.EXACT,
        "Choosing the greater of two is a maximum, where the bound is no NaN.",
        "(SelectElse (LessThan a b) b a)",
        "(Maximum a b)",
        lambda: (_spelled_else(less(x(I), number(0)), number(0), x(I)), maximum(x(I), number(0))),
        lambda: _spelled_else(less(x(I), y(I)), y(I), x(I)),  # where only y is NaN the selection is x
        where="(ordered b)",
    ),
    rewrite(
        "maximum-propagating-nan",
        Tag.EXACT,
        "Choosing the greater of two, or a NaN, is a maximum.",
        "(SelectElse (And (Not (LessThan a b)) (Not n)) a b)",
        "(Maximum a b)",
        lambda: (_spelled_else(both(_not(less(x(I), y(I))), _not(_is_nan(y(I)))), x(I), y(I)), maximum(x(I), y(I))),
        lambda: _spelled_else(both(_not(less(x(I), y(I))), _not(_is_nan(x(I)))), x(I), y(I)),  # y where x is NaN
        where="(nan-test n b)",
    ),
)
_UNDER_SUMS = (
    rule(
        "selection-out-of-sum",
        Tag.EXACT,
        "A condition that does not depend on the summed axes is asked once, outside.",
        f"(= t (Sum J (Select c a))) (= s (free c)) {INDEPENDENT('J', 's')}",
        "(union t (Select c (Sum J a)))",
        lambda: (sum_(select(less(x(I), y(I)), z(I, J)), J), select(less(x(I), y(I)), sum_(z(I, J), J))),
        lambda: sum_(select(less(x(I), y(J)), z(I, J)), J),
    ),
    rule(
        "outer-selection-first",
        Tag.EXACT,
        "Of two conditions under a sum, the one free of its axes comes first, to leave it.",
        "(= t (Sum J a)) (= a (Select c (Select e b))) (= s (free e)) (= u (free c)) "
        f"{INDEPENDENT('J', 's')} {DEPENDENT('J', 'u')}",
        "(union a (Select e (Select c b)))",
        lambda: (
            sum_(select(less(x(J), y(I)), select(less(x(I), y(I)), z(I, J))), J),
            select(less(x(I), y(I)), sum_(select(less(x(J), y(I)), z(I, J)), J)),
        ),
        lambda: sum_(select(less(x(I), y(I)), select(less(x(J), y(I)), z(I, J))), J),
    ),
    rule(
        "conjunction-apart",
        Tag.EXACT,
        "A conjunction under a sum comes apart where one condition is free of its axes.",
        "(= t (Sum J a)) (= a (Select (And c e) b)) (= s (free e)) (= u (free c)) "
        f"{INDEPENDENT('J', 's')} {DEPENDENT('J', 'u')}",
        "(union a (Select e (Select c b)))",
        lambda: (
            sum_(select(both(less(x(J), y(I)), less(x(I), y(I))), z(I, J)), J),
            select(less(x(I), y(I)), sum_(select(less(x(J), y(I)), z(I, J)), J)),
        ),
        lambda: sum_(select(both(less(x(J), y(J)), less(y(J), x(J))), z(I, J)), J),
    ),
    rule(
        "selection-out-of-product",
        Tag.REFINES,
        "A selected factor under a sum selects the product.",
        "(within J r t) (= t (Mul (Select c a) e))",
        "(union t (Select c (Mul a e)))",
        lambda: (
            sum_(mul(select(less(x(J), y(I)), z(I, J)), x(I)), J),
            sum_(select(less(x(J), y(I)), mul(z(I, J), x(I))), J),
        ),
        lambda: max_(mul(select(less(x(J), y(I)), z(I, J)), x(I)), J),
    ),
)

SELECTION: tuple[Rule, ...] = (*_CONDITIONS, *_SELECTIONS, *_UNDER_SUMS)
