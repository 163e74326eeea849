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
from typing import TYPE_CHECKING

from snell.deferred import deferred
from snell.runtime.arena import padded
from snell.runtime.program import Call, Carry, CodeObject, Joint, Program, Repeat, Role, Step
from snell.symbolic import Dim, Expr, FloorDiv, Remainder, as_expr
from snell.targets import Target

if TYPE_CHECKING:
    from snell.codegen import llvm
else:
    llvm = deferred("snell.codegen.llvm")

__all__ = ["ENTER", "MAIN", "TABLE", "checks_before_writes", "main_ir", "scratch_sizes", "scratch_stride", "with_main"]

MAIN, ENTER, TABLE = "main", "enter", "table"


def with_main(program: Program, target: Target) -> Program:
    """The program with its `main` compiled."""
    return replace(program, main=CodeObject((MAIN, ENTER, TABLE), llvm.compile_object(main_ir(program), target)))


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
    for index, step in enumerate(program.steps):
        if index == first_write and early:
            writer.stop_where(writer.status(early))
        writer.step(step)
    known = {*early, *(number for repeat in program.repeats for number in repeat.checks)}
    status = writer.status([k for k in range(len(program.checks)) if k not in known])
    together = [*((call,) for call in program.calls), *(joint.calls for joint in program.joints)]
    pointers = max((sum(len(call.buffers) for call in calls) for calls in together), default=0)
    sizes = max((sum(len(call.sizes) for call in calls) for calls in together), default=0)
    parts = max((len(joint.calls) for joint in program.joints), default=0)
    body = "\n".join(f"  {line}" for line in writer.lines)
    return f"""@{TABLE} = global [{len(program.functions) + 1} x ptr] zeroinitializer
declare i64 @llvm.umax.i64(i64, i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define i32 @{MAIN}(ptr %arguments, ptr %sizes, ptr %arena, ptr %scratch) {{
entry:
  %pointers = alloca [{max(1, pointers)} x ptr], align 8
  %values = alloca [{max(1, sizes)} x i64], align 8
  %frame = alloca [{1 + _PART_WORDS * parts} x i64], align 8
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
{_JOINT if parts else ""}"""


# The phase of a dispatch of several calls.  `frame` has their number, then for each its function, buffers, sizes and
# tickets; each call runs those of its tickets that lie in the range.
_PART_WORDS = 4
_JOINT = """
declare i64 @llvm.umin.i64(i64, i64)
define internal void @joint(ptr %frame, ptr %none, ptr %scratch, i64 %begin, i64 %end) {
entry:
  %count = load i64, ptr %frame
  %first = getelementptr i64, ptr %frame, i64 1
  br label %head
head:
  %number = phi i64 [0, %entry], [%next, %after]
  %part = phi ptr [%first, %entry], [%following, %after]
  %before = phi i64 [0, %entry], [%behind, %after]
  %more = icmp ult i64 %number, %count
  br i1 %more, label %look, label %out
look:
  %tickets.at = getelementptr i64, ptr %part, i64 3
  %tickets = load i64, ptr %tickets.at
  %behind = add i64 %before, %tickets
  %low = call i64 @llvm.umax.i64(i64 %begin, i64 %before)
  %high = call i64 @llvm.umin.i64(i64 %end, i64 %behind)
  %any = icmp ult i64 %low, %high
  br i1 %any, label %run, label %after
run:
  %buffers.at = getelementptr i64, ptr %part, i64 1
  %sizes.at = getelementptr i64, ptr %part, i64 2
  %phase = load ptr, ptr %part
  %buffers = load ptr, ptr %buffers.at
  %sizes = load ptr, ptr %sizes.at
  %own.begin = sub i64 %low, %before
  %own.end = sub i64 %high, %before
  call void %phase(ptr %buffers, ptr %sizes, ptr %scratch, i64 %own.begin, i64 %own.end)
  br label %after
after:
  %next = add i64 %number, 1
  %following = getelementptr i64, ptr %part, i64 4
  br label %head
out:
  ret void
}
"""


