"""The description of an executable: buffers, dims, calls of kernel functions, checks and object code.

A `Program` is data.  It goes to bytes (a JSON header, then the object files, under a checksum) and back with equal
value; nothing in it is Python code, so a saved program cannot run anything but its object files.

    Program ::= dims, BufferSlot*, Step*, Check*, CodeObject*, main
    Step    ::= Call | Joint | Repeat
    Joint   ::= Call*, chunk
    Repeat  ::= length, Carry*, Row*, Step*, checks
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from snell.dtypes import DType, from_name
from snell.errors import CompileError, FileFormatError
from snell.symbolic import Dim, Expr, FloorDiv, Remainder, Shape, as_expr, as_size, product

__all__ = [
    "BufferSlot", "Call", "Carry", "Check", "CodeObject", "Joint", "Program", "Repeat", "Role", "Row", "Step",
    "from_bytes", "to_bytes",
]  # fmt: skip

_MAGIC = b"snell program 3\n"


class Role(Enum):
    """Who provides a buffer's memory."""

    INPUT = "input"
    OUTPUT = "output"
    FROZEN = "frozen"
    ARENA = "arena"
    STEP = "step"
    """No memory of its own: a repetition says at each step which memory it names."""


@dataclass(frozen=True, slots=True)
class BufferSlot:
    """A buffer.  `offset` places an arena buffer; `donated` names the input slot whose memory an output takes over.

    `stored_bytes` replaces the dense size of `shape` for layouts that pad.
    """

    name: str
    role: Role
    dtype: DType
    shape: Shape
    offset: Expr | None = None
    donated: int | None = None
    stored_bytes: Expr | None = None

    @property
    def nbytes(self) -> Expr:
        return product(tuple(self.shape)) * self.dtype.itemsize if self.stored_bytes is None else self.stored_bytes


@dataclass(frozen=True, slots=True)
class Call:
    """One phase: `function(buffers, sizes, scratch, begin, end)` over `tickets`, at least `chunk` of them at a time.

    `buffers` are slots, `sizes` the values of the kernel's dims over the program's; `scratch` is bytes for each thread.
    """

    function: str
    buffers: tuple[int, ...]
    sizes: tuple[Expr, ...]
    tickets: Expr
    scratch: Expr
    chunk: int = 1
    parallel: bool = True


@dataclass(frozen=True, slots=True)
class Joint:
    """Calls in one dispatch over the tickets of all, the first call's first, at least `chunk` of them at a time.

    None of the calls touches what another one writes.
    """

    calls: tuple[Call, ...]
    chunk: int = 1


@dataclass(frozen=True, slots=True)
class Carry:
    """A value that a repetition carries, by slots.  Each step reads `before` and writes `after` (both of role STEP).

    The first step reads `initial`, which is never written; the steps write `spare` and `result` in turn, the last one
    `result`.  Without a step `result` becomes a copy of `initial`.
    """

    initial: int
    before: int
    after: int
    result: int
    spare: int


@dataclass(frozen=True, slots=True)
class Row:
    """Slots: in step t, `row` (of role STEP) names row t of `whole`."""

    whole: int
    row: int


@dataclass(frozen=True, slots=True)
class Repeat:
    """Steps that run `length` times, in order; a check (a number in `Program.checks`) that fails ends the program."""

    length: Expr
    carries: tuple[Carry, ...]
    rows: tuple[Row, ...]
    steps: tuple[Step, ...]
    checks: tuple[int, ...] = ()


Step = Call | Joint | Repeat


@dataclass(frozen=True, slots=True)
class Check:
    """After the calls (or the steps of the repetition that owns it), a nonzero `flag` (one integer or bool) fails.

    `value` (one integer) enters `message`.
    """

    flag: int
    value: int
    message: str


@dataclass(frozen=True, slots=True)
class CodeObject:
    """An object file and the functions it defines that calls name."""

    functions: tuple[str, ...]
    image: bytes


