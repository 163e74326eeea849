"""Sums of floats that hold bounded integers become integer sums; the bound decides whether that is exact."""

from __future__ import annotations

from snell.dtypes import f32, i8, i32, u8
from snell.rewrite.facts import NOT_NUMBER
from snell.rewrite.language import rational
from snell.rewrite.rules.notation import I, mul, sum_, tensor, x, y
from snell.rewrite.rules.rule import Rule, Tag, rule
from snell.rewrite.term import DType, Term, cast
from snell.symbolic import Axis

__all__ = ["INTEGERS"]

_SUM = f"(= t (Sum J a)) {NOT_NUMBER('t')} (integral a u m) (at-most J k) (= F (dtype t)) (exact-below F top)"
_CAST = "(union t (Cast F (Sum J u)))"
_SHORT, _LONG, _ENDLESS = Axis("k", 32), Axis("k", 4096), Axis("k", 1 << 20)


def _dot(axis: Axis, through: DType) -> Term:
    """Σ of a product of bytes, computed in another dtype."""
    weights, activations = tensor("w", I, axis, dtype=u8), tensor("a", axis, dtype=i8)
    total = sum_(mul(cast(weights, through), cast(activations, through)), axis)
    return cast(total, f32)


INTEGERS: tuple[Rule, ...] = (
    rule(
        "integer-sum",
        Tag.EXACT,
        "A float sum of integers too small to be rounded is an integer sum.",
        f"{_SUM} (<= (* m k) top)",
        _CAST,
        lambda: (_dot(_SHORT, f32), _dot(_SHORT, i32)),
        lambda: sum_(mul(x(I, _SHORT), y(_SHORT)), _SHORT),
    ),
    rule(
        "long-integer-sum",
        Tag.REFINES,
        "A float sum of integers that fits 32 bits is an integer sum, more exact than before.",
        f"{_SUM} (> (* m k) top) (< (* m k) {rational(1 << 31)})",
        _CAST,
        lambda: (_dot(_LONG, f32), _dot(_LONG, i32)),
        lambda: _dot(_ENDLESS, f32),
    ),
)