class _Writer:
    """The text of `main`; every expression, pointer and function is computed once where it is first needed.

    What a loop's block has computed is forgotten behind the loop, which that block does not dominate.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.lines: list[str] = []
        self.expressions: dict[Expr, str] = {}
        self.pointers: dict[int, str] = {}
        self.functions: dict[str, str] = {}
        self.block = "entry"
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

    def step(self, step: Step) -> None:
        match step:
            case Call():
                self.call(step)
            case Joint():
                self.joint(step)
            case Repeat():
                self.repeat(step)

    def begin(self, block: str) -> None:
        """Text from here on belongs to a new block."""
        self.lines.append(f"br label %{block}")
        self.lines.append(f"{block}:")
        self.block = block

    def repeat(self, repeat: Repeat) -> None:
        """A loop over the rows: pointers of carries are phis, those of rows are computed from the position."""
        name = f"loop{len(self.lines)}"
        length = self.expression(repeat.length)
        starts = [self._first_pointers(carry, length) for carry in repeat.carries]
        wholes = [self.pointer(row.whole) for row in repeat.rows]
        strides = [self.expression(self.program.buffers[row.row].nbytes) for row in repeat.rows]
        known = (dict(self.expressions), dict(self.pointers), dict(self.functions))
        before = self.block
        self.begin(f"{name}.head")
        head = len(self.lines)
        self.lines.append(f"%{name}.more = icmp slt i64 %{name}.position, {length}")
        self.lines.append(f"br i1 %{name}.more, label %{name}.body, label %{name}.end")
        self.lines.append(f"{name}.body:")
        self.block = f"{name}.body"
        for k, carry in enumerate(repeat.carries):
            self.pointers[carry.before], self.pointers[carry.after] = f"%{name}.read{k}", f"%{name}.write{k}"
        for row, whole, stride in zip(repeat.rows, wholes, strides, strict=True):
            offset = self.emit(f"mul i64 %{name}.position, {stride}")
            self.pointers[row.row] = self.emit(f"getelementptr i8, ptr {whole}, i64 {offset}")
        for step in repeat.steps:
            self.step(step)
        self._leave_where_failed(repeat.checks, name)
        self.lines.append(f"%{name}.next = add i64 %{name}.position, 1")
        self.lines[head:head] = _phis(name, starts, before, self.block)
        self.lines.append(f"br label %{name}.head")
        self.lines.append(f"{name}.end:")
        self.block = f"{name}.end"
        self.expressions, self.pointers, self.functions = known

    def _first_pointers(self, carry: Carry, length: str) -> tuple[str, str, str]:
        """What the first step reads, what it writes, and what the second one writes: the last must write `result`."""
        initial, result, spare = (self.pointer(slot) for slot in (carry.initial, carry.result, carry.spare))
        parity = self.emit(f"and i64 {length}, 1")
        odd = self.emit(f"icmp ne i64 {parity}, 0")
        none = self.emit(f"icmp eq i64 {length}, 0")
        size = self.expression(self.program.buffers[carry.result].nbytes)
        copied = self.emit(f"select i1 {none}, i64 {size}, i64 0")
        self.lines.append(f"call void @llvm.memcpy.p0.p0.i64(ptr {result}, ptr {initial}, i64 {copied}, i1 false)")
        first = self.emit(f"select i1 {odd}, ptr {result}, ptr {spare}")
        second = self.emit(f"select i1 {odd}, ptr {spare}, ptr {result}")
        return initial, first, second

    def _leave_where_failed(self, checks: tuple[int, ...], name: str) -> None:
        """End `main` with the number of the first check that failed in this step."""
        if not checks:
            return
        status = self.status(checks)
        failed = self.emit(f"icmp ne i32 {status}, 0")
        self.lines.append(f"br i1 {failed}, label %{name}.failed, label %{name}.passed")
        self.lines.append(f"{name}.failed:")
        self.lines.append(f"ret i32 {status}")
        self.lines.append(f"{name}.passed:")
        self.block = f"{name}.passed"

    def status(self, checks: Sequence[int]) -> str:
        """One more than the number of the first of these checks that failed, 0 if all passed."""
        status = "0"
        for number in reversed(checks):
            slot = self.program.checks[number].flag
            bits = self.program.buffers[slot].dtype.itemsize * 8
            flag = self.emit(f"load i{bits}, ptr {self.pointer(slot)}, align 1")
            failed = self.emit(f"icmp ne i{bits} {flag}, 0")
            status = self.emit(f"select i1 {failed}, i32 {number + 1}, i32 {status}")
        return status

    def call(self, call: Call) -> None:
        """Fill the call's arrays and run it; the arrays are free again when the pool returns."""
        buffers, sizes = self._arrays(call, 0, 0)
        tickets = self.expression(call.tickets)
        # A chunk of all the tickets makes the pool call the function directly.
        self._dispatch(
            self.function(call.function), buffers, sizes, tickets, str(call.chunk) if call.parallel else tickets
        )

    def joint(self, joint: Joint) -> None:
        """One dispatch over the tickets of several calls, whose arrays follow each other."""
        self.store("i64", str(len(joint.calls)), "%frame", 0)
        pointers = values = 0
        total = as_expr(0)
        for place, call in enumerate(joint.calls):
            first = 1 + _PART_WORDS * place
            buffers, sizes = self._arrays(call, pointers, values)
            for word, array in enumerate((self.function(call.function), buffers, sizes)):
                self.store("ptr", array, "%frame", first + word)
            self.store("i64", self.expression(call.tickets), "%frame", first + _PART_WORDS - 1)
            pointers, values, total = pointers + len(call.buffers), values + len(call.sizes), total + call.tickets
        self._dispatch("@joint", "%frame", "%sizes", self.expression(total), str(joint.chunk))

    def _arrays(self, call: Call, pointers: int, values: int) -> tuple[str, str]:
        """The call's buffers and sizes in memory, from these places on."""
        for index, slot in enumerate(call.buffers):
            self.store("ptr", self.pointer(slot), "%pointers", pointers + index)
        buffers = self.element("ptr", "%pointers", pointers)
        if call.sizes == tuple(as_expr(dim) for dim in self.program.dims[: len(call.sizes)]):
            return buffers, "%sizes"
        for index, size in enumerate(call.sizes):
            self.store("i64", self.expression(size), "%values", values + index)
        return buffers, self.element("i64", "%values", values)

    def _dispatch(self, function: str, buffers: str, sizes: str, tickets: str, chunk: str) -> None:
        operands = f"ptr {function}, ptr {buffers}, ptr {sizes}, ptr %scratch, i64 {self.stride}"
        self.lines.append(f"call void {self.run}({operands}, i64 {tickets}, i64 {chunk})")

    def stop_where(self, status: str) -> None:
        """Return a status that is not 0."""
        stopped = self.emit(f"icmp ne i32 {status}, 0")
        self.lines.append(f"br i1 {stopped}, label %stopped, label %checked")
        self.lines += ["stopped:", f"ret i32 {status}", "checked:"]
        self.block = "checked"

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


