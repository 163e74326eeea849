"""Each named scalar function as a small subgraph of primitives, split by range so that no digit cancels.

`expand(name, builder, operand)` gives a node with the meaning of `ScalarFunction(name)` in exact arithmetic (tested in
float64); generated code uses its own version of equal error.  Selections are `c*a + (not c)*b`, so the branch that is
not taken may overflow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType

from snell.errors import UnsupportedError
from snell.graph.node import Builder, Node, Operand
from snell.graph.primitives import Exp2, Log2, Recip, ScalarFunction, Sin, Sqrt
from snell.graph.value import Number, Value

__all__ = ["expand"]


def expand(name: str, builder: Builder, operand: Operand) -> Node:
    """The subgraph that `ScalarFunction(name)` stands for; `barrier` stays, having nothing inside."""
    if name == "barrier":
        return builder.add(ScalarFunction("barrier"), [operand])
    formula = _FORMULAS.get(name)
    if formula is None:
        raise UnsupportedError(f"unknown scalar function {name!r}; expected one of {', '.join(sorted(_FORMULAS))}")
    result = formula(Value(builder, operand)).seen
    return result.node


def _exp(x: Value) -> Value:
    return (x * math.log2(math.e)).apply(Exp2())


def _log(x: Value) -> Value:
    return x.apply(Log2()) * math.log(2)


def _series(x: Value, terms: Sequence[Number], odd: bool) -> Value:
    """A Taylor polynomial in x² (times x where odd)."""
    even = (x * x).polynomial(terms)
    return x * even if odd else even


def _expm1(x: Value) -> Value:
    small = x.polynomial([0, *(Fraction(1, math.factorial(k)) for k in range(1, 16))])
    return (x.magnitude() < 0.5).choose(small, _exp(x) - 1)


def _log1p(x: Value) -> Value:
    """ln(1+x) = 2·artanh(x/(2+x)) near 0."""
    t = x / (x + 2)
    small = 2 * _series(t, [Fraction(1, 2 * k + 1) for k in range(14)], odd=True)
    return (x.magnitude() < 0.25).choose(small, _log(x + 1))


def _cos(x: Value) -> Value:
    """cos 2h = 1 - 2 sin² h: no rounding of π/2 enters."""
    half = (x * Fraction(1, 2)).apply(Sin())
    return 1 - 2 * half * half


def _tan(x: Value) -> Value:
    return x.apply(Sin()) / _cos(x)


def _sinh(x: Value) -> Value:
    """sinh x = (m + m/(m+1))/2 with m = expm1 |x|, halving the exponent where eˣ would overflow."""
    a = x.magnitude()
    m = _expm1(a)
    half = _exp(a * Fraction(1, 2))
    large = half * (half * Fraction(1, 2))
    return _with_sign(x, (a < 20).choose((m + m / (m + 1)) * Fraction(1, 2), large))


def _cosh(x: Value) -> Value:
    half = _exp(x.magnitude() * Fraction(1, 2))
    rest = _exp(-x.magnitude()) * Fraction(1, 2)
    return half * (half * Fraction(1, 2)) + rest


def _tanh(x: Value) -> Value:
    """tanh |x| = m/(m+2) with m = expm1(2|x|), 1 beyond where that is 1."""
    a = x.magnitude()
    m = _expm1(2 * a)
    return _with_sign(x, (a.constant(20) < a).choose(x.constant(1), m / (m + 2)))


def _sigmoid(x: Value) -> Value:
    return (_exp(-x) + 1).apply(Recip())


def _with_sign(x: Value, magnitude: Value) -> Value:
    return (x < 0).choose(-magnitude, magnitude)


def _atan(x: Value) -> Value:
    """Reduced to |t| ≤ tan(π/16) by 1/x, then by atan x = 2·atan(x / (1 + √(1+x²))) twice."""
    a = x.magnitude()
    inverted = a.constant(1) < a
    t = inverted.choose(a.apply(Recip()), a)
    for _ in range(2):
        t = t / ((t * t + 1).apply(Sqrt()) + 1)
    series = 4 * _series(t, [Fraction((-1) ** k, 2 * k + 1) for k in range(14)], odd=True)
    return _with_sign(x, inverted.choose(math.pi / 2 - series, series))


def _asin(x: Value) -> Value:
    return _atan(x / ((1 - x) * (1 + x)).apply(Sqrt()))


def _acos(x: Value) -> Value:
    """acos x = 2·atan √((1-x)/(1+x))."""
    return 2 * _atan(((1 - x) / (1 + x)).apply(Sqrt()))


def _erf(x: Value) -> Value:
    """A series below 3, a continued fraction of erfc up to 6, 1 beyond (Abramowitz & Stegun 7.1.6, 7.1.14)."""
    a = x.magnitude()
    square = a * a
    term = a * (2 / math.sqrt(math.pi))
    total = term
    for k in range(1, 60):
        term = term * square * Fraction(2, 2 * k + 1)
        total = total + term
    small = total * _exp(-square)
    tail = a
    for k in range(40, 0, -1):
        tail = a + Fraction(k, 2) * tail.apply(Recip())
    large = 1 - _exp(-square) * tail.apply(Recip()) * (1 / math.sqrt(math.pi))
    inside = (a < 3).choose(small, large)
    return _with_sign(x, (a.constant(6) < a).choose(x.constant(1), inside))


_FORMULAS: Mapping[str, Callable[[Value], Value]] = MappingProxyType(
    {
        "exp": _exp, "log": _log, "expm1": _expm1, "log1p": _log1p, "cos": _cos, "tan": _tan, "sinh": _sinh,
        "cosh": _cosh, "tanh": _tanh, "sigmoid": _sigmoid, "atan": _atan, "asin": _asin, "acos": _acos, "erf": _erf,
        "exp2": lambda x: x.apply(Exp2()), "log2": lambda x: x.apply(Log2()), "sin": lambda x: x.apply(Sin()),
        "rsqrt": lambda x: x.apply(Sqrt()).apply(Recip()),
    }
)  # fmt: skip
