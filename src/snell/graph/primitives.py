"""The twelve primitives and four sources, plus named scalar functions (groups of primitives).

Each operation is a frozen value; its dtype rule and NumPy semantics stand beside it.  Operands arrive through views, so
every element-wise operand already has the result's shape.  Float arithmetic is evaluated in float64 by the reference
interpreter; `evaluate` therefore receives float64 for floats and the exact integer dtype for integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from snell.dtypes import DType, bool_, i64, u32
from snell.errors import DTypeError
from snell.graph.storage import Storage
from snell.symbolic import Dim, Shape, Size

__all__ = [
    "Add", "Binary", "Constant", "Contiguous", "Exp2", "Input", "Iota", "LessThan", "Log2", "MaxReduce", "Mod", "Mul",
    "Op", "Random", "Recip", "Reduce", "ScalarFunction", "Sin", "Source", "Sqrt", "Storage", "Structured", "SumReduce",
    "Unary",
]  # fmt: skip

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Op:
    """Anything that can stand in a node."""


@dataclass(frozen=True, slots=True)
class Source(Op):
    """A node without arithmetic operands (Random has its key)."""


@dataclass(frozen=True, slots=True)
class Input(Source):
    """A named array given at each call; `frozen` inputs (weights) are bound once; `donated` ones may be overwritten."""

    name: str
    shape: Shape
    dtype: DType
    frozen: bool = False
    donated: bool = False
    storage: Storage | None = None


@dataclass(frozen=True, slots=True)
class Constant(Source):
    """An exact scalar, rounded to its dtype only where it is emitted."""

    value: int | Fraction | float
    dtype: DType


@dataclass(frozen=True, slots=True)
class Iota(Source):
    """0, 1, 2, … of a (possibly symbolic) extent."""

    extent: Size
    dtype: DType = i64


@dataclass(frozen=True, slots=True)
class Random(Source):
    """Philox4x32-10 bits: u32 of `shape`, counter = row-major index, key = operand of dtype u32 and shape (2,)."""

    shape: Shape
    dtype: DType = u32


@dataclass(frozen=True, slots=True)
class Unary(Op):
    """One float operand, same dtype out; integers and bool are rejected."""

    def result_dtype(self, operand: DType) -> DType:
        if not operand.is_float:
            raise DTypeError(f"{type(self).__name__} expected a float, received {operand}; cast with .astype first")
        return operand

    def evaluate(self, x: Array) -> Array:
        raise TypeError(f"{type(self).__name__} is abstract")


@dataclass(frozen=True, slots=True)
class Log2(Unary):
    """log₂ x; -inf at 0, NaN below."""

    def evaluate(self, x: Array) -> Array:
        return np.log2(x)


@dataclass(frozen=True, slots=True)
class Exp2(Unary):
    """2ˣ."""

    def evaluate(self, x: Array) -> Array:
        return np.exp2(x)


@dataclass(frozen=True, slots=True)
class Sin(Unary):
    """sin x, x in radians; NaN at ±inf; keeps the sign of zero."""

    def evaluate(self, x: Array) -> Array:
        return np.sin(x)


@dataclass(frozen=True, slots=True)
class Sqrt(Unary):
    """Correctly rounded square root; NaN below zero."""

    def evaluate(self, x: Array) -> Array:
        return np.sqrt(x)


@dataclass(frozen=True, slots=True)
class Recip(Unary):
    """1/x; ±inf at ±0."""

    def evaluate(self, x: Array) -> Array:
        return np.reciprocal(x)


@dataclass(frozen=True, slots=True)
class Binary(Op):
    """Two operands of one shape."""

    def result_dtype(self, a: DType, b: DType) -> DType:
        if a != b or a.is_packed:
            raise DTypeError(f"{type(self).__name__} expected operands of one dtype, received {a} and {b}; cast first")
        return a

    def evaluate(self, a: Array, b: Array) -> Array:
        raise TypeError(f"{type(self).__name__} is abstract")


@dataclass(frozen=True, slots=True)
class Add(Binary):
    """a + b; integers wrap; bool is rejected."""

    def result_dtype(self, a: DType, b: DType) -> DType:
        if a == bool_ and b == bool_:
            raise DTypeError("Add expected numbers, received bool; use logical_or, or cast to an integer first")
        return Binary.result_dtype(self, a, b)

    def evaluate(self, a: Array, b: Array) -> Array:
        return a + b


@dataclass(frozen=True, slots=True)
class Mul(Binary):
    """a·b; a bool operand selects: the result is 0 where it is false, whatever the other holds; bool·bool is and."""

    def result_dtype(self, a: DType, b: DType) -> DType:
        if a == bool_ or b == bool_:
            return b if a == bool_ else a
        return Binary.result_dtype(self, a, b)

    def evaluate(self, a: Array, b: Array) -> Array:
        if a.dtype == np.bool_ and b.dtype == np.bool_:
            return np.logical_and(a, b)
        if a.dtype == np.bool_:
            return np.where(a, b, np.zeros((), b.dtype))
        if b.dtype == np.bool_:
            return np.where(b, a, np.zeros((), a.dtype))
        return a * b


@dataclass(frozen=True, slots=True)
class Mod(Binary):
    """Remainder with the divisor's sign (Python's rule); integer mod 0 is 0; INT_MIN mod -1 is 0; bool is rejected."""

    def result_dtype(self, a: DType, b: DType) -> DType:
        if a == bool_:
            raise DTypeError("Mod expected numbers, received bool; cast to an integer first")
        return Binary.result_dtype(self, a, b)

    def evaluate(self, a: Array, b: Array) -> Array:
        return np.mod(a, b)


@dataclass(frozen=True, slots=True)
class LessThan(Binary):
    """a < b as bool; false where either is NaN; bool operands compare as 0 and 1."""

    def result_dtype(self, a: DType, b: DType) -> DType:
        Binary.result_dtype(self, a, b)
        return bool_

    def evaluate(self, a: Array, b: Array) -> Array:
        return np.less(a, b)


@dataclass(frozen=True, slots=True)
class Reduce(Op):
    """A reduction over `axes` of the operand's view shape; the axes vanish from the result."""

    axes: tuple[int, ...]

    def result_dtype(self, operand: DType) -> DType:
        if operand == bool_ or operand.is_packed:
            raise DTypeError(f"{type(self).__name__} expected numbers, received {operand}; cast first")
        return operand

    def evaluate(self, x: Array) -> Array:
        raise TypeError(f"{type(self).__name__} is abstract")


