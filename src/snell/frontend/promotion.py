"""Promotion: operands of any kind become tensors of one trace, one dtype and one shape.

Dtypes follow the array API.  Python numbers (and NumPy scalars and sizes) are weakly typed: they take the dtype they
meet, an integer meeting bool gives i64, a float meeting integers gives f32.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, cast

import numpy as np

from snell import dtypes
from snell.dtypes import DType
from snell.errors import DTypeError, ShapeError, SymbolicError
from snell.frontend.context import Trace, common_trace
from snell.frontend.tensor import Tensor, TensorLike
from snell.graph.node import Operand
from snell.graph.primitives import Add, Constant, Contiguous, Iota, Mul, Op, Recip
from snell.symbolic import Dim, Expr, Shape, Size, View, as_expr, as_size, show_shape

__all__ = [
    "DTypeLike", "apply", "as_dtype", "as_tensor", "broadcast", "broadcast_shape", "cast_to", "constant_in", "expanded",
    "known_scalar", "lift", "meet", "promote", "promote_float", "result_dtype", "scalar_like",
]  # fmt: skip

DTypeLike = DType | str | type | np.dtype[Any]
_SCALARS = (bool, int, float, Fraction, np.generic)


def as_dtype(dtype: DTypeLike) -> DType:
    """A snell dtype from itself, its name or a NumPy dtype; DTypeError where there is none."""
    if isinstance(dtype, DType):
        return dtype
    return dtypes.from_name(dtype) if isinstance(dtype, str) else dtypes.from_numpy(dtype)


def apply(op: Op, *tensors: Tensor) -> Tensor:
    """The primitive on tensors of one trace and shape."""
    trace = tensors[0].trace
    operand = trace.add(op, [tensor.operand for tensor in tensors])
    return Tensor(operand, trace, weak=all(tensor.weak for tensor in tensors))


def constant_in(trace: Trace, value: float | Fraction, dtype: DType, *, weak: bool = False) -> Tensor:
    """A scalar constant with its exact value."""
    return Tensor(_constant_operand(trace, value, dtype), trace, weak=weak)


def _constant_operand(trace: Trace, value: float | Fraction, dtype: DType) -> Operand:
    if not dtype.is_float:
        return trace.add(Constant(_whole(value, dtype), dtype))
    if isinstance(value, float) and not math.isfinite(value):
        # One NaN object, so that equal constants are one node.
        return trace.add(Constant(math.nan if math.isnan(value) else value, dtype))
    if value == 0 and math.copysign(1, value) < 0:
        # Constants hold exact rationals, which have one zero: -0 = 1 / -inf.
        return trace.add(Recip(), [trace.add(Constant(-math.inf, dtype))])
    return trace.add(Constant(Fraction(value), dtype))


def _whole(value: float | Fraction, dtype: DType) -> int:
    if dtype.kind == "bool":
        return int(bool(value))
    low, high = dtype.range
    if value != int(value) or not low <= value <= high:
        raise DTypeError(f"{value} does not fit {dtype} ({low}..{high}); cast the tensor to a wider dtype first")
    return int(value)


def scalar_like(tensor: Tensor, value: float | Fraction) -> Tensor:
    """A 0-dimensional constant in the tensor's trace and dtype."""
    return constant_in(tensor.trace, value, tensor.dtype)


def as_tensor(value: TensorLike | Sequence[Any], trace: Trace | None = None) -> Tensor:
    """Anything as a tensor of `trace` (of a floating one where none is given)."""
    if isinstance(value, Tensor):
        if trace is None or value.trace is trace:
            return value
        common_trace([trace, value.trace])
        return Tensor(trace.adopt(value.trace, value.operand), trace, weak=value.weak)
    home = trace or Trace(floating=True)
    if isinstance(value, Dim | Expr):
        return _size_value(home, as_size(value))
    if isinstance(value, _SCALARS):
        return _weak_scalar(home, value)
    array = np.asarray(value)
    if isinstance(value, list | tuple) and array.dtype == np.float64:
        array = array.astype(np.float32)  # nested lists of Python floats; what has a dtype of its own keeps it
    dtype = dtypes.from_numpy(array.dtype)
    if array.size == 1:
        scalar = constant_in(home, array.reshape(()).item(), dtype)
        return scalar.seen_through(scalar.operand.view.reshape(array.shape))
    return Tensor(home.bind(array), home)


def _weak_scalar(trace: Trace, value: Any) -> Tensor:
    number = cast("Any", value).item() if isinstance(value, np.generic) else value
    if isinstance(number, bool):
        return constant_in(trace, number, dtypes.bool_, weak=True)
    if isinstance(number, int):
        dtype = dtypes.i64 if number < 1 << 63 else dtypes.u64
        return constant_in(trace, number, dtype, weak=True)
    if not isinstance(number, float | Fraction):
        raise DTypeError(f"expected a number, received {number!r}")
    return constant_in(trace, number, dtypes.f32, weak=True)


