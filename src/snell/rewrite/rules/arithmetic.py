"""Rules of numbers: units, exact constants, commutativity.  No associativity anywhere (it explodes)."""

from __future__ import annotations

from fractions import Fraction

from snell.rewrite.facts import NOT_NUMBER
from snell.rewrite.language import rational
from snell.rewrite.rules.notation import I, J, add, maximum, mul, negate, number, recip, x, y, z
from snell.rewrite.rules.rule import Rule, Tag, rewrite

__all__ = ["ARITHMETIC"]

_ZERO, _ONE = rational(0), rational(1)
_NUMBERS = (
    rewrite(
        "add-numbers",
        Tag.EXACT,
        "Two numbers are added while compiling.",
        "(Add (Number p d) (Number q d))",
        "(Number (+ p q) d)",
        lambda: (add(number(2), number(3)), number(5)),
        lambda: add(number(2), x(I)),
        replaces=True,
    ),
    rewrite(
        "scale-number",
        Tag.EXACT,
        "A scaled number is a number.",
        "(Scale p (Number q d))",
        "(Number (* p q) d)",
        lambda: (mul(number(2), number(3)), number(6)),
        lambda: mul(number(2), x(I)),
        replaces=True,
    ),
    rewrite(
        "reciprocal-of-number",
        Tag.EXACT,
        "The reciprocal of a number other than 0 is a number.",
        "(Recip (Number p d))",
        f"(Number (/ {_ONE} p) d)",
        lambda: (recip(number(4)), number(Fraction(1, 4))),
        lambda: recip(number(0)),
        where=f"(!= p {_ZERO})",
    ),
    rewrite(
        "product-with-number",
        Tag.EXACT,
        "A product with a number is a scale, which other rules can move.",
        "(Mul (Number p d) a)",
        "(Scale p a)",
        lambda: (mul(add(number(1), number(1)), x(I)), mul(number(2), x(I))),
        lambda: mul(y(I), x(I)),
        replaces=True,
    ),
)
_UNITS = (
    rewrite(
        "scale-by-one",
        Tag.EXACT,
        "Scaling by 1 changes nothing.",
        f"(Scale {_ONE} a)",
        "a",
        lambda: (mul(number(1), x(I)), x(I)),
        lambda: negate(x(I)),
        replaces=True,
    ),
    rewrite(
        "scale-by-zero",
        Tag.REFINES,
        "Scaling by 0 gives 0, also where the value is infinite or NaN.",
        f"(Scale {_ZERO} a)",
        f"(Number {_ZERO} d)",
        lambda: (mul(number(0), x(I)), number(0)),
        lambda: negate(x(I)),
        where="(= d (dtype a))",
        replaces=True,
    ),
    rewrite(
        "add-zero",
        Tag.EXACT,
        "Adding 0 changes nothing.",
        f"(Add (Number {_ZERO} d) a)",
        "a",
        lambda: (add(number(0), x(I)), x(I)),
        lambda: add(number(1), x(I)),
        replaces=True,
    ),
)
_SCALES = (
    rewrite(
        "scale-of-scale",
        Tag.EXACT,
        "Two scales in a row are one.",
        "(Scale p (Scale q a))",
        "(Scale (* p q) a)",
        lambda: (negate(mul(x(I), number(3))), mul(x(I), number(-3))),
        lambda: negate(add(x(I), number(3))),
        where=f"(!= p {_ONE}) (!= q {_ONE}) {NOT_NUMBER('a')} (!= t a)",
        replaces=True,
    ),
    rewrite(
        "scale-out-of-product",
        Tag.EXACT,
        "A scale of a factor is a scale of the product.",
        "(Mul (Scale p a) c)",
        "(Scale p (Mul a c))",
        lambda: (mul(negate(x(I)), y(I)), negate(mul(x(I), y(I)))),
        lambda: mul(x(I), y(I)),
        where=NOT_NUMBER("t"),
    ),
    rewrite(
        "scale-out-of-reciprocal",
        Tag.EXACT,
        "A scale inside a reciprocal leaves it inverted.",
        "(Recip (Scale p a))",
        f"(Scale (/ {_ONE} p) (Recip a))",
        lambda: (recip(mul(x(I), number(4))), mul(recip(x(I)), number(Fraction(1, 4)))),
        lambda: recip(x(I)),
        where=f"(!= p {_ZERO}) (!= p {_ONE}) {NOT_NUMBER('a')}",
    ),
    rewrite(
        "collect-scales",
        Tag.REFINES,
        "Two multiples of one value are one multiple.",
        "(Add (Scale p a) (Scale q a))",
        "(Scale (+ p q) a)",
        lambda: (add(mul(x(I), number(2)), mul(x(I), number(3))), mul(x(I), number(5))),
        lambda: add(mul(x(I), number(2)), mul(y(I), number(3))),
        where=f"(!= p {_ONE}) (!= q {_ONE}) {NOT_NUMBER('a')}",
        replaces=True,
    ),
    rewrite(
        "collect-scale",
        Tag.REFINES,
        "A value and a multiple of it are one multiple.",
        "(Add a (Scale q a))",
        f"(Scale (+ {_ONE} q) a)",
        lambda: (add(x(I), mul(x(I), number(3))), mul(x(I), number(4))),
        lambda: add(x(I), mul(x(J), number(3))),
        where=f"(!= q {_ONE}) {NOT_NUMBER('a')}",
        replaces=True,
    ),
)
_COMMUTATIVITY = (
    rewrite(
        "commute-add",
        Tag.EXACT,
        "The operands of a sum change places.",
        "(Add a b)",
        "(Add b a)",
        lambda: (add(x(I), y(J)), add(y(J), x(I))),
        lambda: mul(x(I), y(J)),
    ),
    rewrite(
        "commute-mul",
        Tag.EXACT,
        "The factors of a product change places.",
        "(Mul a b)",
        "(Mul b a)",
        lambda: (mul(x(I), y(J)), mul(y(J), x(I))),
        lambda: add(x(I), y(J)),
    ),
    rewrite(
        "commute-maximum",
        Tag.EXACT,
        "The operands of a maximum change places.",
        "(Maximum a b)",
        "(Maximum b a)",
        lambda: (maximum(x(I), y(J)), maximum(y(J), x(I))),
        lambda: mul(x(I), add(y(J), z(J))),
    ),
)

ARITHMETIC: tuple[Rule, ...] = (*_NUMBERS, *_UNITS, *_SCALES, *_COMMUTATIVITY)
