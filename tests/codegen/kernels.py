"""Kernels for tests: schedules as text, and a way to compile and run them in this process."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from snell.codegen import llvm
from snell.codegen.emitter import EmittedKernel, emit_kernel
from snell.codegen.host import host_target
from snell.codegen.loading import load
from snell.loops.ir import (
    Accumulator,
    Combine,
    Init,
    Kernel,
    Level,
    Loop,
    LoopKind,
    Statement,
    Store,
    Update,
    read,
)
from snell.rewrite.term import Tensor, Term, number
from snell.symbolic import Axis, Dim, Expr
from snell.targets import Target

Array = np.ndarray[Any, np.dtype[Any]]


def levels(text: str, axes: Iterable[Axis]) -> tuple[Level, ...]:
    """`i:48 k:1u j:8v` → levels."""
    by_name = {axis.name: axis for axis in axes}
    kinds = {"u": LoopKind.UNROLLED, "v": LoopKind.VECTOR, "t": LoopKind.TENSOR}
    found: list[Level] = []
    for word in text.split():
        name, step = word.split(":")
        kind = kinds.get(step[-1], LoopKind.SERIAL)
        found.append(Level(by_name[name], int(step.rstrip("uvt")), kind))
    return tuple(found)


def nest(around: Sequence[Level], *body: Statement) -> tuple[Statement, ...]:
    for level in reversed(around):
        body = (Loop(level, body),)
    return body


def reduction(
    order: str,
    axes: Sequence[Axis],
    reduced: Sequence[Axis],
    store: tuple[Tensor, tuple[Expr, ...]],
    value: Term,
    *,
    combine: Combine = Combine.SUM,
    partial: tuple[Axis, ...] = (),
    finish: Any = lambda item: item,
) -> tuple[Statement, ...]:
    """The nest of `store = finish(reduce(value))`: accumulators from the first reduced level on."""
    chosen = levels(order, axes)
    split = next(
        k
        for k, level in enumerate(chosen)
        if level.axis in reduced and all(m.axis in reduced or m.kind is not LoopKind.SERIAL for m in chosen[k:])
    )
    inner = chosen[split:]
    data = [level for level in inner if level.axis not in reduced]
    kept = tuple(axis for axis in axes if axis not in reduced)
    accumulator = Accumulator("acc", combine, value.dtype, kept, partial)
    identity = number(0 if combine is Combine.SUM else value.dtype.lowest, value.dtype)
    body = (
        *nest(data, Init(accumulator, identity)),
        *nest(inner, Update(accumulator, value)),
        *nest(data, Store(*store, finish(read(accumulator)))),
    )
    return nest(chosen[:split], *body)


class Runner:
    """A compiled kernel; calling it runs every phase on this thread, optionally in ticket ranges of `chunk`."""

    def __init__(self, kernel: Kernel, target: Target | None = None) -> None:
        chosen = target or host_target()
        self.kernel = kernel
        self.emitted: EmittedKernel = emit_kernel(kernel, chosen)
        image = llvm.compile_object(self.emitted.llvm_ir, chosen)
        self.library = load(image, self.emitted.functions)
        signature = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 2)
        self.functions = [signature(self.library[name]) for name in self.emitted.functions]

    def __call__(
        self, arrays: Mapping[str, Array], sizes: Mapping[Dim, int] | None = None, chunk: int = 1 << 40
    ) -> None:
        for step in self.bound(arrays, sizes, chunk):
            step()

    def bound(
        self, arrays: Mapping[str, Array], sizes: Mapping[Dim, int] | None = None, chunk: int = 1 << 40
    ) -> list[Any]:
        """Calls ready to be repeated (for benchmarks)."""
        values = dict(sizes or {})
        ordered = [arrays[buffer.name] for buffer in self.kernel.buffers]
        pointers = (ctypes.c_void_p * max(1, len(ordered)))(*[array.ctypes.data for array in ordered])
        dims = (ctypes.c_int64 * max(1, len(self.kernel.dims)))(*[values[dim] for dim in self.kernel.dims])
        scratch = np.full(int(self.emitted.scratch.evaluate(values)) + 64, 0xAB, np.uint8)
        start = (scratch.ctypes.data + 63) // 64 * 64
        calls: list[Any] = []
        for function, count in zip(self.functions, self.emitted.tickets, strict=True):
            total = int(count.evaluate(values))
            for begin in range(0, total, chunk):
                arguments = (pointers, dims, start, begin, min(total, begin + chunk))
                calls.append(lambda f=function, a=arguments, keep=(scratch, ordered): f(*a))
        return calls