def _phis(name: str, starts: Sequence[tuple[str, str, str]], before: str, after: str) -> list[str]:
    """The position, and for each carry what is read, what is written, and what the next step writes."""
    lines = [f"%{name}.position = phi i64 [0, %{before}], [%{name}.next, %{after}]"]
    for k, (initial, first, second) in enumerate(starts):
        read, write, spare = f"%{name}.read{k}", f"%{name}.write{k}", f"%{name}.spare{k}"
        lines.append(f"{read} = phi ptr [{initial}, %{before}], [{write}, %{after}]")
        lines.append(f"{write} = phi ptr [{first}, %{before}], [{spare}, %{after}]")
        lines.append(f"{spare} = phi ptr [{second}, %{before}], [{write}, %{after}]")
    return lines


def checks_before_writes(program: Program) -> tuple[int, tuple[int, ...]]:
    """The first step that may write a donated buffer (the number of steps if none), and the checks known before it."""
    taken_over = {index for index, slot in enumerate(program.buffers) if slot.donated is not None}
    slots = [_slots(step) for step in program.steps]
    first = next((index for index, used in enumerate(slots) if taken_over & used), len(slots))
    later = set[int]().union(*slots[first:])
    inner = {number for repeat in program.repeats for number in repeat.checks}
    early = (k for k, check in enumerate(program.checks) if k not in inner and not {check.flag, check.value} & later)
    return first, tuple(early) if taken_over else ()


def _slots(step: Step) -> set[int]:
    """Every buffer that a step touches."""
    if isinstance(step, Call):
        return set(step.buffers)
    if isinstance(step, Joint):
        return set[int]().union(*(call.buffers for call in step.calls))
    carried = {slot for c in step.carries for slot in (c.initial, c.before, c.after, c.result, c.spare)}
    rows = {slot for row in step.rows for slot in (row.whole, row.row)}
    return carried | rows | set[int]().union(*(_slots(inner) for inner in step.steps))
