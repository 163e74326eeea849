"""The VJP of every primitive: from a node and its cotangent to the cotangents of its operands.

Where a derivative is not defined: elements that share a maximum share its cotangent equally; |x| has derivative 0 at 0;
√0 has derivative inf, as in the limit; `sign`, comparisons, rounding and integers have none.  A cotangent that a
selection made 0 stays exactly 0 through element-wise arithmetic and casts, whatever the derivative there is: the
selection is applied again to each product, so the branch that `where` does not take contributes 0 even where it is inf
or NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType

from snell.dtypes import bool_, f32
from snell.errors import UnsupportedError
from snell.graph.node import Builder, Node, Operand, full_view
from snell.graph.primitives import (
    Add,
    Constant,
    Contiguous,
    Exp2,
    LessThan,
    Log2,
    MaxReduce,
    Mod,
    Mul,
    Recip,
    ScalarFunction,
    Sin,
    Source,
    Sqrt,
    SumReduce,
)
from snell.graph.selection import absolute_of
from snell.graph.value import Value
from snell.symbolic import View, coordinates

__all__ = ["cotangents"]

# Reciprocals of the constants by which exp and log are written, so that these products are exactly 1.
_LN_2 = 1 / Fraction(math.log2(math.e))
_PER_LN_2 = 1 / Fraction(math.log(2.0))

# Operations through which a selection is looked for: more than an expression between two selections has.
_DEPTH = 8


def cotangents(builder: Builder, node: Node, cotangent: Operand) -> Sequence[Operand | None]:
    """One cotangent an operand, in the shape in which the node sees it; None where nothing flows back."""
    g, y = Value(builder, cotangent), Value(builder, full_view(node))
    x = [Value(builder, operand) for operand in node.operands]
    match node.op:
        case LessThan() | Source():
            found: list[Value | None] = [None] * len(x)
        case Add():
            found = _summands(g, node)
        case Mul():
            found = [_factor(g, x[0], x[1]), _factor(g, x[1], x[0])]
        case Mod():
            found = [g, _scaled(g, (y - x[0]) / x[1])]
        case SumReduce(axes):
            found = [_spread(g, node.operands[0], axes)]
        case MaxReduce(axes):
            found = [_shared(g, y, x[0], axes)]
        case Contiguous():
            found = [_cast(g, x[0])]
        case Log2() | Exp2() | Sin() | Sqrt() | Recip():
            found = [_scaled(g, _PRIMITIVES[type(node.op)](x[0], y))]
        case ScalarFunction(name):
            found = [g if name == "barrier" else _scaled(g, _FUNCTIONS[name](x[0], y))]
        case _:
            raise UnsupportedError(f"{type(node.op).__name__} has no derivative; expected a primitive")
    return [None if value is None else value.seen for value in found]


def _summands(g: Value, node: Node) -> list[Value | None]:
    """The cotangent itself, but for |x| = (x < 0)·(-x) + (not (x < 0))·x, whose second term gets it only above 0."""
    seen = absolute_of(node)
    if seen is None:
        return [g, g]
    x = Value(g.builder, seen)
    return [g, (x.constant(0) < x).apply(Mul(), g)]


def _factor(g: Value, factor: Value, other: Value) -> Value | None:
    """The cotangent of one factor of a product; a bool selects and has none."""
    if factor.seen.dtype == bool_:
        return None
    if other.seen.dtype == bool_:
        return other.apply(Mul(), g)
    # Where both factors are repeated this is a term of a product sum, which selections would slow down.
    is_term = not (factor.seen.is_whole or other.seen.is_whole or isinstance(other.seen.node.op, Constant))
    return g * other if is_term else _scaled(g, other)


def _scaled(g: Value, derivative: Value) -> Value:
    """g·derivative, 0 wherever a selection made g 0."""
    total = g * derivative
    for condition in _selections(g.seen, _DEPTH):
        total = Value(g.builder, condition).apply(Mul(), total)
    return total


def _selections(operand: Operand, depth: int) -> dict[Operand, None]:
    """Conditions without which a cotangent is a selected 0: bool factors, and those that all parts of a sum share.

    A cast of 0 is 0.
    """
    node = operand.node
    if isinstance(node.op, Contiguous) and depth > 0:
        inner = node.operands[0]
        return _selections(Operand(inner.node, inner.view.then(operand.view)), depth - 1)
    if not isinstance(node.op, Mul | Add) or depth == 0:
        return {}
    parts = [Operand(o.node, o.view.then(operand.view)) for o in node.operands]
    first, second = (dict.fromkeys([p]) if p.dtype == bool_ else _selections(p, depth - 1) for p in parts)
    return first | second if isinstance(node.op, Mul) else {c: None for c in first if c in second}


def _cast(g: Value, x: Value) -> Value | None:
    if not (x.seen.dtype.is_float and g.seen.dtype.is_float):
        return None
    return g if x.seen.dtype == g.seen.dtype else g.apply(Contiguous(x.seen.dtype))


def _spread(value: Value, operand: Operand, axes: tuple[int, ...]) -> Value:
    """A reduction's result repeated along the axes it was reduced over."""
    kept = tuple(c for k, c in enumerate(coordinates(operand.shape)) if k not in axes)
    return Value(value.builder, Operand(value.seen.node, value.seen.view.then(View(operand.shape, kept))))


