"""A candidate as a program of its own: what it reads is bound as frozen arrays, what it writes are the outputs."""

from __future__ import annotations

from collections.abc import Iterable

from snell.dtypes import u8
from snell.loops.ir import Blocked, Buffer, BufferScope, Kernel
from snell.loops.parse import parse_kernel
from snell.loops.verify import verify
from snell.runtime.arena import Allocation, plan
from snell.runtime.binding import Assembled
from snell.runtime.kernels import KernelCompiler
from snell.runtime.main import with_main
from snell.runtime.program import BufferSlot, Call, Program, Role
from snell.search.candidate import Candidate
from snell.symbolic import as_expr, as_size

__all__ = ["candidate_program"]


def candidate_program(candidate: Candidate, compiler: KernelCompiler) -> Assembled:
    """Parse, verify and compile; VerificationError where the kernel breaks a rule of the loop IR."""
    program = _program(_kernel(candidate.kernel), candidate.writes, candidate.claim, compiler)
    if not candidate.prepares:
        return Assembled(program, None)
    parts = [_program(_kernel(prepare.kernel), (prepare.packed,), 1, compiler) for prepare in candidate.prepares]
    return Assembled(program, with_main(_joined(parts).verify(), compiler.target))


def _kernel(text: str) -> Kernel:
    kernel = parse_kernel(text)
    verify(kernel)
    return kernel


def _program(kernel: Kernel, writes: Iterable[str], claim: int, compiler: KernelCompiler) -> Program:
    compiled = compiler(kernel)
    workspaces = [b for b in kernel.buffers if b.scope is BufferScope.WORKSPACE]
    placed = plan([Allocation(buffer.name, buffer.stored_bytes, 0, 0) for buffer in workspaces])
    written = frozenset(writes)
    slots = tuple(
        BufferSlot(b.name, Role.ARENA, b.dtype, b.shape, placed.offsets[b.name], None, b.stored_bytes)
        if b in workspaces
        else _parameter(b, Role.OUTPUT if b.name in written else Role.FROZEN)
        for b in kernel.buffers
    )
    sizes = tuple(as_expr(dim) for dim in kernel.dims)
    last = compiled.functions[-1]
    calls = tuple(
        Call(function, tuple(range(len(slots))), sizes, tickets, compiled.emitted.scratch, claim if function == last else 1)
        for function, tickets in zip(compiled.functions, compiled.emitted.tickets, strict=True)
    )  # fmt: skip
    program = Program(slots, kernel.dims, calls, placed.total, (), (compiled.code,))
    return with_main(program.verify(), compiler.target)


def _parameter(buffer: Buffer, role: Role) -> BufferSlot:
    if buffer.tensor.storage is not None:  # a window of bytes
        return BufferSlot(buffer.name, role, u8, buffer.tensor.shape, None, None, as_expr(0))
    shape = buffer.shape
    if isinstance(buffer.layout, Blocked):  # a packed weight is a flat array of what is stored
        shape = (as_size(buffer.stored_bytes // buffer.dtype.itemsize),)
    return BufferSlot(buffer.name, role, buffer.dtype, shape)


def _joined(programs: list[Program]) -> Program:
    """The programs one after the other; equal buffers are one."""
    slots = {slot.name: slot for program in programs for slot in program.buffers}
    index = {name: k for k, name in enumerate(slots)}
    calls = tuple(
        Call(
            call.function, tuple(index[program.buffers[slot].name] for slot in call.buffers), call.sizes,
            call.tickets, call.scratch, call.chunk,
        )
        for program in programs
        for call in program.calls
    )  # fmt: skip
    objects = tuple(dict.fromkeys(code for program in programs for code in program.objects))
    return Program(tuple(slots.values()), (), calls, as_expr(0), (), objects)
