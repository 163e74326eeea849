"""Assembling a program: buffers with roles and arena offsets, steps in order, and the preparation of weights.

Lifetimes are counted in calls.  What a repetition reads from outside it, and where its results go, is alive during all
of it; what one of its steps makes and reads is alive between the two.

Frozen operands that kernels want packed are made by a second program, run once when the weights are bound; what it
makes enters the main program as frozen buffers.  What only the steps of a repetition find frozen is packed before the
outermost repetition that leaves it as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from snell.compiler.checks import CheckOutput
from snell.compiler.lowered import CarryTensors, Lowered, RepeatStep, SideBySide, Step, kernels_of
from snell.dtypes import u8
from snell.graph.graph_inputs import input_operations
from snell.graph.primitives import Input
from snell.loops.build import BuiltKernel
from snell.loops.dispatches import shared_claim
from snell.loops.ir import Blocked, Buffer, BufferScope
from snell.rewrite.term import Tensor
from snell.runtime import program as runtime
from snell.runtime.arena import Allocation, plan
from snell.runtime.binding import Assembled
from snell.runtime.kernels import KernelCompiler
from snell.runtime.program import BufferSlot, Call, Carry, Check, CodeObject, Joint, Program, Repeat, Role, Row
from snell.symbolic import Dim, Expr, as_expr, as_size

__all__ = ["assemble"]


def assemble(lowered: Lowered, checks: Sequence[CheckOutput], compiler: KernelCompiler) -> Assembled:
    """Programs for lowered kernels; `main` is compiled by the runtime."""
    prepares = list(dict.fromkeys(p for kernel in lowered.kernels for p in kernel.prepares if _copies_weights(p)))
    inputs = input_operations(lowered.graph)
    main = _Assembly(compiler, inputs, lowered.graph.dims())
    main.outputs = {name for name, _ in lowered.graph.outputs} - {n for c in checks for n in (c.failures, c.value)}
    main.aliases = lowered.aliases
    program = main.build(lowered.steps, [name for name, _ in lowered.graph.outputs if name in main.outputs], checks)
    if not prepares:
        return Assembled(program, None)
    packing = _Assembly(compiler, {name: op for name, op in inputs.items() if op.frozen}, ())
    packing.outputs = {t.name for p in prepares for t in p.writes}
    order = [t.name for p in prepares for t in p.tensors if t in p.writes]
    return Assembled(program, packing.build(prepares, list(dict.fromkeys(order)), ()))


@dataclass(frozen=True, slots=True)
class _NamedCall:
    """A call whose buffers are still names."""

    call: Call
    buffers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _NamedJoint:
    """Calls in one dispatch whose buffers are still names."""

    calls: tuple[_NamedCall, ...]
    chunk: int


@dataclass(frozen=True, slots=True)
class _NamedRepeat:
    """A repetition whose buffers are still names; `checks` are numbers in the program."""

    source: RepeatStep
    steps: tuple[_NamedStep, ...]
    checks: tuple[int, ...]


_NamedStep = _NamedCall | _NamedJoint | _NamedRepeat


@dataclass(slots=True)
class _Assembly:
    """One program under construction: slots by tensor name, steps, and lifetimes of arena buffers."""

    compiler: KernelCompiler
    inputs: dict[str, Input]
    dims: tuple[Dim, ...]
    outputs: set[str] = field(default_factory=set[str])
    aliases: dict[Tensor, Tensor] = field(default_factory=dict[Tensor, Tensor])
    slots: dict[str, BufferSlot] = field(default_factory=dict[str, BufferSlot])
    copies: set[str] = field(default_factory=set[str])
    time: int = 0
    checks: list[CheckOutput] = field(default_factory=list[CheckOutput])
    lives: dict[str, tuple[Expr, int, int]] = field(default_factory=dict[str, tuple[Expr, int, int]])
    objects: dict[CodeObject, None] = field(default_factory=dict[CodeObject, None])

    def build(self, steps: Iterable[Step], outputs: Sequence[str], checks: Sequence[CheckOutput]) -> Program:
        self.checks = list(checks)
        for name, operation in self.inputs.items():
            if not operation.frozen:
                self._declare(Tensor(name, operation.shape, operation.dtype, operation.storage))
        named = self._steps(steps)
        self._extend((n for check in checks for n in (check.failures, check.value)), self.time)  # read at the end
        self._place_arena()
        names = self._ordered(outputs)
        index = {name: k for k, name in enumerate(names)}
        slots = [self._with_donation(name, index) for name in names]
        found = tuple(Check(index[c.failures], index[c.value], c.message) for c in self.checks)
        placed = tuple(_indexed(step, index) for step in named)
        return Program(tuple(slots), self.dims, placed, self._arena, found, tuple(self.objects))

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

    def _steps(self, steps: Iterable[Step]) -> tuple[_NamedStep, ...]:
        made: list[_NamedStep] = []
        for step in steps:
            match step:
                case RepeatStep():
                    made += self._steady_copies(step)
                    made.append(self._repetition(step))
                case SideBySide():
                    made += self._side_by_side(step)
                case BuiltKernel():
                    made += self._kernel(step)
        return tuple(made)

    def _steady_copies(self, step: RepeatStep) -> list[_NamedCall]:
        """The packed copies that kernels of a repetition read, where all of its steps copy the same."""
        changing = set(_step_tensors(step))
        made: list[_NamedCall] = []
        for prepare in dict.fromkeys(p for kernel in kernels_of((step,)) for p in kernel.prepares):
            *sources, packed = prepare.tensors
            if _copies_weights(prepare) or packed.name in self.copies or changing & set(sources):
                continue
            self.copies.add(packed.name)
            made += self._kernel(prepare)
        return made

    def _repetition(self, step: RepeatStep) -> _NamedRepeat:
        begin = self.time
        for carry in step.carries:
            for tensor in (carry.initial, carry.result, carry.spare):
                self._declare(tensor)
            self._declare_step(carry.before, carry.after)
        for row in step.rows:
            self._declare(row.whole)
            self._declare_step(row.row)
        self.time += 1  # the carries are set up, then the first step begins
        numbers = tuple(range(len(self.checks), len(self.checks) + len(step.checks)))
        self.checks += step.checks
        inner = self._steps(step.steps)
        end = self.time - 1
        self._extend((n for check in step.checks for n in (check.failures, check.value)), end)
        used = {tensor.name for carry in step.carries for tensor in (carry.initial, carry.result, carry.spare)}
        used |= {row.whole.name for row in step.rows} | set(_buffers(inner))
        self._extend((name for name in used if name in self.lives and self.lives[name][1] <= begin), end)
        return _NamedRepeat(step, inner, numbers)

    def _declare_step(self, *tensors: Tensor) -> None:
        for tensor in tensors:
            self.slots[tensor.name] = BufferSlot(tensor.name, Role.STEP, tensor.dtype, tensor.shape)

    def _extend(self, names: Iterable[str], last: int) -> None:
        """Keep arena buffers alive until a step at least."""
        for name in names:
            if name in self.lives:
                size, first, known = self.lives[name]
                self.lives[name] = (size, first, max(known, last))

    def _kernel(self, kernel: BuiltKernel) -> list[_NamedCall]:
        compiled = self.compiler(kernel.kernel)
        self.objects[compiled.code] = None
        step = self.time
        tensors = iter(kernel.tensors)
        names: list[str] = []
        for buffer in kernel.kernel.buffers:
            names.append(self._workspace(buffer, step) if buffer.scope is BufferScope.WORKSPACE else
                         self._declare(next(tensors), buffer))  # fmt: skip
        self.time += len(compiled.functions)
        self._extend(names, self.time - 1)
        made: list[_NamedCall] = []
        sizes = tuple(as_expr(dim) for dim in kernel.kernel.dims)
        for function, tickets in zip(compiled.functions, compiled.emitted.tickets, strict=True):
            claim = kernel.claim if function == compiled.functions[-1] else 1
            call = Call(function, (), sizes, tickets, compiled.emitted.scratch, claim)
            made.append(_NamedCall(call, tuple(names)))
        return made

    def _side_by_side(self, step: SideBySide) -> list[_NamedStep]:
        """The kernels' last phases together, those before them together, and so on: all memory is alive all the while."""
        begin = self.time
        calls = [self._kernel(kernel) for kernel in step.kernels]
        self._alive({name for own in calls for call in own for name in call.buffers}, begin, self.time - 1)
        rounds = max(map(len, calls))
        made: list[_NamedStep] = []
        for number in range(rounds):
            together = [own[len(own) - rounds + number] for own in calls if len(own) >= rounds - number]
            last = number == rounds - 1
            chunk = shared_claim(step.kernels) if last else 1
            made.append(_NamedJoint(tuple(together), chunk) if len(together) > 1 else together[0])
        return made

    def _alive(self, names: Iterable[str], begin: int, end: int) -> None:
        """Arena buffers that something touches at any time between these are alive from the first to the last."""
        for name in names:
            if name in self.lives:
                size, first, last = self.lives[name]
                self.lives[name] = (size, min(first, begin), max(last, end))

    def _workspace(self, buffer: Buffer, step: int) -> str:
        name = f"workspace.{step}.{buffer.name}"
        size = buffer.stored_bytes
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
            shape = (as_size(buffer.stored_bytes // tensor.dtype.itemsize),)
        dtype = tensor.dtype
        if (
            operation is not None and operation.storage is not None
        ):  # a window of bytes, of whatever length the file has
            dtype, size = u8, as_expr(0)
        role = self._role(tensor, operation)
        offset = as_expr(0) if role is Role.ARENA else None
        self.slots[name] = BufferSlot(name, role, dtype, shape, offset, None, size)
        if role is Role.ARENA:
            self.lives[name] = (self.slots[name].nbytes, self.time, self.time)
        return name

    def _role(self, tensor: Tensor, operation: Input | None) -> Role:
        if tensor.name in self.outputs:
            return Role.OUTPUT
        if (tensor.frozen and tensor.name not in self.copies) or (operation is not None and operation.frozen):
            return Role.FROZEN
        return Role.INPUT if operation is not None else Role.ARENA

    def _place_arena(self) -> None:
        allocations = [Allocation(name, size, first, last) for name, (size, first, last) in self.lives.items()]
        placed = plan(allocations)
        self._arena = placed.total
        for name, offset in placed.offsets.items():
            slot = self.slots[name]
            self.slots[name] = BufferSlot(name, slot.role, slot.dtype, slot.shape, offset, None, slot.stored_bytes)


def _copies_weights(prepare: BuiltKernel) -> bool:
    """Whether what is packed is there before the first call."""
    return all(source.frozen for source in prepare.tensors[:-1])


def _step_tensors(step: RepeatStep) -> Iterator[Tensor]:
    """What has another value in each step."""
    yield from (tensor for carry in step.carries for tensor in (carry.before, carry.after))
    yield from (row.row for row in step.rows)
    yield from (tensor for kernel in kernels_of(step.steps) for tensor in kernel.writes)
    for inner in step.steps:
        if isinstance(inner, RepeatStep):
            yield from _step_tensors(inner)


def _indexed(step: _NamedStep, index: dict[str, int]) -> runtime.Step:
    """The step on slots."""
    match step:
        case _NamedCall(call, names):
            return _indexed_call(call, names, index)
        case _NamedJoint(calls, chunk):
            return Joint(tuple(_indexed_call(each.call, each.buffers, index) for each in calls), chunk)
        case _NamedRepeat(source, steps, checks):
            carries = tuple(_indexed_carry(carry, index) for carry in source.carries)
            rows = tuple(Row(index[row.whole.name], index[row.row.name]) for row in source.rows)
            return Repeat(source.length, carries, rows, tuple(_indexed(inner, index) for inner in steps), checks)


def _indexed_call(call: Call, names: Sequence[str], index: dict[str, int]) -> Call:
    return replace(call, buffers=tuple(index[name] for name in names))


def _indexed_carry(carry: CarryTensors, index: dict[str, int]) -> Carry:
    tensors = (carry.initial, carry.before, carry.after, carry.result, carry.spare)
    return Carry(*(index[tensor.name] for tensor in tensors))


def _buffers(steps: Iterable[_NamedStep]) -> Iterator[str]:
    """Names of the buffers that steps touch."""
    for step in steps:
        match step:
            case _NamedCall(_, names):
                yield from names
            case _NamedJoint(calls, _):
                yield from (name for each in calls for name in each.buffers)
            case _NamedRepeat(source, inner, _):
                yield from _buffers(inner)
                yield from (t.name for c in source.carries for t in (c.initial, c.result, c.spare))
                yield from (row.whole.name for row in source.rows)
