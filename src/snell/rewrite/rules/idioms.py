"""Idioms recovered from primitives: difference, quotient, exp, casts, reciprocals of reciprocals."""

from __future__ import annotations

import math
from fractions import Fraction

from snell.dtypes import f16, f32, f64, i8, i32
from snell.graph.primitives import Exp2, ScalarFunction
from snell.rewrite.language import EXP, EXP2, rational
from snell.rewrite.rules.notation import I, J, add, apply, divide, exp2, mul, negate, number, recip, subtract, x, y
from snell.rewrite.rules.rule import Rule, Tag, rewrite
from snell.rewrite.term import cast

__all__ = ["IDIOMS", "LOG2_E"]

# log2(e) as the double that the frontend multiplies by; any other constant near it is somebody's own number.
LOG2_E = Fraction(math.log2(math.e))

_EXP = ScalarFunction("exp")

IDIOMS: tuple[Rule, ...] = (
    rewrite(
        "subtract",
        Tag.EXACT,
        "Adding the negative is one subtraction.",
        f"(Add a (Scale {rational(-1)} b))",
        "(Subtract a b)",
        lambda: (add(x(I), negate(y(J))), subtract(x(I), y(J))),
        lambda: add(x(I), mul(y(J), number(-2))),
    ),
    rewrite(
        "divide",
        Tag.EXACT,
        "A product with a reciprocal is one division.",
        "(Mul a (Recip b))",
        "(Divide a b)",
        lambda: (mul(x(I), recip(y(I))), divide(x(I), y(I))),
        lambda: add(x(I), recip(y(I))),
    ),
    rewrite(
        "reciprocal-of-reciprocal",
        Tag.EXACT,
        "A reciprocal undoes a reciprocal.",
        "(Recip (Recip a))",
        "a",
        lambda: (recip(recip(x(I))), x(I)),
        lambda: recip(exp2(recip(x(I)))),
    ),
    rewrite(
        "exp",
        Tag.EXACT,
        "A power of 2 of a value scaled by log2(e) is exp, reduced accurately.",
        f"(Unary {EXP2} (Scale {rational(LOG2_E)} a))",
        f"(Unary {EXP} a)",
        lambda: (apply(Exp2(), mul(x(I), number(LOG2_E))), apply(_EXP, x(I))),
        lambda: apply(Exp2(), mul(x(I), number(Fraction(14427, 10000)))),
    ),
    rewrite(
        "cast-to-own-type",
        Tag.EXACT,
        "A cast to the type that a value has already does nothing.",
        "(Cast d a)",
        "a",
        lambda: (cast(cast(cast(x(I, dtype=f16), f32), f16), f32), cast(x(I, dtype=f16), f32)),
        lambda: cast(x(I), f16),
        where="(= d (dtype a))",
    ),
    rewrite(
        "cast-of-cast",
        Tag.EXACT,
        "A cast through a type that holds every value of the first is one cast.",
        "(Cast d (Cast m a))",
        "(Cast d a)",
        lambda: (cast(cast(x(I, dtype=i8), i32), f32), cast(x(I, dtype=i8), f32)),
        lambda: cast(cast(x(I, dtype=f64), f16), f32),
        where="(= s (dtype a)) (elided s m d)",
    ),
)
