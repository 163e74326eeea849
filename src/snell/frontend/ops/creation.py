"""Creation: tensors made from nothing.

They belong to no program until they meet a tensor of one, so they may be called anywhere.  Sizes may be Dims.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from snell.dtypes import DType, f32, i64
from snell.errors import DTypeError, ShapeError
from snell.frontend.context import Trace
from snell.frontend.ops.comparison import less, logical_not, where
from snell.frontend.ops.elementwise import astype
from snell.frontend.promotion import DTypeLike, as_dtype, as_tensor, broadcast
from snell.frontend.shapes import ShapeLike, SizeLike, as_shape, known_size
from snell.frontend.tensor import Tensor, TensorLike
from snell.graph.primitives import Iota
from snell.symbolic import as_expr, as_size

__all__ = [
    "arange", "array", "eye", "full", "full_like", "iota", "linspace", "ones", "ones_like", "size_of", "tri",
    "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip


def array(value: TensorLike | Sequence[Any], dtype: DTypeLike | None = None) -> Tensor:
    """A tensor of a NumPy array, a nested list or a number (Python floats become f32); arrays are kept by reference."""
    tensor = as_tensor(value)
    strong = Tensor(tensor.operand, tensor.trace)
    return strong if dtype is None else astype(strong, dtype)


def size_of(size: SizeLike) -> Tensor:
    """The run-time value of a size, an i64 scalar that is weakly typed like a Python integer."""
    return as_tensor(as_size(size))


def full(shape: ShapeLike, value: TensorLike, dtype: DTypeLike | None = None) -> Tensor:
    """One value everywhere; the dtype defaults to the value's (f32 for a Python float, i64 for an integer)."""
    scalar = as_tensor(value)
    target = scalar.dtype if dtype is None else as_dtype(dtype)
    scalar = astype(scalar, target)
    return Tensor(scalar.seen_through(scalar.operand.view.expand(as_shape(shape))).operand, scalar.trace)


def zeros(shape: ShapeLike, dtype: DTypeLike = f32) -> Tensor:
    """Zeros (false for bool)."""
    return full(shape, 0, dtype)


def ones(shape: ShapeLike, dtype: DTypeLike = f32) -> Tensor:
    """Ones (true for bool)."""
    return full(shape, 1, dtype)


def full_like(x: TensorLike, value: TensorLike, dtype: DTypeLike | None = None) -> Tensor:
    """One value everywhere in the shape of x, and in its dtype unless another is given."""
    tensor = as_tensor(x)
    return full(tensor.shape, value, dtype or tensor.dtype)


def zeros_like(x: TensorLike, dtype: DTypeLike | None = None) -> Tensor:
    """Zeros in the shape of x."""
    return full_like(x, 0, dtype)


def ones_like(x: TensorLike, dtype: DTypeLike | None = None) -> Tensor:
    """Ones in the shape of x."""
    return full_like(x, 1, dtype)


def iota(extent: SizeLike, dtype: DTypeLike = i64, trace: Trace | None = None) -> Tensor:
    """0, 1, …, extent-1 of an integer dtype (a float one is cast to)."""
    target = as_dtype(dtype)
    home = trace or Trace(floating=True)
    (size,) = as_shape(extent)
    if target.is_integer:
        return Tensor(home.add(Iota(size, target)), home)
    return astype(Tensor(home.add(Iota(size, i64)), home), target)


def arange(
    start: SizeLike | float, stop: SizeLike | float | None = None, step: float = 1, dtype: DTypeLike | None = None
) -> Tensor:
    """start, start+step, … below stop (above it for a negative step); one argument counts from 0.

    i64 for integers and Dims, f32 for floats, unless a dtype is given.  Dims need step 1.
    """
    low, high = (0, start) if stop is None else (start, stop)
    if step == 0:
        raise ShapeError("arange expected a step other than 0")
    if isinstance(low, float) or isinstance(high, float) or isinstance(step, float):
        return _arange_floats(float(low), float(high), step, as_dtype(dtype or f32))  # type: ignore[arg-type]  # Dims with floats fail in float()
    span = as_expr(high) - as_expr(low)
    if not span.is_constant and step != 1:
        raise ShapeError(
            f"arange over a symbolic span {span} expected step 1, received {step}; multiply the result instead"
        )
    count = as_size(span) if step == 1 else max(0, -((-known_size(as_size(span), "arange")) // int(step)))
    positions = iota(max(0, count) if isinstance(count, int) else count)
    values = positions * int(step) + as_size(low)
    return astype(values, dtype or i64)


def _arange_floats(low: float, high: float, step: float, dtype: DType) -> Tensor:
    count = max(0, math.ceil((high - low) / step))
    positions = astype(iota(count), dtype)
    return positions * step + low


def linspace(start: float, stop: float, count: int, *, endpoint: bool = True, dtype: DTypeLike = f32) -> Tensor:
    """`count` evenly spaced floats from start to stop (left out unless `endpoint`)."""
    target = as_dtype(dtype)
    if not target.is_float:
        raise DTypeError(f"linspace expected a float dtype, received {target}; cast the result")
    gaps = count - 1 if endpoint else count
    if gaps <= 0:
        return full((count,), start, target)
    positions = astype(iota(count), target)
    step = (Fraction(stop) - Fraction(start)) / gaps
    # Counting from both ends makes the last element exactly `stop`.
    from_start, from_stop = positions * step + start, (positions - gaps) * step + stop
    return where(positions < count / 2, from_start, from_stop)


def tri(rows: SizeLike, columns: SizeLike, offset: SizeLike = 0, trace: Trace | None = None) -> Tensor:
    """bool (rows, columns): true where column <= row + offset."""
    home = trace or Trace(floating=True)
    row, column = iota(rows, trace=home).unsqueeze(1), iota(columns, trace=home)
    return logical_not(less(row + as_size(offset), column))


def eye(rows: SizeLike, columns: SizeLike | None = None, offset: int = 0, dtype: DTypeLike = f32) -> Tensor:
    """Ones where column == row + offset, zeros elsewhere."""
    width = rows if columns is None else columns
    row, column = iota(rows).unsqueeze(1), iota(width)
    return astype(row + offset == column, dtype)


def tril(x: TensorLike, offset: int = 0) -> Tensor:
    """The last two axes with zeros above diagonal `offset`."""
    return _triangle(as_tensor(x), offset, lower=True)


def triu(x: TensorLike, offset: int = 0) -> Tensor:
    """The last two axes with zeros below diagonal `offset`."""
    return _triangle(as_tensor(x), offset - 1, lower=False)


def _triangle(x: Tensor, offset: int, *, lower: bool) -> Tensor:
    if x.ndim < 2:
        raise ShapeError(f"a triangle needs two axes, received {x.ndim}")
    mask = tri(x.shape[-2], x.shape[-1], offset, trace=x.trace)
    mask = mask if lower else logical_not(mask)
    return broadcast(mask, x)[0] * x
