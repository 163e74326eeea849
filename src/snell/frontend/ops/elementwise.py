"""Element-wise arithmetic and functions of one variable.

Operands broadcast and promote (see `promotion`); each function returns a tensor of the common shape.  Functions that
need floats turn integers and bool into f32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from snell.errors import DTypeError
from snell.frontend.promotion import (
    DTypeLike,
    apply,
    as_dtype,
    as_tensor,
    broadcast,
    cast_to,
    lift,
    meet,
    promote_float,
    scalar_like,
)
from snell.frontend.tensor import Tensor, TensorLike
from snell.graph.primitives import Add, Contiguous, Exp2, Log2, Mul, Recip, ScalarFunction, Sin, Sqrt

__all__ = [
    "LN_2", "LOG2_E", "acos", "add", "asin", "astype", "atan", "barrier", "contiguous", "cos", "cosh", "divide",
    "erf", "exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "multiply", "negative", "reciprocal", "rsqrt",
    "sigmoid", "sin", "sinh", "sqrt", "square", "subtract", "tan", "tanh", "wide",
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
    """-x (unsigned integers wrap).  DTypeError for bool (use logical_not)."""
    tensor = as_tensor(x)
    if tensor.dtype.kind == "bool":
        raise DTypeError("negative expected numbers, received bool; use logical_not, or cast to an integer first")
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
    (y,) = promote_float(x)
    return exp2(multiply(y, LOG2_E))


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
