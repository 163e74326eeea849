"""`main`: the one function of an executable, as LLVM IR, from the program's description.

    i32 @main(ptr %arguments, ptr %sizes, ptr %arena, ptr %scratch)

    i32 @enter(ptr %operands)      main with its four arguments in memory: one word to pass from Python

Checks whose calls come before every call that may write a donated buffer are looked at between the two, so that the
buffer of a call that fails them still has what it had; the others are looked at after the last call.

`arguments` holds a pointer for each slot of `Program.arguments`, `sizes` an i64 for each dim; `scratch` has room for
`scratch_stride(program)` bytes a thread.  The result is 0, or 1 + the index of the first check that failed.  Kernels
and the pool are reached through `@table` (`pool_run`, then `Program.functions`), which the loader fills: object files
stay independent of each other and of addresses, so that each can be cached alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from snell.codegen.llvm import compile_object
from snell.runtime.arena import padded
from snell.runtime.program import Call, CodeObject, Program, Role
from snell.symbolic import Dim, Expr, FloorDiv, Remainder, as_expr
from snell.targets import Target

__all__ = ["ENTER", "MAIN", "TABLE", "checks_before_writes", "main_ir", "scratch_sizes", "scratch_stride", "with_main"]

MAIN, ENTER, TABLE = "main", "enter", "table"


def with_main(program: Program, target: Target) -> Program:
    """The program with its `main` compiled."""
    return replace(program, main=CodeObject((MAIN, ENTER, TABLE), compile_object(main_ir(program), target)))


def scratch_sizes(program: Program) -> tuple[Expr, ...]:
    """Bytes of scratch a thread that calls ask for, each distinct expression once; a call gets the largest."""
    return tuple(dict.fromkeys(padded(scratch) for scratch in dict.fromkeys(call.scratch for call in program.calls)))


def scratch_stride(program: Program, sizes: Mapping[Dim, int]) -> int:
    """Bytes of scratch for each thread at these sizes: what `main` computes for itself."""
    return max((int(size.evaluate(sizes)) for size in scratch_sizes(program)), default=0)


def main_ir(program: Program) -> str:
    """The module's text; equal programs give equal text."""
    program.verify()
    writer = _Writer(program)
    first_write, early = checks_before_writes(program)
    for index, call in enumerate(program.calls):
        if index == first_write and early:
            writer.stop_where(_status(writer, early))
        writer.call(call)
    status = _status(writer, [number for number in range(len(program.checks)) if number not in early])
    pointers = max((len(call.buffers) for call in program.calls), default=0)
    sizes = max((len(call.sizes) for call in program.calls), default=0)
    body = "\n".join(f"  {line}" for line in writer.lines)
    return f"""@{TABLE} = global [{len(program.functions) + 1} x ptr] zeroinitializer
declare i64 @llvm.umax.i64(i64, i64)
define i32 @{MAIN}(ptr %arguments, ptr %sizes, ptr %arena, ptr %scratch) {{
entry:
  %pointers = alloca [{max(1, pointers)} x ptr], align 8
  %values = alloca [{max(1, sizes)} x i64], align 8
{body}
  ret i32 {status}
}}
define i32 @{ENTER}(ptr %operands) {{
entry:
  %second = getelementptr ptr, ptr %operands, i64 1
  %third = getelementptr ptr, ptr %operands, i64 2
  %fourth = getelementptr ptr, ptr %operands, i64 3
  %arguments = load ptr, ptr %operands
  %sizes = load ptr, ptr %second
  %arena = load ptr, ptr %third
  %scratch = load ptr, ptr %fourth
  %status = call i32 @{MAIN}(ptr %arguments, ptr %sizes, ptr %arena, ptr %scratch)
  ret i32 %status
}}
"""


