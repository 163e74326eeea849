"""The meaning of terms, in NumPy: the judge of lowering and of every rule.

Values are held as the graph's interpreter holds them: floats as float64, rounded only by `Cast`; integers exact in
their dtype.  A value spans only the axes it depends on; a reduction spans its bound axes while it runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from snell.dtypes import DType
from snell.errors import CompileError
from snell.graph.numeric import Array, constant, converted, widened, zero
from snell.graph.philox import philox_words
from snell.graph.primitives import Binary, Mul, Op, Random, ScalarFunction, Unary
from snell.graph.scalar_functions import scalar_function
from snell.rewrite.definition import Definition
from snell.rewrite.term import (
    And,
    Cast,
    Divide,
    Equal,
    FloorDivide,
    Index,
    Load,
    Max,
    Maximum,
    Not,
    Number,
    Reduction,
    Select,
    SelectElse,
    Subtract,
    Sum,
    Term,
    walk,
)
from snell.symbolic import Axis, Dim, Expr, Opaque, as_expr

__all__ = ["evaluate", "evaluate_definition"]


def evaluate(
    root: Term, axes: Sequence[Axis], tensors: Mapping[str, Array], sizes: Mapping[Dim, int] | None = None
) -> Array:
    """The term at every position of `axes`, one array dimension each; `tensors` hold stored values by tensor name."""
    missing = root.free - set(axes)
    if missing:
        raise CompileError(f"the term depends on {', '.join(sorted(map(str, missing)))}, which are not among the axes")
    evaluation = _Evaluation(tensors, dict(sizes or {}))
    with np.errstate(all="ignore"):
        for item in walk(root):
            evaluation.compute(item)
        value = evaluation.aligned(root, axes)
    return np.broadcast_to(value, [evaluation.extent(axis) for axis in axes])


def evaluate_definition(
    definition: Definition, tensors: Mapping[str, Array], sizes: Mapping[Dim, int] | None = None
) -> Array:
    """The defined tensor, in interpreter form (floats as float64 values of the tensor's dtype)."""
    known = dict(sizes or {})
    values = evaluate(definition.value, definition.axes, tensors, known)
    shape = [int(as_expr(size).evaluate(known)) for size in definition.tensor.shape]
    result: Array = np.full(shape, zero(definition.value.dtype))
    rank = len(definition.axes)
    places: dict[Any, Any] = dict(known)
    for k, (axis, length) in enumerate(zip(definition.axes, values.shape, strict=True)):
        positions = np.arange(length, dtype=np.int64)
        places[axis] = positions.reshape([-1 if j == k else 1 for j in range(rank)])
    result[tuple(index.evaluate(places) for index in definition.indices)] = values
    return result


@dataclass(frozen=True, slots=True)
class _Value:
    """An array with one dimension per axis, the axes in a fixed order."""

    axes: tuple[Axis, ...]
    array: Array


class _Evaluation:
    """Values of the terms computed so far."""

    def __init__(self, tensors: Mapping[str, Array], sizes: dict[Dim, int]) -> None:
        self._tensors, self._sizes = tensors, sizes
        self._values: dict[Term, _Value] = {}

    def extent(self, axis: Axis) -> int:
        return int(as_expr(axis.extent).evaluate(self._sizes))

    def compute(self, item: Term) -> None:
        axes = tuple(sorted(item.free, key=lambda axis: (axis.name, str(axis.extent))))
        self._values[item] = _Value(axes, self._computed(item, axes))

    def aligned(self, item: Term, axes: Sequence[Axis]) -> Array:
        """The value with one dimension per given axis, of length 1 where the term does not depend on it."""
        value = self._values[item]
        order = [value.axes.index(axis) for axis in axes if axis in value.axes]
        shape = [self.extent(axis) if axis in value.axes else 1 for axis in axes]
        turned: Array = np.transpose(value.array, order)
        return turned.reshape(shape)

    def _computed(self, item: Term, axes: tuple[Axis, ...]) -> Array:
        match item.op:
            case Number(value):
                return constant(value, item.dtype)
            case Index(expression):
                return self._full(self._expression(expression, axes).astype(np.int64), axes)
            case Load():
                return self._full(self._loaded(item.op, item.dtype, axes), axes)
            case Reduction(bound):
                return self._reduced(item.op, bound, item.args[0], axes)
            case Random():
                key0, key1, position = (self.aligned(a, axes) for a in item.args)
                return philox_words((int(key0.reshape(-1)[0]), int(key1.reshape(-1)[0])), position)
            case _:
                operands = [self.aligned(a, axes) for a in item.args]
                return self._full(_apply(item, operands), axes)

    def _full(self, array: Array, axes: tuple[Axis, ...]) -> Array:
        return np.broadcast_to(array, [self.extent(axis) for axis in axes])

    def _expression(self, expression: Expr, axes: Sequence[Axis]) -> Array:
        places: dict[Any, Any] = dict(self._sizes)
        for k, axis in enumerate(axes):
            places[axis] = np.arange(self.extent(axis)).reshape([-1 if j == k else 1 for j in range(len(axes))])
        for atom in expression.atoms():
            if isinstance(atom, Opaque) and isinstance(atom.key, Term):
                places[atom] = self.aligned(atom.key, axes).astype(np.int64)
        return np.asarray(expression.evaluate(places))

    def _loaded(self, op: Load, dtype: DType, axes: tuple[Axis, ...]) -> Array:
        source = self._tensors[op.tensor.name]
        mask = np.asarray(True)
        for guard in op.guards:
            mask = mask & (self._expression(guard, axes) >= 0)
        if not mask.any() or 0 in [self.extent(axis) for axis in axes]:
            return zero(dtype)
        places: list[Array] = []
        for index, size in zip(op.indices, source.shape, strict=True):
            place = self._expression(index, axes)
            if bool((((place < 0) | (place >= size)) & mask).any()):
                raise CompileError(f"load of {op.tensor.name} leaves its range: {index} with extent {size}")
            places.append(np.clip(place, 0, size - 1))
        values = source[tuple(places)]  # what is read is widened, not all of a large table
        if source.dtype == dtype.numpy:
            values = widened(values, dtype)
        return np.where(mask, values, zero(dtype)) if op.guards else values

    def _reduced(self, op: Reduction, bound: tuple[Axis, ...], body: Term, axes: tuple[Axis, ...]) -> Array:
        lengths = [self.extent(axis) for axis in bound]
        if isinstance(op, Sum) and isinstance(body.op, Mul) and body.dtype.is_float and 0 not in lengths:
            return self._product_sum(body, bound, axes)
        values = np.broadcast_to(self.aligned(body, (*axes, *bound)), [*map(self.extent, axes), *lengths])
        over = tuple(range(len(axes), len(axes) + len(bound)))
        if isinstance(op, Sum):
            return values.sum(axis=over, dtype=values.dtype)
        if isinstance(op, Max):
            return values.max(axis=over, initial=constant(body.dtype.lowest, body.dtype).item())
        raise CompileError(f"no meaning for the reduction {type(op).__name__}")

    def _product_sum(self, body: Term, bound: tuple[Axis, ...], axes: tuple[Axis, ...]) -> Array:
        left, right = (self._values[argument] for argument in body.args)
        numbers = {axis: k for k, axis in enumerate((*axes, *bound))}
        unused = math.prod(self.extent(axis) for axis in bound if axis not in body.free)
        operands = (left.array, [numbers[a] for a in left.axes], right.array, [numbers[a] for a in right.axes])
        return np.einsum(*operands, [numbers[a] for a in axes], optimize=True) * unused


def _apply(item: Term, x: Sequence[Array]) -> Array:
    """Element-wise operations: the primitives, then the idioms."""
    match item.op:
        case Unary() | Binary():
            return np.asarray(item.op.evaluate(*x))
        case ScalarFunction(name):
            return scalar_function(name).evaluate(x[0])
        case Cast():
            return converted(x[0], item.args[0].dtype, item.dtype)
        case _:
            return _apply_idiom(item.op, x, item.dtype)


def _apply_idiom(op: Op, x: Sequence[Array], dtype: DType) -> Array:
    match op:
        case Subtract():
            return x[0] - x[1]
        case Divide():
            return np.divide(x[0], x[1])
        case FloorDivide():
            return np.where(x[1] == 0, zero(dtype), np.floor_divide(x[0], x[1]))
        case Maximum():
            return np.maximum(x[0], x[1])
        case Select():
            return np.where(x[0], x[1], zero(dtype))
        case SelectElse():
            return np.where(x[0], x[1], x[2])
        case _:
            return _apply_logic(op, x)


def _apply_logic(op: Op, x: Sequence[Array]) -> Array:
    match op:
        case Equal():
            return np.equal(x[0], x[1])
        case Not():
            return np.logical_not(x[0])
        case And():
            return np.logical_and(x[0], x[1])
        case _:
            raise CompileError(f"the evaluator has no meaning for {type(op).__name__}")
