"""Element-wise arithmetic and functions of one variable.

Operands broadcast and promote (see `promotion`); each function returns a tensor of the common shape.  Functions that
need floats turn integers and bool into f32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from snell.dtypes import f64, i64
from snell.frontend.promotion import (
    DTypeLike,
    apply,
    as_dtype,
    as_tensor,
    broadcast,
    cast_to,
    known_scalar,
    lift,
    meet,
    promote_float,
    scalar_like,
)
from snell.frontend.tensor import Tensor, TensorLike
from snell.graph.primitives import Add, Contiguous, Exp2, Log2, Mod, Mul, Recip, ScalarFunction, Sin, Sqrt

__all__ = [
    "LN_2",
    "LOG2_E",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "astype",
    "atan",
    "atanh",
    "barrier",
    "contiguous",
    "cos",
    "cosh",
    "divide",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "floor_divide",
    "log",
    "log1p",
    "log2",
    "log10",
    "modulo",
    "multiply",
    "negative",
    "reciprocal",
    "rsqrt",
    "sigmoid",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "wide",
]  # fmt: skip

# Exact values of the float64 constants, which the rewriter's idioms (exp, log) look for.
LOG2_E = Fraction(math.log2(math.e))
LN_2 = Fraction(math.log(2.0))


def add(a: TensorLike, b: TensorLike) -> Tensor:
    """a + b.  Integers wrap; DTypeError for two bools (use logical_or)."""
    return apply(Add(), *meet(a, b))


def multiply(a: TensorLike, b: TensorLike) -> Tensor:
    """a·b.  A bool tensor selects: where it is false the result is 0, even where the other is inf or NaN."""
    x, y = lift(a, b)
    if (x.dtype.kind == "bool") != (y.dtype.kind == "bool") and not (x.weak or y.weak):
        return apply(Mul(), *broadcast(x, y))
    return apply(Mul(), *meet(x, y))


def negative(x: TensorLike) -> Tensor:
    """-x (unsigned integers wrap)."""
    tensor = as_tensor(x)
    minus_one = tensor.dtype.range[1] if tensor.dtype.kind == "uint" else -1
    return multiply(tensor, scalar_like(tensor, minus_one))


def subtract(a: TensorLike, b: TensorLike) -> Tensor:
    """a - b, spelled a + b·(-1)."""
    x, y = meet(a, b)
    return add(x, negative(y))


def reciprocal(x: TensorLike) -> Tensor:
    """1/x."""
    return apply(Recip(), *promote_float(x))


def divide(a: TensorLike, b: TensorLike) -> Tensor:
    """a / b of floats, spelled a·Recip(b), which the compiler turns into a correctly rounded division."""
    x, y = promote_float(a, b)
    return multiply(x, reciprocal(y))


def square(x: TensorLike) -> Tensor:
    """x·x."""
    return multiply(x, x)


def astype(x: TensorLike, dtype: DTypeLike) -> Tensor:
    """x in another dtype.  Float to integer truncates and saturates, NaN to 0; integers wrap; bool is x != 0."""
    return cast_to(as_tensor(x), as_dtype(dtype))


def wide(x: Tensor) -> Tensor:
    """f16 and bf16 as f32, everything else as it is: where an intermediate could overflow or cancel."""
    return astype(x, "f32") if x.dtype.is_float and x.dtype.bits == 16 else x


def contiguous(x: TensorLike) -> Tensor:
    """The identity that asks for a dense layout if the value is stored."""
    tensor = as_tensor(x)
    return apply(Contiguous(tensor.dtype), tensor)


def barrier(x: TensorLike) -> Tensor:
    """The identity that no rewrite rule looks through."""
    return apply(ScalarFunction("barrier"), as_tensor(x))


def exp2(x: TensorLike) -> Tensor:
    """2ˣ."""
    return apply(Exp2(), *promote_float(x))


def exp(x: TensorLike) -> Tensor:
    """eˣ, spelled Exp2(x·log₂e)."""
    return exp2(multiply(*promote_float(x), LOG2_E))


def log2(x: TensorLike) -> Tensor:
    """log₂ x; -inf at 0, NaN below."""
    return apply(Log2(), *promote_float(x))


def log(x: TensorLike) -> Tensor:
    """ln x, spelled Log2(x)·ln 2; -inf at 0, NaN below."""
    return multiply(log2(x), LN_2)


def log10(x: TensorLike) -> Tensor:
    """log₁₀ x; -inf at 0, NaN below."""
    return multiply(log2(x), Fraction(math.log10(2.0)))


def sqrt(x: TensorLike) -> Tensor:
    """Square root; NaN below 0."""
    return apply(Sqrt(), *promote_float(x))


def sin(x: TensorLike) -> Tensor:
    """sin x, in radians; NaN at ±inf."""
    return apply(Sin(), *promote_float(x))


def _named(name: str, meaning: str) -> Callable[[TensorLike], Tensor]:
    """A function that is a named group of primitives: opaque to rules, expanded or generated later."""

    def function(x: TensorLike) -> Tensor:
        return apply(ScalarFunction(name), *promote_float(x))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{meaning}, element by element; floats keep their dtype, integers and bool become f32."
    return function


cos = _named("cos", "cos x, in radians; NaN at ±inf")
tan = _named("tan", "tan x, in radians; NaN at ±inf")
asin = _named("asin", "arc sine; NaN outside [-1, 1]")
acos = _named("acos", "arc cosine; NaN outside [-1, 1]")
atan = _named("atan", "arc tangent")
sinh = _named("sinh", "hyperbolic sine")
cosh = _named("cosh", "hyperbolic cosine")
tanh = _named("tanh", "hyperbolic tangent")
erf = _named("erf", "the error function 2/√π ∫₀ˣ exp(-t²) dt")
expm1 = _named("expm1", "eˣ - 1, accurate near 0")
log1p = _named("log1p", "ln(1 + x), accurate near 0; -inf at -1, NaN below")
sigmoid = _named("sigmoid", "1 / (1 + exp(-x))")
rsqrt = _named("rsqrt", "1/√x; inf at 0, NaN below")


def asinh(x: TensorLike) -> Tensor:
    """Inverse hyperbolic sine, ln(|x| + √(x²+1)) with the sign of x."""
    (y,) = promote_float(x)
    magnitude = _magnitude(y)
    # log1p(a + a²/(1 + √(a²+1))) keeps small arguments; above 2²⁶ the square would overflow first and √ is a itself.
    large = magnitude > 2.0**26
    inner = magnitude + square(magnitude) / (1.0 + sqrt(square(magnitude) + 1.0))
    value = ~large * log1p(inner) + large * (log(magnitude) + float(LN_2))
    return (y < 0) * -value + ~(y < 0) * value


def acosh(x: TensorLike) -> Tensor:
    """Inverse hyperbolic cosine; NaN below 1."""
    (y,) = promote_float(x)
    t = y - 1.0
    large = y > 2.0**26
    return ~large * log1p(t + sqrt(t * (t + 2.0))) + large * (log(y) + float(LN_2))


def atanh(x: TensorLike) -> Tensor:
    """Inverse hyperbolic tangent; ±inf at ±1, NaN outside."""
    (y,) = promote_float(x)
    return 0.5 * (log1p(y) - log1p(-y))


def _magnitude(x: Tensor) -> Tensor:
    return (x < 0) * -x + ~(x < 0) * x


def _guard_divisor(result: Tensor, divisor: Tensor) -> None:
    """Record that an integer divisor must not be 0, unless it is known not to be."""
    known = known_scalar(divisor)
    if known:
        return
    is_zero_free = (divisor < 0) | (divisor > 0)
    message = "integer division by zero: the divisor is {value}"
    result.trace.check(is_zero_free.operand, divisor.operand, message, result.operand.node)


def modulo(a: TensorLike, b: TensorLike) -> Tensor:
    """Remainder with the divisor's sign (Python's rule).  Integer modulo 0 is 0 and fails a check."""
    x, y = meet(a, b)
    result = apply(Mod(), x, y)
    if not x.dtype.is_float:
        _guard_divisor(result, y)
    return result


def floor_divide(a: TensorLike, b: TensorLike) -> Tensor:
    """⌊a/b⌋, exact for every pair of integers.  Integer division by 0 is 0 and fails a check; floats follow IEEE."""
    x, y = meet(a, b)
    return _floor_divide_floats(x, y) if x.dtype.is_float else _floor_divide_integers(x, y)


def _floor_divide_floats(a: Tensor, b: Tensor) -> Tensor:
    """The exact multiple (a - a mod b)/b, rounded to the integer it is; a/b itself where b is 0."""
    sign = ~(a < 0) * scalar_like(a, 1) + (a < 0) * scalar_like(a, -1)
    remainder = modulo(_magnitude(a), _magnitude(b)) * sign
    crosses = ((remainder < 0) & (b > 0)) | ((remainder > 0) & (b < 0))
    quotient = (a - remainder) / b - astype(crosses, a.dtype)
    finite = (-math.inf < quotient) & (quotient < math.inf)
    nearest = quotient - finite * (modulo(quotient + 0.5, 1.0) - 0.5)
    is_zero = ~(b < 0) & ~(b > 0) & (b < 1)
    return is_zero * (a / b) + ~is_zero * nearest


def _floor_divide_integers(a: Tensor, b: Tensor) -> Tensor:
    """⌊a/b⌋ through float64: the multiple a - rem is divided exactly, in two steps where it exceeds float64's integers.

    `rem` has the sign of a, so that a - rem never overflows.  The first quotient is an underestimate by at most 2^-50
    of itself, the second divides what is left, which is an exact multiple below 2^14·b.
    """
    remainder = apply(Mod(), a, b)
    crosses = (a < 0) ^ (b < 0)
    crosses = crosses & ((remainder < 0) | (remainder > 0))
    multiple = a - (remainder - crosses * b)
    inverse = reciprocal(astype(b, f64))
    if a.dtype.bits < 64:
        quotient = astype(astype(multiple, f64) * inverse * (1 + 2.0**-40), i64)
        quotient = astype(quotient, a.dtype)
    else:
        first = astype(astype(multiple, f64) * inverse * (1 - 2.0**-50), a.dtype)
        rest = multiple - first * b
        quotient = first + astype(astype(rest, f64) * inverse * (1 + 2.0**-20), a.dtype)
    is_nonzero = (b < 0) | (b > 0)
    result = is_nonzero * (quotient - astype(crosses, a.dtype))
    _guard_divisor(result, b)
    return result
