"""Comparisons, logic and selection.

All of them come from LessThan and the selecting product: `not c` is `c < True`, `and` is c·d, `where(c, a, b)` is
c·a + (not c)·b, which moves a or b unchanged (`graph.selection`).  Comparisons with NaN are false, `!=` is true.
`maximum`, `minimum` and `clip` propagate NaN.
"""

from __future__ import annotations

import math

from snell.dtypes import bool_
from snell.errors import DTypeError
from snell.frontend.ops.elementwise import add, astype, negative
from snell.frontend.promotion import (
    apply,
    as_tensor,
    broadcast,
    cast_to,
    constant_in,
    known_scalar,
    lift,
    meet,
    promote,
    scalar_like,
)
from snell.frontend.tensor import Tensor, TensorLike
from snell.graph.primitives import LessThan, Mul

__all__ = [
    "absolute", "clip", "equal", "greater", "greater_equal", "isfinite", "isinf", "isnan", "less", "less_equal",
    "logical_and", "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "not_equal", "reversed_order",
    "sign", "where",
]  # fmt: skip


def less(a: TensorLike, b: TensorLike) -> Tensor:
    """a < b; false where either is NaN."""
    return _strong(apply(LessThan(), *meet(a, b)))


def greater(a: TensorLike, b: TensorLike) -> Tensor:
    """a > b; false where either is NaN."""
    return less(b, a)


def less_equal(a: TensorLike, b: TensorLike) -> Tensor:
    """a <= b, spelled not (b < a) and neither is NaN."""
    x, y = meet(a, b)
    return _unless_nan(logical_not(less(y, x)), x, y)


def greater_equal(a: TensorLike, b: TensorLike) -> Tensor:
    """a >= b; false where either is NaN."""
    return less_equal(b, a)


def equal(a: TensorLike, b: TensorLike) -> Tensor:
    """a == b, spelled not (a < b) and not (b < a) and neither is NaN."""
    x, y = meet(a, b)
    return _unless_nan(logical_and(logical_not(less(x, y)), logical_not(less(y, x))), x, y)


def not_equal(a: TensorLike, b: TensorLike) -> Tensor:
    """a != b; true where either is NaN."""
    return logical_not(equal(a, b))


def _strong(tensor: Tensor) -> Tensor:
    return Tensor(tensor.operand, tensor.trace)


def _unless_nan(holds: Tensor, *tensors: Tensor) -> Tensor:
    for tensor in tensors:
        if _may_be_nan(tensor):
            holds = logical_and(holds, logical_not(isnan(tensor)))
    return holds


def _may_be_nan(tensor: Tensor) -> bool:
    value = known_scalar(tensor)
    if not tensor.dtype.is_float:
        return False
    return value is None or (isinstance(value, float) and math.isnan(value))


def logical_not(x: TensorLike) -> Tensor:
    """not x, spelled x < True; numbers count as true where they are not 0."""
    tensor = _as_condition(x)
    (true,) = broadcast_like(tensor, scalar_like(tensor, True))
    return apply(LessThan(), tensor, true)