def _size_value(trace: Trace, size: Size) -> Tensor:
    """The run-time value of a size: element `size` of 0, 1, …, size; of unknown sign, the difference of two such."""
    if isinstance(size, int):
        return _weak_scalar(trace, size)
    if size.is_non_negative():
        iota = trace.add(Iota(as_size(size + 1), dtypes.i64))
        return Tensor(Operand(iota.node, View((), (as_expr(size),))), trace, weak=True)
    added, taken = _by_sign(size)
    if not (added.is_non_negative() and taken.is_non_negative()):
        raise SymbolicError(f"the value of {size} needs a division whose sign is known; give its Dims a larger min")
    negated = [_size_value(trace, as_size(taken)).operand, trace.add(Constant(-1, dtypes.i64))]
    negative = Tensor(trace.add(Mul(), negated), trace, weak=True)
    return apply(Add(), _size_value(trace, as_size(added)), negative) if added != 0 else negative


def _by_sign(size: Expr) -> tuple[Expr, Expr]:
    """What is added and what is taken away: their difference is the size."""
    added = Expr(tuple(term for term in size.terms if term[1] > 0), max(size.constant, 0))
    return added, added - size


def lift(*values: TensorLike) -> tuple[Tensor, ...]:
    """The values as tensors of one trace; GraphError where they belong to two programs."""
    trace = common_trace([value.trace for value in values if isinstance(value, Tensor)])
    return tuple(as_tensor(value, trace) for value in values)


def known_scalar(tensor: Tensor) -> int | Fraction | float | None:
    """The value of a tensor that is one constant everywhere, else None."""
    op = tensor.operand.node.op
    return op.value if isinstance(op, Constant) and not tensor.operand.view.guards else None


def cast_to(tensor: Tensor, dtype: DType) -> Tensor:
    """The tensor in `dtype`, strongly typed.  A weak constant is re-made, so it is rounded once."""
    value = known_scalar(tensor)
    if tensor.weak and value is not None and (dtype.is_float or not tensor.dtype.is_float):
        made = constant_in(tensor.trace, value, dtype).operand
        return Tensor(Operand(made.node, tensor.operand.view), tensor.trace)
    if tensor.dtype == dtype:
        return Tensor(tensor.operand, tensor.trace)
    return Tensor(apply(Contiguous(dtype), tensor).operand, tensor.trace)


def result_dtype(*tensors: Tensor) -> DType:
    """Common dtype: strong ones by the array API, then the kinds of the weak ones."""
    strong = [tensor.dtype for tensor in tensors if not tensor.weak]
    weak = [tensor.dtype for tensor in tensors if tensor.weak]
    if not strong:
        return functools.reduce(dtypes.promote, weak)
    dtype = functools.reduce(dtypes.promote, strong)
    for scalar in weak:
        if scalar.is_float and not dtype.is_float:
            dtype = dtypes.f32
        elif scalar.is_integer and dtype.kind == "bool":
            dtype = dtypes.i64
    return dtype


def promote(*values: TensorLike) -> tuple[Tensor, ...]:
    """The values in one trace and one dtype (all weak only when all of them are)."""
    tensors = lift(*values)
    dtype = result_dtype(*tensors)
    if all(tensor.weak for tensor in tensors):
        return tuple(Tensor(cast_to(t, dtype).operand, t.trace, weak=True) for t in tensors)
    return tuple(cast_to(tensor, dtype) for tensor in tensors)


def promote_float(*values: TensorLike) -> tuple[Tensor, ...]:
    """As `promote`, integers and bool becoming f32."""
    tensors = promote(*values)
    if tensors[0].dtype.is_float:
        return tensors
    return tuple(Tensor(cast_to(t, dtypes.f32).operand, t.trace, weak=t.weak) for t in tensors)


def broadcast_shape(*shapes: Shape) -> Shape:
    """The shape in which all shapes meet; extents must be equal or 1.

    Raises ShapeError (SymbolicError where a Dim takes part) with the axis and both sizes.
    """
    rank = max((len(shape) for shape in shapes), default=0)
    result: list[Size] = [1] * rank
    for shape in shapes:
        for k, size in enumerate(shape, start=rank - len(shape)):
            if size == 1 or size == result[k]:
                continue
            if result[k] != 1:
                symbolic = isinstance(size, Expr) or isinstance(result[k], Expr)
                kind = SymbolicError if symbolic else ShapeError
                raise kind(
                    f"shapes {' and '.join(show_shape(s) for s in shapes)} do not broadcast: "
                    f"axis {k - rank} has extents {result[k]} and {size}, expected equal extents or 1"
                )
            result[k] = size
    return tuple(result)


@functools.lru_cache(maxsize=1 << 14)
def expanded(view: View, shape: Shape) -> View:
    """The view repeated to a shape.  Equal layers ask for equal views, hence the cache."""
    return view.expand(shape)


def broadcast(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors expanded to one shape."""
    shape = broadcast_shape(*(tensor.shape for tensor in tensors))
    return tuple(t if t.shape == shape else t.seen_through(expanded(t.operand.view, shape)) for t in tensors)


def meet(*values: TensorLike) -> tuple[Tensor, ...]:
    """One trace, one dtype, one shape: ready for an element-wise primitive."""
    return broadcast(*promote(*values))
