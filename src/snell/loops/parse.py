"""The reader of `loops.text`: text to a kernel equal to the one that was printed."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import NoReturn, TypeVar

from snell.dtypes import ALL, DType, bool_, from_name, u32
from snell.errors import VerificationError
from snell.graph.primitives import (
    Add,
    Exp2,
    LessThan,
    Log2,
    Mod,
    Mul,
    Op,
    Random,
    Recip,
    ScalarFunction,
    Sin,
    Sqrt,
    Storage,
)
from snell.loops.ir import (
    Accumulator,
    Allocate,
    Block,
    Blocked,
    Buffer,
    BufferScope,
    Combine,
    Dense,
    Init,
    Kernel,
    Layout,
    Level,
    Loop,
    LoopKind,
    Phase,
    Prefetch,
    Statement,
    Store,
    Strided,
    Update,
    read,
    tee,
)
from snell.rewrite.term import (
    And,
    Cast,
    Divide,
    Equal,
    FloorDivide,
    Maximum,
    Not,
    Number,
    Select,
    SelectElse,
    Subtract,
    Tensor,
    Term,
    index,
    load,
    opaque,
    term,
)
from snell.symbolic import Axis, Dim, Expr, as_expr, as_size

__all__ = ["parse_kernel"]

_T = TypeVar("_T")

_TOKEN = re.compile(r"\s*(\.\.|//|\+=|max=|[A-Za-z_][\w.#]*|\d+/\d+|\d+|[-+*%=()\[\]{}|:,])")
_NAMED = (Add, Mul, Mod, LessThan, Exp2, Log2, Sin, Sqrt, Recip, Subtract, Divide, FloorDivide, Maximum, Equal)
_OPERATIONS: dict[str, type[Op]] = {op.__name__: op for op in (*_NAMED, Not, And, Select, SelectElse)}
_BOOLS = (LessThan, Equal, Not, And)
_DTYPES = {dtype.name for dtype in ALL}
_KINDS = {"": LoopKind.SERIAL, "u": LoopKind.UNROLLED, "v": LoopKind.VECTOR, "t": LoopKind.TENSOR}


def parse_kernel(text: str) -> Kernel:
    """The kernel that a text describes; VerificationError names the line that does not follow the form."""
    lines = [(len(raw) - len(raw.lstrip()), raw.strip()) for raw in text.splitlines() if raw.strip()]
    if not lines or not lines[0][1].startswith("kernel "):
        raise VerificationError("expected a text that begins with `kernel NAME`")
    reader = _KernelReader()
    k = 1
    while k < len(lines):
        k = reader.line(lines, k)
    name = lines[0][1].removeprefix("kernel ")
    return Kernel(name, tuple(reader.buffers), tuple(reader.dims.values()), tuple(reader.phases))


class _KernelReader:
    """Names declared so far, and the phases read."""

    def __init__(self) -> None:
        self.dims: dict[str, Dim] = {}
        self.axes: dict[str, Axis] = {}
        self.buffers: list[Buffer] = []
        self.tensors: dict[str, Buffer] = {}
        self.accumulators: dict[str, Accumulator] = {}
        self.phases: list[Phase] = []

    def line(self, lines: list[tuple[int, str]], k: int) -> int:
        """One declaration, or a phase with everything indented below it; returns the next line."""
        indent, text = lines[k]
        if text.split()[0] == "phase":
            body, k = self._block(lines, k + 1, indent)
            self.phases.append(Phase(self._levels(text.split()[1:]), body))
            return k
        self._declare(_Line(text, self))
        return k + 1

    def _declare(self, line: _Line) -> None:
        match line.word():
            case "dim":
                self._dim(line)
            case "axis":
                name = line.word()
                self.axes[name] = Axis(name, as_size(line.expression()))
            case "accumulator":
                self._accumulator(line)
            case "parameter" | "workspace" as scope:
                self.buffers.append(self._buffer(line, BufferScope(scope)))
            case other:
                line.fail(f"expected a declaration, received {other!r}")

    def _dim(self, line: _Line) -> None:
        name, low = line.word(), line.integer()
        line.take("..")
        high = line.integer()
        multiple = line.integer() if line.accept("multiple") else 1
        typical: list[int] = []
        if line.accept("typical"):
            while not line.done:
                typical.append(line.integer())
        self.dims[name] = Dim(name, low, high, multiple, tuple(typical))

    def _accumulator(self, line: _Line) -> None:
        name, combine, dtype = line.word(), Combine(line.word()), from_name(line.word())
        axes = tuple(self.axes[axis] for axis in line.words("(", ")"))
        partial = tuple(self.axes[axis] for axis in line.words("(", ")")) if line.accept("partial") else ()
        self.accumulators[name] = Accumulator(name, combine, dtype, axes, partial)

    def _buffer(self, line: _Line, scope: BufferScope) -> Buffer:
        name, dtype = line.word(), from_name(line.word())
        shape = tuple(as_size(size) for size in line.expressions("[", "]"))
        whole = tuple(as_size(size) for size in line.expressions("[", "]")) if line.accept("of") else shape
        storage = Storage(line.integer(), line.integers()) if line.accept("storage") else None
        layout = self._layout(line)
        buffer = Buffer(Tensor(name, whole, dtype, storage), shape, layout, scope, line.accept("writable"))
        self.tensors[name] = buffer
        return buffer

    def _layout(self, line: _Line) -> Layout:
        if line.accept("strided"):
            return Strided(line.integer(), line.integers())
        if not line.accept("blocked"):
            return Dense()
        blocks: list[Block] = []
        line.take("(")
        while not line.accept(")"):
            dimension = line.integer()
            line.take(":")
            blocks.append(Block(dimension, line.integer()))
        return Blocked(tuple(blocks))

    def _block(self, lines: list[tuple[int, str]], k: int, indent: int) -> tuple[tuple[Statement, ...], int]:
        body: list[Statement] = []
        while k < len(lines) and lines[k][0] > indent:
            inner, text = lines[k]
            k += 1
            if text.startswith("for "):
                inside, k = self._block(lines, k, inner)
                body.append(self._loop(_Line(text, self), inside))
            elif text.startswith("local "):
                line = _Line(text, self)
                self._buffer(line, BufferScope(line.word()))
            elif text.startswith("prefetch "):
                line = _Line(text.removeprefix("prefetch "), self)
                tensor = line.lookup(self.tensors, line.word(), "buffer").tensor
                body.append(Prefetch(tensor, line.expressions("[", "]")))
            elif text.startswith("allocate "):
                names = text.removeprefix("allocate ").split(", ")
                body.append(Allocate(tuple(self.tensors[name] for name in names)))
            else:
                body.append(self._assignment(_Line(text, self)))
        return tuple(body), k

    def _loop(self, line: _Line, body: tuple[Statement, ...]) -> Loop:
        line.take("for")
        levels: list[Level] = []
        while not line.done and line.peek not in ("from", "below"):
            levels.append(line.level())
        lower = line.expression() if line.accept("from") else None
        upper = line.expression() if line.accept("below") else None
        loop = Loop(levels[-1], body, lower, upper)
        for level in reversed(levels[:-1]):
            loop = Loop(level, (loop,))
        return loop

    def _levels(self, words: list[str]) -> tuple[Level, ...]:
        return tuple(_Line(word, self).level() for word in words)

    def _assignment(self, line: _Line) -> Statement:
        name = line.word()
        if line.peek == "[":
            indices = line.expressions("[", "]")
            line.take("=")
            return Store(line.lookup(self.tensors, name, "buffer").tensor, indices, line.term())
        accumulator = line.lookup(self.accumulators, name, "accumulator")
        sign = line.next()
        return Init(accumulator, line.term()) if sign == "=" else Update(accumulator, line.term())


class _Line:
    """The tokens of one line."""

    def __init__(self, text: str, names: _KernelReader) -> None:
        self.text = text
        self.names = names
        self.tokens = self._tokens(text)
        self.at = 0

    def _tokens(self, text: str) -> list[str]:
        found: list[str] = []
        place = 0
        while place < len(text):
            match = _TOKEN.match(text, place)
            if match is None:
                self.fail(f"cannot read {text[place:]!r}")
            found.append(match[1])
            place = match.end()
        return found

    def fail(self, message: str) -> NoReturn:
        raise VerificationError(f"line {self.text!r}: {message}")

    @property
    def done(self) -> bool:
        return self.at >= len(self.tokens)

    @property
    def peek(self) -> str:
        return self.tokens[self.at] if not self.done else ""

    def next(self) -> str:
        if self.done:
            raise VerificationError(f"line {self.text!r} ends too early")
        self.at += 1
        return self.tokens[self.at - 1]

    word = next

    def accept(self, token: str) -> bool:
        if self.peek != token:
            return False
        self.at += 1
        return True

    def take(self, token: str) -> None:
        received = self.next()
        if received != token:
            self.fail(f"expected {token!r}, received {received!r}")

    def lookup(self, names: dict[str, _T], name: str, what: str) -> _T:
        """What a declaration named; VerificationError where there was none."""
        found = names.get(name)
        if found is None:
            self.fail(f"{name!r} is not a declared {what}")
        return found

    def known(self, names: dict[str, _T], what: str) -> _T:
        return self.lookup(names, self.word(), what)

    def integer(self) -> int:
        sign = -1 if self.accept("-") else 1
        return sign * int(self.next())

    def integers(self) -> tuple[int, ...]:
        return tuple(self._separated("(", ")", self.integer))

    def words(self, opening: str, closing: str) -> list[str]:
        return self._separated(opening, closing, self.word)

    def expressions(self, opening: str, closing: str) -> tuple[Expr, ...]:
        return tuple(self._separated(opening, closing, self.expression))

    def _separated(self, opening: str, closing: str, one: Callable[[], _T]) -> list[_T]:
        self.take(opening)
        found: list[_T] = []
        while not self.accept(closing):
            found.append(one())
            self.accept(",")
        return found

    def level(self) -> Level:
        axis = self.known(self.names.axes, "axis")
        self.take(":")
        step = self.integer()
        kind = self.next() if self.peek in ("u", "v", "t") else ""
        return Level(axis, step, _KINDS[kind])

    # -- index expressions: sums of products of atoms

    def expression(self) -> Expr:
        total = -self._product() if self.accept("-") else self._product()
        while self.peek in ("+", "-"):
            sign = self.next()
            part = self._product()
            total = total + part if sign == "+" else total - part
        return total

    def _product(self) -> Expr:
        result = self._factor()
        while self.peek in ("*", "//", "%"):
            operator = self.next()
            other = self._factor()
            result = result * other if operator == "*" else result // other if operator == "//" else result % other
        return result

    def _factor(self) -> Expr:
        if self.accept("("):
            inner = self.expression()
            self.take(")")
            return inner
        if self.accept("-"):
            return -self._factor()
        if self.accept("{"):
            return self._opaque()
        word = self.next()
        if word.isdecimal():
            return as_expr(int(word))
        if word in self.names.axes:
            return as_expr(self.names.axes[word])
        if word in self.names.dims:
            return as_expr(self.names.dims[word])
        raise VerificationError(f"line {self.text!r}: {word!r} is neither an axis nor a dim")

    def _opaque(self) -> Expr:
        key = self.term()
        self.take("in")
        lower = self.integer()
        self.take("..")
        upper = self.integer()
        self.take("}")
        return as_expr(opaque(key, lower, upper))

    # -- terms

    def term(self) -> Term:
        token = self.peek
        if token == "-" or token[:1].isdigit() or token in ("inf", "nan"):
            return self._number()
        name = self.word()
        if self.peek == "[":
            indices, guards = self._places()
            return load(self.lookup(self.names.tensors, name, "buffer").tensor, indices, guards)
        if self.peek != "(":
            return read(self.lookup(self.names.accumulators, name, "accumulator"))
        self.take("(")
        if name == "index":
            expression = self.expression()
            self.take(")")
            return index(expression)
        if name == "tee":
            return self._tee()
        arguments = [self.term()]
        while self.accept(","):
            arguments.append(self.term())
        self.take(")")
        return _operation(name, tuple(arguments))

    def _number(self) -> Term:
        sign = -1 if self.accept("-") else 1
        token = self.next()
        self.take(":")
        dtype = from_name(self.word())
        value = float(token) if token in ("inf", "nan") else Fraction(token)
        signed = value * sign
        if isinstance(signed, Fraction) and signed.denominator == 1:
            signed = signed.numerator
        return term(Number(signed), (), dtype)

    def _places(self) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
        self.take("[")
        found: list[list[Expr]] = [[]]
        while not self.accept("]"):
            if self.accept("|"):
                found.append([])
            found[-1].append(self.expression())
            self.accept(",")
        return tuple(found[0]), tuple(found[1]) if len(found) > 1 else ()

    def _tee(self) -> Term:
        tensor = self.known(self.names.tensors, "buffer").tensor
        indices = self.expressions("[", "]")
        self.take(",")
        value = self.term()
        self.take(")")
        return tee(tensor, indices, value)


def _operation(name: str, arguments: tuple[Term, ...]) -> Term:
    if name in _DTYPES:
        return term(Cast(), arguments, from_name(name))
    if name == "Random":
        return term(Random(()), arguments, u32)
    op = _OPERATIONS.get(name)
    if op is None:
        return term(ScalarFunction(name), arguments, arguments[0].dtype)
    return term(op(), arguments, _result_dtype(op, arguments))


def _result_dtype(op: type[Op], arguments: tuple[Term, ...]) -> DType:
    if issubclass(op, _BOOLS):
        return bool_
    if op in (Select, SelectElse):
        return arguments[1].dtype
    return next((argument.dtype for argument in arguments if argument.dtype != bool_), bool_)