@dataclass(frozen=True, slots=True)
class SumReduce(Reduce):
    """Sum; 0 for an empty axis; integers wrap."""

    def evaluate(self, x: Array) -> Array:
        return x.sum(axis=self.axes, dtype=x.dtype)


@dataclass(frozen=True, slots=True)
class MaxReduce(Reduce):
    """Maximum, propagating NaN; -inf or the least integer for an empty axis."""

    def evaluate(self, x: Array) -> Array:
        lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
        return x.max(axis=self.axes, initial=lowest)


@dataclass(frozen=True, slots=True)
class Contiguous(Op):
    """The identity with a dtype change, the only cast: float→int truncates and saturates, NaN→0; int→int wraps."""

    dtype: DType

    def result_dtype(self, operand: DType) -> DType:
        del operand
        return self.dtype


@dataclass(frozen=True, slots=True)
class ScalarFunction(Op):
    """A named group of primitives (exp, tanh, erf, …), opaque to rules; `barrier` is the identity so protected."""

    name: str

    def result_dtype(self, operand: DType) -> DType:
        if not operand.is_float and self.name != "barrier":
            raise DTypeError(f"{self.name} expected a float, received {operand}; cast with .astype(...) first")
        return operand


@dataclass(frozen=True, slots=True)
class Structured(Op):
    """A node that holds a graph (`graph.scan`): no arithmetic of its own, only primitives inside."""

    def result_type(self) -> tuple[Shape, DType]:
        """Shape and dtype of the node."""
        raise TypeError(f"{type(self).__name__} is abstract")

    def dims(self) -> tuple[Dim, ...]:
        """The dims that occur inside."""
        raise TypeError(f"{type(self).__name__} is abstract")


def reduced_shape(shape: Shape, axes: Sequence[int]) -> Shape:
    """The shape without the reduced axes."""
    return tuple(size for k, size in enumerate(shape) if k not in set(axes))