def broadcast_like(tensor: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
    """The others expanded to the tensor's shape."""
    return tuple(other.seen_through(other.operand.view.expand(tensor.shape)) for other in others)


def _as_condition(x: TensorLike) -> Tensor:
    return cast_to(as_tensor(x), bool_)


def _conditions(*values: TensorLike) -> tuple[Tensor, ...]:
    return broadcast(*(cast_to(tensor, bool_) for tensor in lift(*values)))


def logical_and(a: TensorLike, b: TensorLike) -> Tensor:
    """a and b."""
    return apply(Mul(), *_conditions(a, b))


def logical_or(a: TensorLike, b: TensorLike) -> Tensor:
    """a or b, spelled not (not a and not b)."""
    x, y = _conditions(a, b)
    return logical_not(logical_and(logical_not(x), logical_not(y)))


def logical_xor(a: TensorLike, b: TensorLike) -> Tensor:
    """Exactly one of a and b, spelled a < b or b < a."""
    x, y = _conditions(a, b)
    return logical_or(less(x, y), less(y, x))


def isnan(x: TensorLike) -> Tensor:
    """True where x is NaN, spelled not (x < inf) and not (-inf < x), which no number is."""
    tensor = as_tensor(x)
    if not tensor.dtype.is_float:
        return _everywhere(tensor, False)
    low, high = (scalar_like(tensor, value) for value in (-math.inf, math.inf))
    return logical_and(logical_not(less(tensor, high)), logical_not(less(low, tensor)))


def isfinite(x: TensorLike) -> Tensor:
    """True where x is neither NaN nor ±inf."""
    tensor = as_tensor(x)
    if not tensor.dtype.is_float:
        return _everywhere(tensor, True)
    low, high = (scalar_like(tensor, value) for value in (-math.inf, math.inf))
    return logical_and(less(low, tensor), less(tensor, high))


def isinf(x: TensorLike) -> Tensor:
    """True where x is +inf or -inf."""
    tensor = as_tensor(x)
    if not tensor.dtype.is_float:
        return _everywhere(tensor, False)
    return logical_or(equal(tensor, math.inf), equal(tensor, -math.inf))


def _everywhere(tensor: Tensor, value: bool) -> Tensor:
    return broadcast_like(tensor, constant_in(tensor.trace, value, bool_))[0]


def where(condition: TensorLike, a: TensorLike, b: TensorLike) -> Tensor:
    """a where the condition holds, else b: c·a + (not c)·b, a sum that selects, hence exact (-0, inf and NaN included).

    The condition is bool (numbers count as true where not 0); a and b promote; all three broadcast.
    """
    c, x, y = lift(condition, a, b)
    c = cast_to(c, bool_)
    x, y = promote(x, y)
    c, x, y = broadcast(c, x, y)
    known = known_scalar(c)
    if known is not None:
        return _strong(x if known else y)
    if x.dtype == bool_:
        return logical_or(logical_and(c, x), logical_and(logical_not(c), y))
    return _strong(add(apply(Mul(), c, x), apply(Mul(), logical_not(c), y)))


def maximum(a: TensorLike, b: TensorLike) -> Tensor:
    """The greater of a and b, NaN where either is: b where a < b or b is NaN, else a (also where they are equal)."""
    x, y = meet(a, b)
    takes_second = less(x, y)
    if _may_be_nan(y):
        takes_second = logical_or(takes_second, isnan(y))
    return _weak_like(where(takes_second, y, x), x, y)


def minimum(a: TensorLike, b: TensorLike) -> Tensor:
    """The lesser of a and b, NaN where either is: b where b < a or b is NaN, else a (also where they are equal)."""
    x, y = meet(a, b)
    takes_second = less(y, x)
    if _may_be_nan(y):
        takes_second = logical_or(takes_second, isnan(y))
    return _weak_like(where(takes_second, y, x), x, y)


def _weak_like(result: Tensor, *operands: Tensor) -> Tensor:
    return Tensor(result.operand, result.trace, weak=all(operand.weak for operand in operands))


def clip(x: TensorLike, low: TensorLike | None = None, high: TensorLike | None = None) -> Tensor:
    """x limited to low..high (either may be None); NaN stays NaN; where low > high the result is high."""
    result = as_tensor(x)
    if low is not None:
        result = maximum(low, result)
    if high is not None:
        result = minimum(high, result)
    return result


def absolute(x: TensorLike) -> Tensor:
    """|x|; the least integer wraps to itself, as in NumPy.  The derivative is sign(x), 0 at 0."""
    tensor = as_tensor(x)
    if tensor.dtype.kind == "bool":
        raise DTypeError("absolute expected numbers, received bool; cast to an integer first")
    if tensor.dtype.kind == "uint":
        return tensor
    return _weak_like(where(less(tensor, scalar_like(tensor, 0)), negative(tensor), tensor), tensor)


def sign(x: TensorLike) -> Tensor:
    """-1, 0 or 1 in the dtype of x; 0 at NaN, as in PyTorch."""
    tensor = as_tensor(x)
    zero = scalar_like(tensor, 0)
    positive, below = (astype(c, tensor.dtype) for c in (less(zero, tensor), less(tensor, zero)))
    return add(positive, negative(below))


def reversed_order(x: Tensor) -> Tensor:
    """A value that orders exactly the other way round: -x for floats, -1 - x (no overflow) for integers."""
    if x.dtype.is_float:
        return negative(x)
    top = x.dtype.range[1] if x.dtype.kind == "uint" else -1
    return add(negative(x), int(top))