class _Writer:
    """Straight-line text of `main`; every expression, pointer and function is computed once."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.lines: list[str] = []
        self.expressions: dict[Expr, str] = {}
        self.pointers: dict[int, str] = {}
        self.functions: dict[str, str] = {}
        for index, dim in enumerate(program.dims):
            self.expressions[as_expr(dim)] = self.load("i64", "%sizes", index)
        self.run = self.load("ptr", f"@{TABLE}", 0)
        self.stride = self._stride()

    def emit(self, text: str) -> str:
        name = f"%t{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def load(self, kind: str, base: str, index: int) -> str:
        return self.emit(f"load {kind}, ptr {self.element(kind, base, index)}")

    def element(self, kind: str, base: str, index: int) -> str:
        return base if index == 0 else self.emit(f"getelementptr {kind}, ptr {base}, i64 {index}")

    def store(self, kind: str, value: str, base: str, index: int) -> None:
        place = self.element(kind, base, index)
        self.lines.append(f"store {kind} {value}, ptr {place}")

    def call(self, call: Call) -> None:
        """Fill the call's arrays and run it; the arrays are free again when the pool returns."""
        for index, slot in enumerate(call.buffers):
            self.store("ptr", self.pointer(slot), "%pointers", index)
        sizes = "%sizes"
        if call.sizes != tuple(as_expr(dim) for dim in self.program.dims[: len(call.sizes)]):
            sizes = "%values"
            for index, size in enumerate(call.sizes):
                self.store("i64", self.expression(size), "%values", index)
        tickets = self.expression(call.tickets)
        # A chunk of all the tickets makes the pool call the function directly.
        chunk = str(call.chunk) if call.parallel else tickets
        operands = f"ptr {self.function(call.function)}, ptr %pointers, ptr {sizes}, ptr %scratch, i64 {self.stride}"
        self.lines.append(f"call void {self.run}({operands}, i64 {tickets}, i64 {chunk})")

    def stop_where(self, status: str) -> None:
        """Return a status that is not 0."""
        stopped = self.emit(f"icmp ne i32 {status}, 0")
        self.lines.append(f"br i1 {stopped}, label %stopped, label %checked")
        self.lines += ["stopped:", f"ret i32 {status}", "checked:"]

    def function(self, name: str) -> str:
        if name not in self.functions:
            self.functions[name] = self.load("ptr", f"@{TABLE}", 1 + self.program.functions.index(name))
        return self.functions[name]

    def pointer(self, slot: int) -> str:
        """The address of a buffer."""
        if slot not in self.pointers:
            buffer = self.program.buffers[slot]
            if buffer.role is Role.ARENA and buffer.offset is not None:
                offset = self.expression(buffer.offset)
                self.pointers[slot] = self.emit(f"getelementptr i8, ptr %arena, i64 {offset}")
            else:
                self.pointers[slot] = self.load("ptr", "%arguments", self.program.arguments.index(slot))
        return self.pointers[slot]

    def expression(self, expression: Expr) -> str:
        """The value as an operand; floor semantics for divisions and remainders."""
        if expression.is_constant:
            return str(expression.constant)
        if expression not in self.expressions:
            self.expressions[expression] = self._sum(expression)
        return self.expressions[expression]

    def _sum(self, expression: Expr) -> str:
        total = str(expression.constant)
        for monomial, coefficient in expression.terms:
            value = str(coefficient)
            for atom in monomial:
                factor = self._atom(atom)
                value = factor if value == "1" else self.emit(f"mul i64 {value}, {factor}")
            total = value if total == "0" else self.emit(f"add i64 {total}, {value}")
        return total

    def _atom(self, atom: object) -> str:
        match atom:
            case FloorDiv(numerator, divisor):
                return self._divide(numerator, divisor)[0]
            case Remainder(numerator, divisor):
                return self._divide(numerator, divisor)[1]
            case _:
                return self.expressions[as_expr(atom)]

    def _divide(self, numerator: Expr, divisor: Expr) -> tuple[str, str]:
        """Quotient rounded down and remainder with the divisor's sign."""
        a, b = self.expression(numerator), self.expression(divisor)
        if numerator.is_non_negative() and divisor.is_non_negative():
            return self.emit(f"udiv i64 {a}, {b}"), self.emit(f"urem i64 {a}, {b}")
        quotient, rest = self.emit(f"sdiv i64 {a}, {b}"), self.emit(f"srem i64 {a}, {b}")
        inexact = self.emit(f"icmp ne i64 {rest}, 0")
        signs = self.emit(f"xor i64 {rest}, {b}")
        opposite = self.emit(f"icmp slt i64 {signs}, 0")
        adjust = self.emit(f"and i1 {inexact}, {opposite}")
        one = self.emit(f"zext i1 {adjust} to i64")
        moved = self.emit(f"add i64 {rest}, {b}")
        return self.emit(f"sub i64 {quotient}, {one}"), self.emit(f"select i1 {adjust}, i64 {moved}, i64 {rest}")

    def _stride(self) -> str:
        stride = "0"
        for size in dict.fromkeys(padded(call.scratch) for call in self.program.calls):
            value = self.expression(size)
            stride = value if stride == "0" else self.emit(f"call i64 @llvm.umax.i64(i64 {stride}, i64 {value})")
        return stride


def checks_before_writes(program: Program) -> tuple[int, tuple[int, ...]]:
    """The first call that may write a donated buffer (the number of calls if none), and the checks known before it."""
    taken_over = {index for index, slot in enumerate(program.buffers) if slot.donated is not None}
    calls = enumerate(program.calls)
    first = next((index for index, call in calls if taken_over.intersection(call.buffers)), len(program.calls))
    later = {slot for call in program.calls[first:] for slot in call.buffers}
    early = (number for number, check in enumerate(program.checks) if not {check.flag, check.value} & later)
    return first, tuple(early) if taken_over else ()


def _status(writer: _Writer, numbers: Sequence[int]) -> str:
    """1 + the number of the first of these checks that failed, 0 if all passed."""
    status = "0"
    for number in reversed(numbers):
        slot = writer.program.checks[number].flag
        bits = writer.program.buffers[slot].dtype.itemsize * 8
        flag = writer.emit(f"load i{bits}, ptr {writer.pointer(slot)}, align 1")
        failed = writer.emit(f"icmp ne i{bits} {flag}, 0")
        status = writer.emit(f"select i1 {failed}, i32 {number + 1}, i32 {status}")
    return status
