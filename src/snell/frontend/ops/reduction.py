"""Reductions over axes: None means all, a negative axis counts from the end, `keepdims` leaves extents of 1.

Sums and products of integers and bool are i64 (u64 stays).  Maxima propagate NaN.  A mean, variance or log-sum-exp of
f16 or bf16 is computed in f32 and cast back at the end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from snell.dtypes import bool_, f32, f64, i8, i64, u64
from snell.errors import DTypeError, ShapeError
from snell.frontend.custom import stop_gradient
from snell.frontend.ops.comparison import (
    isfinite,
    isnan,
    less,
    logical_and,
    logical_not,
    logical_or,
    reversed_order,
    where,
)
from snell.frontend.ops.creation import iota, size_of
from snell.frontend.ops.elementwise import astype, exp, log, multiply, reciprocal, sqrt, square, subtract, wide
from snell.frontend.ops.movement import crop, flatten, reshape, zero_pad
from snell.frontend.promotion import DTypeLike, apply, as_tensor, promote_float, scalar_like
from snell.frontend.shapes import AxisLike, known_size, normal_axes
from snell.frontend.tensor import Tensor, TensorLike
from snell.graph.primitives import MaxReduce, SumReduce
from snell.symbolic import Size, as_size, product, show_shape

__all__ = [
    "all", "any", "argmax", "argmin", "count_nonzero", "logsumexp", "max", "mean", "min", "prod", "raw_max", "raw_sum", "std",
    "sum", "var",
]  # fmt: skip


def _kept(reduced: Tensor, axes: Sequence[int], rank: int, keepdims: bool) -> Tensor:
    if not keepdims:
        return reduced
    sizes = iter(reduced.shape)
    return reshape(reduced, [1 if k in axes else next(sizes) for k in range(rank)])


def raw_sum(x: Tensor, axis: AxisLike, keepdims: bool = False) -> Tensor:
    """The primitive sum: the dtype stays and integers wrap."""
    axes = normal_axes(axis, x.ndim)
    if not axes:
        return x
    return _kept(apply(SumReduce(axes), x), axes, x.ndim, keepdims)


def _accumulable(x: Tensor) -> Tensor:
    """Integers and bool as i64, u64 as it is."""
    return x if x.dtype.is_float or x.dtype == u64 else astype(x, i64)


def sum(x: TensorLike, axis: AxisLike = None, keepdims: bool = False, dtype: DTypeLike | None = None) -> Tensor:
    """The sum; integers and bool add up in i64; 0 over nothing."""
    tensor = as_tensor(x)
    return raw_sum(_accumulable(tensor) if dtype is None else astype(tensor, dtype), axis, keepdims)


def _count(x: Tensor, axes: Sequence[int]) -> Size:
    return as_size(product([x.shape[k] for k in axes]))


def _divided(total: Tensor, count: Size) -> Tensor:
    """total / count: an exact rational factor for a known count; 0/0 is NaN."""
    if isinstance(count, int):
        # 0 + NaN, not 0·NaN: the default rules let a product with 0 be 0.
        return total * Fraction(1, count) if count else total + math.nan
    return multiply(total, reciprocal(astype(as_tensor(count), total.dtype)))


def mean(x: TensorLike, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """The mean in the dtype of x; NaN over nothing.

    f64 for integers: their exact sum, divided (those of 64 bits, whose sum could wrap, add up in f64); f32 for bool.
    """
    tensor = as_tensor(x)
    axes = normal_axes(axis, tensor.ndim)
    if tensor.dtype.is_float:
        total = raw_sum(wide(tensor), axes, keepdims)
        return astype(_divided(total, _count(tensor, axes)), tensor.dtype)
    summable = astype(tensor, f64) if tensor.dtype.is_integer and tensor.dtype.bits == 64 else tensor
    total = astype(sum(summable, axes, keepdims), f64)
    return astype(_divided(total, _count(tensor, axes)), f32 if tensor.dtype == bool_ else f64)


def var(x: TensorLike, axis: AxisLike = None, keepdims: bool = False, correction: float = 0) -> Tensor:
    """The variance, two-pass: mean of (x - mean)², divided by n - correction (0: population, 1: sample)."""
    (tensor,) = promote_float(x)
    axes = normal_axes(axis, tensor.ndim)
    values = wide(tensor)
    centred = subtract(values, mean(values, axes, keepdims=True))
    total = raw_sum(square(centred), axes, keepdims)
    count = _count(tensor, axes)
    if correction == 0:
        return astype(_divided(total, count), tensor.dtype)
    if isinstance(count, int):
        rest = Fraction(count) - Fraction(correction)
        if rest <= 0 and count <= 1:  # 0 / 0, where the default rules let a product with 0 be 0
            return astype(total + math.nan, tensor.dtype)
        return astype(total * (1 / rest) if rest > 0 else total / 0.0, tensor.dtype)
    return astype(total / (astype(as_tensor(count), total.dtype) - correction), tensor.dtype)


def std(x: TensorLike, axis: AxisLike = None, keepdims: bool = False, correction: float = 0) -> Tensor:
    """The square root of the variance."""
    return sqrt(var(x, axis, keepdims, correction))


def _nonempty_axes(x: Tensor, axis: AxisLike, name: str) -> tuple[int, ...]:
    axes = normal_axes(axis, x.ndim)
    empty = [k for k in axes if x.shape[k] == 0]
    if empty:
        raise ShapeError(f"{name} over axis {empty[0]} of {show_shape(x.shape)} has no elements, and so no value")
    return axes


def max(x: TensorLike, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """The greatest element, NaN where there is one; ShapeError over an axis of extent 0."""
    tensor = as_tensor(x)
    axes = _nonempty_axes(tensor, axis, "max")
    if tensor.dtype == bool_:
        return any(tensor, axes, keepdims)
    return raw_max(tensor, axes, keepdims)


def raw_max(x: Tensor, axis: AxisLike, keepdims: bool = False) -> Tensor:
    """The primitive maximum of numbers, -inf or the least integer over nothing."""
    axes = normal_axes(axis, x.ndim)
    return _kept(apply(MaxReduce(axes), x), axes, x.ndim, keepdims) if axes else x


def min(x: TensorLike, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """The least element, NaN where there is one; ShapeError over an axis of extent 0."""
    tensor = as_tensor(x)
    axes = _nonempty_axes(tensor, axis, "min")
    if tensor.dtype == bool_:
        return all(tensor, axes, keepdims)
    return reversed_order(max(reversed_order(tensor), axes, keepdims))


def any(x: TensorLike, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """True where some element is (not 0); false over nothing."""
    tensor = as_tensor(x)
    axes = normal_axes(axis, tensor.ndim)
    flags = astype(astype(tensor, bool_), i8)
    reduced = apply(MaxReduce(axes), flags) if axes else flags
    return _kept(less(scalar_like(reduced, 0), reduced), axes, tensor.ndim, keepdims)


def all(x: TensorLike, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """True where every element is (not 0); true over nothing."""
    return logical_not(any(logical_not(x), axis, keepdims))


def count_nonzero(x: TensorLike, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """How many elements are not 0 (i64)."""
    return sum(astype(as_tensor(x), bool_), axis, keepdims)


def _first_place(selected: Tensor, axis: int, keepdims: bool) -> Tensor:
    """The least index along `axis` where `selected` holds (somewhere it does)."""
    extent = selected.shape[axis]
    from_end = size_of(extent) - iota(extent, trace=selected.trace)
    shape = [1] * selected.ndim
    shape[axis] = extent  # type: ignore[call-overload]  # a Size among integers
    score = max(multiply(selected, reshape(from_end, shape)), axis, keepdims)
    return size_of(extent) - score


def argmax(x: TensorLike, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """i64 index of the greatest element: the first one among equals, the first NaN where there is any."""
    tensor = as_tensor(x)
    if axis is None:
        result = argmax(flatten(tensor), 0)
        return reshape(result, [1] * tensor.ndim) if keepdims else result
    (k,) = _nonempty_axes(tensor, axis, "argmax")
    numbers = astype(tensor, i8) if tensor.dtype == bool_ else tensor
    greatest = max(numbers, k, keepdims=True)
    selected = logical_not(less(numbers, greatest))
    if numbers.dtype.is_float:
        # Where the maximum is NaN nothing compares below it: only the NaNs themselves count.
        selected = logical_or(logical_and(selected, logical_not(isnan(greatest))), isnan(numbers))
    return _first_place(selected, k, keepdims)


def argmin(x: TensorLike, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """i64 index of the least element: the first one among equals, the first NaN where there is any."""
    tensor = as_tensor(x)
    return argmax(logical_not(tensor) if tensor.dtype == bool_ else reversed_order(tensor), axis, keepdims)


def logsumexp(x: TensorLike, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """ln Σ exp(x), shifted by the maximum so that nothing overflows; -inf where all are -inf, and over nothing."""
    (tensor,) = promote_float(x)
    values = wide(tensor)
    axes = normal_axes(axis, tensor.ndim)
    greatest = raw_max(values, axes, keepdims=True)
    shift = stop_gradient(where(isfinite(greatest), greatest, 0.0))
    total = raw_sum(exp(subtract(values, shift)), axes, keepdims=True)
    result = log(total) + shift
    kept = [size for k, size in enumerate(result.shape) if keepdims or k not in axes]
    return astype(reshape(result, kept), tensor.dtype)


def prod(x: TensorLike, axis: AxisLike = None, keepdims: bool = False, dtype: DTypeLike | None = None) -> Tensor:
    """The product, as a tree of halves; integers and bool multiply in i64; 1 over nothing.

    The reduced extents must be known (SymbolicError otherwise): products have no reducing primitive.
    """
    tensor = as_tensor(x)
    axes = normal_axes(axis, tensor.ndim)
    result = _accumulable(tensor) if dtype is None else astype(tensor, dtype)
    if result.dtype == bool_:
        raise DTypeError("prod expected numbers, received dtype bool; use all, or an integer dtype")
    for k in axes:
        result = _product_along(result, k)
    return result if keepdims else reshape(result, [size for k, size in enumerate(result.shape) if k not in axes])


def _product_along(x: Tensor, axis: int) -> Tensor:
    """Extent 1 along the axis: halves are multiplied until one element is left."""
    extent = known_size(x.shape[axis], "prod")
    if extent == 0:
        shape = [1 if k == axis else size for k, size in enumerate(x.shape)]
        return scalar_like(x, 1).expand(shape)
    while extent > 1:
        half = extent // 2
        paired = crop(x, axis, 0, half) * crop(x, axis, half, half)
        if extent % 2:
            # The odd element joins at the end: zeros are padded on both, so that adding them is exact.
            rest = zero_pad(crop(x, axis, extent - 1, 1), axis, half, 0)
            paired = zero_pad(paired, axis, 0, 1) + rest
        x, extent = paired, half + extent % 2
    return x