@dataclass(frozen=True, slots=True)
class Program:
    """All that an `Executable` needs; `main` is None until `runtime.main.with_main` has compiled it."""

    buffers: tuple[BufferSlot, ...]
    dims: tuple[Dim, ...]
    steps: tuple[Step, ...]
    arena_bytes: Expr
    checks: tuple[Check, ...] = ()
    objects: tuple[CodeObject, ...] = ()
    main: CodeObject | None = None

    def slots(self, role: Role) -> tuple[int, ...]:
        """Indices of the buffers with a role, in order."""
        return tuple(i for i, slot in enumerate(self.buffers) if slot.role is role)

    @property
    def arguments(self) -> tuple[int, ...]:
        """The slots whose pointers `main` receives, in order: all but those `main` places itself."""
        return tuple(i for i, slot in enumerate(self.buffers) if slot.role not in (Role.ARENA, Role.STEP))

    @property
    def calls(self) -> tuple[Call, ...]:
        """Every call, those of repetitions once."""
        return tuple(_calls(self.steps))

    @property
    def joints(self) -> tuple[Joint, ...]:
        """Every dispatch of several calls, those of repetitions once."""
        inside = (step for repeat in self.repeats for step in repeat.steps)
        return tuple(step for step in (*self.steps, *inside) if isinstance(step, Joint))

    @property
    def repeats(self) -> tuple[Repeat, ...]:
        """Every repetition, outer ones first."""
        return tuple(_repeats(self.steps))

    @property
    def functions(self) -> tuple[str, ...]:
        """Every function called, once, in order of first call: the order of main's table."""
        return tuple(dict.fromkeys(call.function for call in self.calls))

    def verify(self) -> Program:
        """Itself, or a CompileError that names what is missing."""
        count = len(self.buffers)
        for call in self.calls:
            if not all(0 <= slot < count for slot in call.buffers):
                raise CompileError(f"{call.function}: expected buffer slots below {count}, received {call.buffers}")
            _only_known(self, call.function, (*call.sizes, call.tickets, call.scratch))
        for repeat in self.repeats:
            _verify_repeat(self, repeat)
        for slot in self.buffers:
            if (slot.role is Role.ARENA) != (slot.offset is not None):
                raise CompileError(f"buffer {slot.name}: expected an offset exactly for arena buffers")
            _only_known(self, slot.name, tuple(as_expr(size) for size in slot.shape))
        return self


def _calls(steps: Iterable[Step]) -> Iterator[Call]:
    for step in steps:
        match step:
            case Call():
                yield step
            case Joint():
                yield from step.calls
            case Repeat():
                yield from _calls(step.steps)


def _repeats(steps: Iterable[Step]) -> Iterator[Repeat]:
    for step in steps:
        if isinstance(step, Repeat):
            yield step
            yield from _repeats(step.steps)


def _verify_repeat(program: Program, repeat: Repeat) -> None:
    _only_known(program, "a repetition", (repeat.length,))
    named = [slot for carry in repeat.carries for slot in (carry.before, carry.after)]
    for slot in (*named, *(row.row for row in repeat.rows)):
        if program.buffers[slot].role is not Role.STEP:
            raise CompileError(f"buffer {program.buffers[slot].name}: expected the role of a step's buffer")
    for carry in repeat.carries:
        if len({carry.initial, carry.result, carry.spare}) < 3:
            raise CompileError(f"buffer {program.buffers[carry.result].name}: expected three places for a carry")
    if not all(0 <= number < len(program.checks) for number in repeat.checks):
        raise CompileError(f"a repetition has checks {repeat.checks}, the program {len(program.checks)}")


def _only_known(program: Program, where: str, expressions: tuple[Expr, ...]) -> None:
    unknown = {dim.name for e in expressions for dim in e.dims()} - {dim.name for dim in program.dims}
    if unknown:
        raise CompileError(f"{where}: sizes {sorted(unknown)} are no dims of the program")