def _shared(g: Value, y: Value, x: Value, axes: tuple[int, ...]) -> Value:
    """To each of n equal maxima 1/n of the cotangent, counted in at least f32."""
    greatest = (x < _spread(y, x.seen, axes)).negated()
    counted = x.seen.dtype if x.seen.dtype.bits >= f32.bits else f32
    count = greatest.apply(Contiguous(counted)).apply(SumReduce(axes))
    wide = g if counted == g.seen.dtype else g.apply(Contiguous(counted))
    share = wide / count
    narrow = share if counted == g.seen.dtype else share.apply(Contiguous(g.seen.dtype))
    return greatest.apply(Mul(), _spread(narrow, x.seen, axes))


_Derivative = Callable[[Value, Value], Value]
"""From x and y = f(x) to f'(x)."""

_PRIMITIVES: Mapping[type, _Derivative] = MappingProxyType(
    {
        Log2: lambda x, y: x.apply(Recip()) * _PER_LN_2,
        Exp2: lambda x, y: y * _LN_2,
        Sin: lambda x, y: _function("cos", x),
        Sqrt: lambda x, y: y.apply(Recip()) * Fraction(1, 2),
        Recip: lambda x, y: -(y * y),
    }
)


def _function(name: str, x: Value) -> Value:
    return x.apply(ScalarFunction(name))


_FUNCTIONS: Mapping[str, _Derivative] = MappingProxyType(
    {
        "exp": lambda x, y: y,
        "exp2": lambda x, y: y * _LN_2,
        "expm1": lambda x, y: _function("exp", x),
        "log": lambda x, y: x.apply(Recip()),
        "log2": lambda x, y: x.apply(Recip()) * _PER_LN_2,
        "log1p": lambda x, y: (x + 1).apply(Recip()),
        "sin": lambda x, y: _function("cos", x),
        "cos": lambda x, y: -_function("sin", x),
        "tan": lambda x, y: y * y + 1,
        "asin": lambda x, y: _function("rsqrt", (1 - x) * (1 + x)),
        "acos": lambda x, y: -_function("rsqrt", (1 - x) * (1 + x)),
        "atan": lambda x, y: (x * x + 1).apply(Recip()),
        "sinh": lambda x, y: _function("cosh", x),
        "cosh": lambda x, y: _function("sinh", x),
        "tanh": lambda x, y: (1 - y) * (1 + y),
        "erf": lambda x, y: _function("exp", -(x * x)) * Fraction(2 / math.sqrt(math.pi)),
        "sigmoid": lambda x, y: y * (1 - y),
        "rsqrt": lambda x, y: y * y * y * Fraction(-1, 2),
    }
)
