"""The judge of the grid: a batch of cases as one program, compiled and interpreted, and each pair of results compared.

A tolerance follows from the arithmetic.  The interpreter computes in float64; the compiled program rounds each step to
the dtype (f16 and bf16 compute in f32).  A result may differ by `ulps` of itself and `absolute` epsilons of 1 and, for
a reduction over n elements, by n epsilons of the accumulator times the condition: the operation on absolute values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from tests.grid.design import Case
from tests.grid.domains import Below, Domain, draw
from tests.grid.operation import Argument
from tests.grid.shapes import concrete, extents, stored_shape, symbolic, through

from snell import trees
from snell.dtypes import DType, f32, f64
from snell.engine.engine import Engine
from snell.frontend import Tensor, TensorSpec, trace
from snell.graph.graph_inputs import input_operations
from snell.graph.interpret import interpret
from snell.graph.node import Graph
from snell.symbolic import Dim, as_expr

__all__ = ["Failure", "failures"]

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Failure:
    """A case that went wrong, and how."""

    case: Case
    reason: str


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A case with its arguments: specs, arrays, and the sizes of its Dims."""

    case: Case
    arguments: tuple[Argument, ...]
    specs: tuple[TensorSpec, ...]
    arrays: tuple[Array, ...]
    sizes: dict[Dim, int]

    def call(self, stored: Sequence[Tensor]) -> Any:
        operands = [
            tensor if argument.dtype else through(self.case.layout, tensor, argument.shape, _border(argument))
            for argument, tensor in zip(self.arguments, stored, strict=True)
        ]
        return self.case.operation.apply(*operands)


def failures(cases: Sequence[Case], engine: Engine) -> list[Failure]:
    """The cases whose compiled program fails, or differs from the interpreter.

    All are tried as one program; where that raises, halves are tried until the cases that raise stand alone.
    """
    if not cases:
        return []
    prepared = [_prepared(case) for case in cases]
    try:
        return _compared(prepared, engine)
    except Exception as error:
        if len(cases) == 1:
            return [Failure(cases[0], f"{type(error).__name__}: {error}")]
        half = len(cases) // 2
        return failures(cases[:half], engine) + failures(cases[half:], engine)


def _prepared(case: Case) -> _Prepared:
    operation = case.operation
    base = extents(case.shape, operation.rank)
    assert base is not None  # the design holds only cases that exist
    axes = operation.symbolic_axes(len(base)) if case.symbolic else frozenset[int]()
    shape, sizes = symbolic(base, axes, f"{case.shape.name.lower()}{len(base)}")
    random = np.random.default_rng(case.seed)
    arguments = tuple(operation.arguments(shape))
    specs: list[TensorSpec] = []
    arrays: list[Array] = []
    for argument in arguments:
        stored = argument.shape if argument.dtype else stored_shape(case.layout, argument.shape)
        dtype = argument.dtype or case.dtype
        specs.append(TensorSpec(stored, dtype))
        arrays.append(_drawn(argument, dtype, concrete(stored, sizes), sizes, random))
    return _Prepared(case, arguments, tuple(specs), tuple(arrays), sizes)


def _drawn(argument: Argument, dtype: DType, shape: tuple[int, ...], sizes: Mapping[Dim, int], random: Any) -> Array:
    if isinstance(argument.domain, Below):
        extent = int(as_expr(argument.domain.extent).evaluate(sizes))
        return random.integers(0, max(1, extent), shape).astype(dtype.numpy)
    return draw(argument.domain, dtype, shape, random)


