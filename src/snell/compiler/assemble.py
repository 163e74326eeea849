"""Assembling a program: buffers with roles and arena offsets, calls in order, and the preparation of weights.

Frozen operands that kernels want packed are made by a second program, run once when the weights are bound; what it
makes enters the main program as frozen buffers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from snell.compiler.checks import CheckOutput
from snell.compiler.lowering import Lowered
from snell.compiler.objects import KernelCompiler
from snell.dtypes import u8
from snell.graph.graph_inputs import input_operations
from snell.graph.primitives import Input
from snell.loops.build import BuiltKernel
from snell.loops.ir import Blocked, Buffer, BufferScope
from snell.rewrite.term import Tensor
from snell.runtime.arena import Allocation, plan
from snell.runtime.binding import Assembled
from snell.runtime.program import BufferSlot, Call, Check, CodeObject, Program, Role
from snell.symbolic import Dim, Expr, as_expr, as_size, product

__all__ = ["assemble"]


def assemble(lowered: Lowered, checks: Sequence[CheckOutput], compiler: KernelCompiler) -> Assembled:
    """Programs for lowered kernels; `main` is compiled by the runtime."""
    prepares = list(dict.fromkeys(p for kernel in lowered.kernels for p in kernel.prepares))
    inputs = input_operations(lowered.graph)
    main = _Assembly(compiler, inputs, lowered.graph.dims())
    main.outputs = {name for name, _ in lowered.graph.outputs} - {n for c in checks for n in (c.failures, c.value)}
    main.aliases = lowered.aliases
    program = main.build(lowered.kernels, [name for name, _ in lowered.graph.outputs if name in main.outputs], checks)
    if not prepares:
        return Assembled(program, None)
    packing = _Assembly(compiler, {name: op for name, op in inputs.items() if op.frozen}, ())
    packing.outputs = {t.name for p in prepares for t in p.writes}
    order = [t.name for p in prepares for t in p.tensors if t in p.writes]
    return Assembled(program, packing.build(prepares, list(dict.fromkeys(order)), ()))


@dataclass(slots=True)
class _Assembly:
    """One program under construction: slots by tensor name, calls, and lifetimes of arena buffers."""

    compiler: KernelCompiler
    inputs: dict[str, Input]
    dims: tuple[Dim, ...]
    outputs: set[str] = field(default_factory=set[str])
    aliases: dict[Tensor, Tensor] = field(default_factory=dict[Tensor, Tensor])
    slots: dict[str, BufferSlot] = field(default_factory=dict[str, BufferSlot])
    calls: list[tuple[Call, tuple[str, ...]]] = field(default_factory=list[tuple[Call, tuple[str, ...]]])
    lives: dict[str, tuple[Expr, int, int]] = field(default_factory=dict[str, tuple[Expr, int, int]])
    objects: dict[CodeObject, None] = field(default_factory=dict[CodeObject, None])

    def build(self, kernels: Iterable[BuiltKernel], outputs: Sequence[str], checks: Sequence[CheckOutput]) -> Program:
        for name, operation in self.inputs.items():
            if not operation.frozen:
                self._declare(Tensor(name, operation.shape, operation.dtype, operation.storage))
        for kernel in kernels:
            self._kernel(kernel)
        for name in (n for check in checks for n in (check.failures, check.value)):
            size, first, _ = self.lives[name]
            self.lives[name] = (size, first, len(self.calls))  # read after the last call
        self._place_arena()
        names = self._ordered(outputs)
        index = {name: k for k, name in enumerate(names)}
        slots = [self._with_donation(name, index) for name in names]
        calls = tuple(_indexed(call, buffers, index) for call, buffers in self.calls)
        found = tuple(Check(index[c.failures], index[c.value], c.message) for c in checks)
        return Program(tuple(slots), self.dims, calls, self._arena, found, tuple(self.objects))

    _arena: Expr = field(default_factory=lambda: as_expr(0))

    def _ordered(self, outputs: Sequence[str]) -> list[str]:
        """Slots with the outputs in the order the caller expects."""
        others = [name for name in self.slots if name not in set(outputs)]
        return [*others, *outputs]

    def _with_donation(self, name: str, index: dict[str, int]) -> BufferSlot:
        slot = self.slots[name]
        source = next((old.name for new, old in self.aliases.items() if new.name == name), None)
        if source is None:
            return slot
        return BufferSlot(slot.name, slot.role, slot.dtype, slot.shape, donated=index[source])

    def _kernel(self, kernel: BuiltKernel) -> None:
        compiled = self.compiler(kernel.kernel)
        self.objects[compiled.code] = None
        step = len(self.calls)
        tensors = iter(kernel.tensors)
        names: list[str] = []
        for buffer in kernel.kernel.buffers:
            names.append(self._workspace(buffer, step) if buffer.scope is BufferScope.WORKSPACE else
                         self._declare(next(tensors), buffer))  # fmt: skip
        last = step + len(compiled.functions) - 1
        for name in names:
            if name in self.lives:
                size, first, _ = self.lives[name]
                self.lives[name] = (size, first, last)
        sizes = tuple(as_expr(dim) for dim in kernel.kernel.dims)
        for function, tickets in zip(compiled.functions, compiled.emitted.tickets, strict=True):
            claim = kernel.claim if function == compiled.functions[-1] else 1
            call = Call(function, (), sizes, tickets, compiled.emitted.scratch, claim)
            self.calls.append((call, tuple(names)))

    def _workspace(self, buffer: Buffer, step: int) -> str:
        name = f"workspace.{step}.{buffer.name}"
        size = stored_bytes(buffer)
        self.slots[name] = BufferSlot(name, Role.ARENA, buffer.dtype, buffer.shape, as_expr(0), None, size)
        self.lives[name] = (size, step, step)
        return name

    def _declare(self, tensor: Tensor, buffer: Buffer | None = None) -> str:
        name = tensor.name
        if name in self.slots:
            return name
        operation = self.inputs.get(name)
        shape, size = tensor.shape, None
        if buffer is not None and isinstance(
            buffer.layout, Blocked
        ):  # a packed weight is a flat array of what is stored
            shape = (as_size(stored_bytes(buffer) // tensor.dtype.itemsize),)
        dtype = tensor.dtype
        if (
            operation is not None and operation.storage is not None
        ):  # a window of bytes, of whatever length the file has
            dtype, size = u8, as_expr(0)
        role = self._role(tensor, operation)
        offset = as_expr(0) if role is Role.ARENA else None
        self.slots[name] = BufferSlot(name, role, dtype, shape, offset, None, size)
        if role is Role.ARENA:
            self.lives[name] = (self.slots[name].nbytes, len(self.calls), len(self.calls))
        return name

    def _role(self, tensor: Tensor, operation: Input | None) -> Role:
        if tensor.name in self.outputs:
            return Role.OUTPUT
        if tensor.frozen or (operation is not None and operation.frozen):
            return Role.FROZEN
        return Role.INPUT if operation is not None else Role.ARENA

    def _place_arena(self) -> None:
        allocations = [Allocation(name, size, first, last) for name, (size, first, last) in self.lives.items()]
        placed = plan(allocations)
        self._arena = placed.total
        for name, offset in placed.offsets.items():
            slot = self.slots[name]
            self.slots[name] = BufferSlot(name, slot.role, slot.dtype, slot.shape, offset, None, slot.stored_bytes)


def _indexed(call: Call, names: tuple[str, ...], index: dict[str, int]) -> Call:
    buffers = tuple(index[name] for name in names)
    return Call(call.function, buffers, call.sizes, call.tickets, call.scratch, call.chunk, call.parallel)


def stored_bytes(buffer: Buffer) -> Expr:
    """Bytes of a buffer under its layout, blocks padded."""
    if not isinstance(buffer.layout, Blocked):
        return product(list(buffer.shape)) * buffer.dtype.itemsize
    total = as_expr(buffer.dtype.itemsize)
    for dimension, size in enumerate(buffer.shape):
        largest = max((b.size for b in buffer.layout.blocks if b.dimension == dimension), default=1)
        total = total * ((as_expr(size) + largest - 1) // largest * largest)
    return total