def to_bytes(program: Program) -> bytes:
    """The program as bytes; equal programs give equal bytes."""
    objects = [*program.objects, *([program.main] if program.main else [])]
    table = _Expressions()
    header = {
        "dims": [[d.name, d.min, d.max, d.multiple, list(d.typical)] for d in program.dims],
        "buffers": [_slot_to_json(slot, table) for slot in program.buffers],
        "steps": [_step_to_json(step, table) for step in program.steps],
        "checks": [[check.flag, check.value, check.message] for check in program.checks],
        "arena": table.place(program.arena_bytes),
        "objects": [[list(code.functions), len(code.image)] for code in objects],
        "main": program.main is not None,
        "expressions": table.rows(),
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    body = len(text).to_bytes(8, "little") + text + b"".join(code.image for code in objects)
    return _MAGIC + hashlib.sha256(body).digest() + body


def from_bytes(data: bytes) -> Program:
    """The program that `to_bytes` wrote; FileFormatError when the bytes are cut, changed or something else."""
    start = len(_MAGIC) + 32
    if not data.startswith(_MAGIC) or len(data) < start + 8:
        raise FileFormatError(f"expected a snell program, received {len(data)} bytes that begin {data[:16]!r}")
    if hashlib.sha256(memoryview(data)[start:]).digest() != data[len(_MAGIC) : start]:
        raise FileFormatError("the saved program is cut or damaged (its checksum differs); save it again")
    length = int.from_bytes(data[start : start + 8], "little")
    header = json.loads(data[start + 8 : start + 8 + length])
    dims = {row[0]: Dim(row[0], row[1], row[2], row[3], tuple(row[4])) for row in header["dims"]}
    expressions = {place: _expr_from_json(row, dims) for place, row in enumerate(header["expressions"])}
    objects: list[CodeObject] = []
    position = start + 8 + length
    for functions, size in header["objects"]:
        objects.append(CodeObject(tuple(functions), data[position : position + size]))
        position += size
    main = objects.pop() if header["main"] else None
    return Program(
        buffers=_slots_from_json(header["buffers"], expressions),
        dims=tuple(dims.values()),
        steps=tuple(_step_from_json(row, expressions) for row in header["steps"]),
        arena_bytes=expressions[header["arena"]],
        checks=tuple(Check(*row) for row in header["checks"]),
        objects=tuple(objects),
        main=main,
    )


class _Expressions:
    """The distinct expressions of a program, which names them by their places: most occur hundreds of times."""

    def __init__(self) -> None:
        self._places: dict[Expr, int] = {}

    def place(self, expression: Expr) -> int:
        return self._places.setdefault(expression, len(self._places))

    def rows(self) -> list[Any]:
        return [_expr_to_json(expression) for expression in self._places]


def _slot_to_json(slot: BufferSlot, table: _Expressions) -> list[Any]:
    optional = [None if e is None else table.place(e) for e in (slot.offset, slot.stored_bytes)]
    shape = [table.place(as_expr(size)) for size in slot.shape]
    return [slot.name, slot.role.value, slot.dtype.name, shape, optional[0], slot.donated, optional[1]]


def _slots_from_json(rows: list[Any], expressions: dict[int, Expr]) -> tuple[BufferSlot, ...]:
    sizes = {place: as_size(expression) for place, expression in expressions.items()}
    roles = {role.value: role for role in Role}
    dtypes = {name: from_name(name) for name in {row[2] for row in rows}}
    return tuple(
        BufferSlot(
            name, roles[role], dtypes[dtype], tuple([sizes[place] for place in shape]),
            None if offset is None else expressions[offset], donated, None if stored is None else expressions[stored],
        )
        for name, role, dtype, shape, offset, donated, stored in rows
    )  # fmt: skip


def _step_to_json(step: Step, table: _Expressions) -> list[Any]:
    if isinstance(step, Call):
        return _call_to_json(step, table)
    if isinstance(step, Joint):
        return [step.chunk, [_call_to_json(call, table) for call in step.calls]]
    carries = [[c.initial, c.before, c.after, c.result, c.spare] for c in step.carries]
    rows = [[row.whole, row.row] for row in step.rows]
    steps = [_step_to_json(inner, table) for inner in step.steps]
    return [table.place(step.length), carries, rows, steps, list(step.checks)]


def _step_from_json(data: list[Any], expressions: dict[int, Expr]) -> Step:
    if isinstance(data[0], str):  # the name of a function
        return _call_from_json(data, expressions)
    if len(data) == 2:
        return Joint(tuple(_call_from_json(row, expressions) for row in data[1]), data[0])
    length, carries, rows, steps, checks = data
    return Repeat(
        expressions[length], tuple(Carry(*row) for row in carries), tuple(Row(*row) for row in rows),
        tuple(_step_from_json(row, expressions) for row in steps), tuple(checks),
    )  # fmt: skip


def _call_to_json(call: Call, table: _Expressions) -> list[Any]:
    sizes = [table.place(size) for size in call.sizes]
    tickets, scratch = table.place(call.tickets), table.place(call.scratch)
    return [call.function, list(call.buffers), sizes, tickets, scratch, call.chunk, call.parallel]


def _call_from_json(row: list[Any], expressions: dict[int, Expr]) -> Call:
    function, buffers, sizes, tickets, scratch, chunk, parallel = row
    return Call(
        function, tuple(buffers), tuple([expressions[place] for place in sizes]), expressions[tickets],
        expressions[scratch], chunk, parallel,
    )  # fmt: skip


def _expr_to_json(expression: Expr) -> Any:
    """An integer, or `[constant, [coefficient, atom, …], …]`."""
    if expression.is_constant:
        return expression.constant
    return [expression.constant, *([c, *(_atom_to_json(atom) for atom in m)] for m, c in expression.terms)]


def _atom_to_json(atom: object) -> Any:
    match atom:
        case Dim():
            return atom.name
        case FloorDiv(numerator, divisor):
            return ["//", _expr_to_json(numerator), _expr_to_json(divisor)]
        case Remainder(numerator, divisor):
            return ["%", _expr_to_json(numerator), _expr_to_json(divisor)]
        case _:
            raise CompileError(f"expected sizes over dims only, received {atom} in a program")


def _expr_from_json(data: Any, dims: dict[str, Dim]) -> Expr:
    if isinstance(data, int):
        return as_expr(data)
    total = as_expr(data[0])
    for coefficient, *atoms in data[1:]:
        total = total + product([as_expr(coefficient), *(_atom_from_json(atom, dims) for atom in atoms)])
    return total


def _atom_from_json(data: Any, dims: dict[str, Dim]) -> Expr:
    if isinstance(data, str):
        return as_expr(dims[data])
    operator, numerator, divisor = data
    left, right = _expr_from_json(numerator, dims), _expr_from_json(divisor, dims)
    return left // right if operator == "//" else left % right