def _compared(prepared: Sequence[_Prepared], engine: Engine) -> list[Failure]:
    counts: list[int] = []

    def program(*arguments: Sequence[Tensor]) -> list[Any]:
        results = [one.call(stored) for one, stored in zip(prepared, arguments, strict=True)]
        counts.extend(len(trees.leaves(result)) for result in results)
        return results

    traced = trace(program, [one.specs for one in prepared])
    arrays = [array for one in prepared for array in one.arrays]
    sizes = {dim.name: size for one in prepared for dim, size in one.sizes.items()}
    wanted = _interpreted(traced.graph, dict(zip(traced.inputs, arrays, strict=True)) | traced.arrays, sizes)
    got = _executed(traced.graph, dict(zip(traced.inputs, arrays, strict=True)), traced.arrays, sizes, engine)
    found: list[Failure] = []
    position = 0
    for one, count in zip(prepared, counts, strict=True):
        part = slice(position, position + count)
        position += count
        reason = _difference(one, got[part], wanted[part])
        if reason:
            found.append(Failure(one.case, reason))
    return found


def _border(argument: Argument) -> int:
    return int(argument.domain in (Domain.NONZERO, Domain.POSITIVE))


def _interpreted(graph: Graph, arrays: Mapping[str, Array], sizes: Mapping[str, int]) -> list[Array]:
    used = input_operations(graph)
    return interpret(graph, {name: array for name, array in arrays.items() if name in used}, sizes)


def _executed(
    graph: Graph, inputs: Mapping[str, Array], captured: Mapping[str, Array], sizes: Mapping[str, int], engine: Engine
) -> tuple[Array, ...]:
    prepared = engine.prepare(graph)
    executable = prepared.bind(captured, engine.pool())
    known = {dim.name for dim in executable.program.dims}
    given = {name: size for name, size in sizes.items() if name in known}
    return executable(*[inputs[name] for name in prepared.inputs], sizes=given)


def _difference(one: _Prepared, got: Sequence[Array], wanted: Sequence[Array]) -> str | None:
    """What is wrong with a case's results, or None."""
    scales = _scales(one, wanted)
    for actual, expected, scale in zip(got, wanted, scales, strict=True):
        if actual.shape != expected.shape or actual.dtype != expected.dtype:
            return f"expected {expected.dtype}{expected.shape}, received {actual.dtype}{actual.shape}"
        close = _close(one, actual, expected, scale)
        if not close.all():
            where = tuple(int(k) for k in np.argwhere(~close)[0])
            count = int((~close).sum())
            return f"{count} of {close.size} differ, first at {where}: {actual[where]!r}, expected {expected[where]!r}"
    return None


def _scales(one: _Prepared, wanted: Sequence[Array]) -> Sequence[Array | float]:
    """For reductions the condition: the same operation on absolute values, times the extent."""
    if not one.case.operation.reduces or not one.case.dtype.is_float:
        return [0.0] * len(wanted)
    magnitudes = [np.abs(np.where(np.isfinite(a), a, 0)).astype(a.dtype) for a in one.arrays]
    traced = trace(lambda *stored: one.call(stored), one.specs)
    sizes = {dim.name: size for dim, size in one.sizes.items()}
    values = _interpreted(traced.graph, dict(zip(traced.inputs, magnitudes, strict=True)), sizes)
    extent = max((array.size for array in one.arrays), default=1)
    return [np.abs(value.astype(np.float64)) * extent for value in values]


def _close(one: _Prepared, actual: Array, expected: Array, scale: Array | float) -> Array:
    if not _is_float(expected):
        return np.asarray(actual == expected)
    operation = one.case.operation
    a, b = actual.astype(np.float64), expected.astype(np.float64)
    info = ml_dtypes.finfo(expected.dtype)
    epsilon = float(info.eps)
    accumulator = float(ml_dtypes.finfo((f64 if one.case.dtype == f64 else f32).numpy).eps)
    with np.errstate(all="ignore"):
        allowed = epsilon * (operation.ulps * np.abs(b) + operation.absolute) + accumulator * scale
        allowed = allowed + (float(info.smallest_subnormal) if operation.ulps else 0.0)
        near = np.abs(a - b) <= allowed
    return (a == b) | (np.isnan(a) & np.isnan(b)) | (near & np.isfinite(a) & np.isfinite(b))


def _is_float(array: Array) -> bool:
    return array.dtype.kind == "f" or array.dtype == ml_dtypes.bfloat16
