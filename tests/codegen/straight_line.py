"""An `Assembler` that writes one function over arrays, and the judge of its results in units of the last place."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from snell.codegen.assembler import Value
from snell.codegen.host import host_target
from snell.codegen.literals import literal, scaling_call, suffix, type_text
from snell.codegen.llvm import compile_object
from snell.codegen.loading import Library, load
from snell.codegen.lookup import Emission, looked_up
from snell.codegen.vector_math import emit_function
from snell.dtypes import DType, bool_, f32
from snell.targets import Lookup, Scaling, Target

Array = np.ndarray[Any, Any]


class StraightLine:
    """Appends instructions to `lines`; intrinsics are declared as they are used."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.declarations: set[str] = set()

    def _emit(self, text: str, dtype: DType, lanes: int) -> Value:
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return Value(name, dtype, lanes)

    def constant(self, value: float, dtype: DType, lanes: int) -> Value:
        scalar = literal(value, dtype)
        element = type_text(dtype, 0)
        return Value(f"splat ({element} {scalar})" if lanes else scalar, dtype, lanes)

    def binary(self, opcode: str, a: Value, b: Value) -> Value:
        return self._emit(f"{opcode} {type_text(a.dtype, a.lanes)} {a.text}, {b.text}", a.dtype, a.lanes)

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        return self.intrinsic("llvm.fma", a, b, c)

    def compare(self, opcode: str, predicate: str, a: Value, b: Value) -> Value:
        return self._emit(f"{opcode} {predicate} {type_text(a.dtype, a.lanes)} {a.text}, {b.text}", bool_, a.lanes)

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        kind, flags = type_text(a.dtype, a.lanes), type_text(bool_, a.lanes)
        return self._emit(f"select {flags} {condition.text}, {kind} {a.text}, {kind} {b.text}", a.dtype, a.lanes)

    def convert(self, opcode: str, a: Value, dtype: DType) -> Value:
        text = f"{opcode} {type_text(a.dtype, a.lanes)} {a.text} to {type_text(dtype, a.lanes)}"
        return self._emit(text, dtype, a.lanes)

    def intrinsic(self, name: str, *arguments: Value) -> Value:
        first = arguments[0]
        kind = type_text(first.dtype, first.lanes)
        full = f"{name}.{suffix(first.dtype, first.lanes)}"
        self.declarations.add(f"declare {kind} @{full}({', '.join([kind] * len(arguments))})")
        operands = ", ".join(f"{kind} {a.text}" for a in arguments)
        return self._emit(f"call {kind} @{full}({operands})", first.dtype, first.lanes)

    def scaled(self, row: Scaling, significand: Value, power: Value) -> Value:
        text, declaration = scaling_call(row, significand, power)
        self.declarations.add(declaration)
        return self._emit(text, row.dtype, row.lanes)

    def looked_up(self, row: Lookup | None, table: Sequence[float], dtype: DType, index: Value) -> Value:
        def emit(text: str, *_: str) -> str:
            return self._emit(text, dtype, 0).text

        return looked_up(Emission(emit, self.declarations.add), row, table, dtype, index)


def module(name: str, dtype: DType, lanes: int, target: Target) -> str:
    """`apply(input, output, count)`: the function over an array, one vector (or scalar) a step."""
    assembler, kind = StraightLine(), type_text(dtype, lanes)
    result = emit_function(name, assembler, Value("%x", dtype, lanes), target)
    body = "\n".join(assembler.lines)
    return f"""{chr(10).join(sorted(assembler.declarations))}
define void @apply(ptr noalias %input, ptr noalias %output, i64 %count) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %from = getelementptr {type_text(dtype, 0)}, ptr %input, i64 %i
  %to = getelementptr {type_text(dtype, 0)}, ptr %output, i64 %i
  %x = load {kind}, ptr %from, align 4
{body}
  store {kind} {result.text}, ptr %to, align 4
  %next = add i64 %i, {max(1, lanes)}
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""


@cache
def _compiled(name: str, dtype: DType, lanes: int, target: Target | None = None) -> Library:
    target = target or host_target()
    return load(compile_object(module(name, dtype, lanes, target), target), ["apply"])


def evaluate(
    name: str,
    x: Array,
    dtype: DType = f32,
    lanes: int | None = None,
    out: Array | None = None,
    target: Target | None = None,
) -> Array:
    """Our result for every element; the count must be a multiple of the lanes."""
    lanes = host_target().lanes(dtype) if lanes is None else lanes
    assert x.dtype == dtype.numpy
    assert x.flags.c_contiguous
    assert x.size % max(1, lanes) == 0
    result = np.empty_like(x) if out is None else out
    signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    signature(_compiled(name, dtype, lanes, target)["apply"])(x.ctypes.data, result.ctypes.data, x.size)
    return result


def ulp_errors(result: Array, truth: Array) -> Array:
    """|result - truth| in units of the truth's last place; inf where special values or their signs disagree."""
    info = np.finfo(result.dtype)
    with np.errstate(all="ignore"):
        rounded = truth.astype(result.dtype)
        _, exponent = np.frexp(truth)
        unit = np.ldexp(np.ones_like(truth), np.maximum(exponent - 1, info.minexp) - info.nmant)
        errors = np.abs(result.astype(truth.dtype) - truth) / unit
        same = (result == rounded) | (np.isnan(result) & np.isnan(rounded))
        finite = np.isfinite(result) & np.isfinite(truth)
        # A result that overflowed is as far off as the distance to the end of the range.
        overflow = np.isinf(result) & np.isfinite(rounded) | np.isfinite(result) & np.isinf(rounded)
        end = np.abs(np.minimum(np.abs(truth), 2 * truth.dtype.type(info.max)) - truth.dtype.type(info.max))
    last = np.ldexp(truth.dtype.type(1), info.maxexp - 1 - info.nmant)
    limit = np.where(overflow & (np.sign(result) == np.sign(truth)), end / last, np.inf)
    return np.where(finite, errors, np.where(same, 0.0, limit))
