"""The one emitter: a kernel of the loop IR to LLVM IR text.

Each phase is one function `void @name(ptr %buffers, ptr %sizes, ptr %scratch, i64 %begin, i64 %end)`: pointers in the
order of `kernel.buffers`, an i64 for each of `kernel.dims`, this thread's scratch (64-byte aligned), and the tickets
`begin <= t < end` to run.  Distinct buffers never overlap.  The text depends on the kernel and the target only.
"""

from __future__ import annotations

from dataclasses import dataclass

from snell.codegen.expressions import Expressions, VectorMath
from snell.codegen.instructions import Instructions
from snell.codegen.linear import Fact
from snell.codegen.memory import zeros_declaration
from snell.codegen.nest import Nest
from snell.codegen.position import Positions
from snell.codegen.scope import Scopes
from snell.codegen.vector_math import emit_function
from snell.loops.ir import Init, Kernel, Loop, Phase, Prefetch, Store, Tee, Update, statements
from snell.rewrite.term import Load, walk
from snell.symbolic import Axis, Expr, as_expr
from snell.targets import Target

__all__ = ["EmittedKernel", "emit_kernel"]

# Registers that values held across a loop may take; the rest is for accumulators and what the body needs.
_HELD_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class EmittedKernel:
    """LLVM IR and what a caller needs: functions and ticket counts by phase, scratch bytes, buffer order."""

    name: str
    llvm_ir: str
    functions: tuple[str, ...]
    tickets: tuple[Expr, ...]
    scratch: Expr
    buffers: tuple[str, ...]


def emit_kernel(kernel: Kernel, target: Target, vector_math: VectorMath = emit_function) -> EmittedKernel:
    """Emit every phase of a verified kernel; CompileError names what the emitter cannot do."""
    declarations: set[str] = set()
    texts: list[str] = []
    functions: list[str] = []
    sizes: list[Expr] = []
    for number, phase in enumerate(kernel.phases):
        name = f"{kernel.name}.{number}"
        function = _Function(kernel, phase, target, vector_math)
        texts.append(function.text(name))
        declarations |= function.scopes.declarations
        if function.expressions.memory.uses_zeros:
            declarations.add(zeros_declaration())
        functions.append(name)
        sizes.append(function.nest.scratch)
    module = "\n".join([*sorted(declarations), *texts, ""])
    tickets = tuple(phase.tickets() for phase in kernel.phases)
    buffers = tuple(buffer.name for buffer in kernel.buffers)
    return EmittedKernel(kernel.name, module, tuple(functions), tickets, _largest(sizes), buffers)


class _Function:
    """The emission of one phase; everything mutable lives and ends here."""

    def __init__(self, kernel: Kernel, phase: Phase, target: Target, vector_math: VectorMath) -> None:
        self.scopes = Scopes(target.vector_registers * _HELD_SHARE)
        positions = Positions()
        self.expressions = Expressions(Instructions(self.scopes, target), positions, vector_math)
        self._load_sizes(kernel)
        self._load_pointers(kernel)
        for axis in phase_axes(phase):
            positions.root(axis, self.expressions.indexing.extent(axis.extent))
        self.nest = Nest(self.expressions, "%scratch")
        self.nest.phase(phase, "%begin", "%end")

    def _load_sizes(self, kernel: Kernel) -> None:
        for number, dim in enumerate(kernel.dims):
            place = self.scopes.emit(f"getelementptr i64, ptr %sizes, i64 {number}")
            name = self.scopes.emit(f"load i64, ptr {place}, align 8")
            self.expressions.indexing.sizes[dim] = name
            self.expressions.indexing.facts[name] = Fact(dim.multiple, dim.min, dim.max)

    def _load_pointers(self, kernel: Kernel) -> None:
        for number, buffer in enumerate(kernel.buffers):
            place = self.scopes.emit(f"getelementptr ptr, ptr %buffers, i64 {number}")
            self.expressions.memory.bind(buffer, self.scopes.emit(f"load ptr, ptr {place}, align 8"))

    def text(self, name: str) -> str:
        arguments = "ptr %buffers, ptr %sizes, ptr %scratch, i64 %begin, i64 %end"
        lines = "\n".join(self.scopes.stack[0].lines)
        return f"define void @{name}({arguments}) {{\nentry:\n{lines}\n ret void\n}}"


def phase_axes(phase: Phase) -> tuple[Axis, ...]:
    """Every axis that the phase's levels or expressions mention, in a fixed order."""
    found: dict[Axis, None] = dict.fromkeys(level.axis for level in phase.levels)
    for statement in statements(phase.body):
        match statement:
            case Loop():
                found[statement.level.axis] = None
            case Init() | Update():
                found.update(dict.fromkeys(statement.accumulator.axes))
            case _:
                pass
        for expression in _expressions(statement):
            found.update(dict.fromkeys(sorted(expression.axes(), key=str)))
    return tuple(found)


def _expressions(statement: object) -> list[Expr]:
    match statement:
        case Loop(_, _, lower, upper):
            return [bound for bound in (lower, upper) if bound is not None]
        case Init(_, value) | Update(_, value):
            found, roots = [], [value]
        case Store(_, indices, value):
            found, roots = list(indices), [value]
        case Prefetch(_, indices):
            return list(indices)
        case _:
            return []
    for item in walk(*roots):
        if isinstance(item.op, Load):
            found += [*item.op.indices, *item.op.guards]
        elif isinstance(item.op, Tee):
            found += item.op.indices
    return found


def _largest(sizes: list[Expr]) -> Expr:
    """Phases reuse the same scratch; sizes that cannot be compared are added."""
    known = [size.constant for size in sizes if size.is_constant]
    total = as_expr(max(known, default=0))
    for size in dict.fromkeys(size for size in sizes if not size.is_constant):
        total = total + size
    return total
