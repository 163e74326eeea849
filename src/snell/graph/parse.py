"""Reading the text form of a graph (`graph.text`) back into a graph."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from fractions import Fraction

from snell.dtypes import DType, from_name
from snell.errors import GraphError
from snell.graph.node import Builder, Check, Graph, Node, Operand, full_view
from snell.graph.primitives import Constant, Contiguous, Input, Iota, Op, Random, ScalarFunction, Storage
from snell.graph.scan import Loop, Scan
from snell.graph.text import ELEMENTWISE, REDUCTIONS
from snell.symbolic import Axis, Dim, Expr, Integer, Shape, View, as_expr, as_size

__all__ = ["parse_expression", "parse_graph"]

_QUOTED = r'"((?:[^"\\]|\\.)*)"'
_NODE = re.compile(r"%(\d+): (\w+)\(([^)]*(?:\([^)]*\)[^)]*)*)\) = (\w+)(.*)")
_LOOP = re.compile(rf"loop (\d+) inputs=((?:{_QUOTED},?)*) carries=(\d+) rows=(\d+) length=(.*)")
_OPERAND = re.compile(r"%(\d+)(?:\[([^\]]*)\])?")


def parse_graph(text: str) -> Graph:
    """The graph of a text; GraphError names the line that cannot be read."""
    readers = [_Reader()]
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            _read(line.strip(), readers)
        except (KeyError, ValueError, SyntaxError, StopIteration, IndexError) as problem:
            raise GraphError(f"line {number} of the graph cannot be read: {line.strip()!r} ({problem})") from problem
    if len(readers) > 1:
        raise GraphError(f"expected `end` after {readers[-1].head!r}, received the end of the text")
    return readers[0].graph()


def _read(line: str, readers: list[_Reader]) -> None:
    """One line for the innermost loop that is open."""
    if line.startswith("loop "):
        readers.append(_Reader(line))
    elif line == "end":
        inner = readers.pop()
        readers[-1].loop(inner.head, inner.graph())
    else:
        readers[-1].line(line)


def parse_expression(text: str, names: Mapping[str, Integer]) -> Expr:
    """An integer expression over named atoms, e.g. `4*i0 + (i1) // (2)`."""
    return _evaluated(ast.parse(text.strip(), mode="eval").body, names)


_OPERATORS: dict[type[ast.operator], Callable[[Expr, Expr], Expr]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}


def _evaluated(node: ast.expr, names: Mapping[str, Integer]) -> Expr:
    match node:
        case ast.Constant(value=int(value)):
            return as_expr(value)
        case ast.Name(id=name):
            return as_expr(names[name])
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluated(operand, names)
        case ast.BinOp(left=left, op=operator, right=right):
            return _OPERATORS[type(operator)](_evaluated(left, names), _evaluated(right, names))
        case _:
            raise ValueError(f"{ast.unparse(node)} is not an integer expression")


class _Reader:
    """What the lines so far have declared."""

    def __init__(self, head: str = "") -> None:
        self.head = head
        self.loops: dict[int, Loop] = {}
        self.builder = Builder()
        self.dims: dict[str, Dim] = {}
        self.nodes: dict[int, Node] = {}
        self.outputs: list[tuple[str, Operand]] = []
        self.checks: list[Check] = []

    def graph(self) -> Graph:
        return Graph(tuple(self.outputs), tuple(self.checks))

    def loop(self, head: str, body: Graph) -> None:
        """A loop whose body has been read; `head` is its first line."""
        matched = _LOOP.fullmatch(head)
        if matched is None:
            raise ValueError('expected loop n inputs="name",… carries=n rows=n length=size')
        names = tuple(_unquoted(name) for name in re.findall(_QUOTED, matched[2]))
        (length,) = self._shape(matched[6], self.dims)
        self.loops[int(matched[1])] = Loop(body, names, int(matched[4]), int(matched[5]), length)

    def line(self, line: str) -> None:
        kind = line.split(" ", 1)[0]
        if kind == "dim":
            self._dim(line)
        elif kind in ("output", "check"):
            self._root(kind, line)
        else:
            self._node(line)

    def _dim(self, line: str) -> None:
        _, name, *options = line.split(" ")
        given = dict(option.split("=", 1) for option in options)
        typical = tuple(int(n) for n in given.get("typical", "").split(",") if n)
        self.dims[name] = Dim(name, int(given["min"]), int(given["max"]), int(given["multiple"]), typical)

    def _root(self, kind: str, line: str) -> None:
        matched = re.fullmatch(rf"{kind} {_QUOTED} (.*)", line)
        if matched is None:
            raise ValueError(f'expected {kind} "name" operand')
        name, operands = _unquoted(matched[1]), self._operands(matched[2])
        if kind == "output":
            self.outputs.append((name, operands[0]))
        else:
            self.checks.append(Check(operands[0], operands[1], name))

    def _node(self, line: str) -> None:
        matched = _NODE.fullmatch(line)
        if matched is None:
            raise ValueError("expected %n: dtype(shape) = operation operands")
        shape, dtype = self._shape(matched[3], self.dims), from_name(matched[2])
        op = self._op(matched[4], matched[5], shape, dtype)
        operands = [] if isinstance(op, Input) else self._operands(matched[5])
        node = self.builder.add(op, operands)
        if node.shape != shape or node.dtype != dtype:
            raise ValueError(f"the operation yields {node!r}, the line says otherwise")
        self.nodes[int(matched[1])] = node

    def _op(self, name: str, rest: str, shape: Shape, dtype: DType) -> Op:
        if name in ELEMENTWISE:
            return ELEMENTWISE[name]
        if name in REDUCTIONS:
            return REDUCTIONS[name](tuple(int(k) for k in _option(rest, "axes").split(",") if k))
        match name:
            case "input":
                return self._input(rest, shape, dtype)
            case "constant":
                return Constant(_number(rest.split()[0]), dtype)
            case "iota":
                return Iota(shape[0], dtype)
            case "random":
                return Random(shape, dtype)
            case "contiguous":
                return Contiguous(dtype)
            case "scan":
                return Scan(self.loops[int(_option(rest, "loop"))], int(_option(rest, "result")))
            case "function":
                return ScalarFunction(rest.split()[0])
            case _:
                raise ValueError(f"unknown operation {name}")

    def _input(self, rest: str, shape: Shape, dtype: DType) -> Input:
        matched = re.match(rf" {_QUOTED}(.*)", rest)
        if matched is None:
            raise ValueError('expected input "name"')
        words = matched[2].split()
        storage = None
        if "storage=" in matched[2]:
            offset, strides = _option(matched[2], "storage").split(":")
            storage = Storage(int(offset), tuple(int(n) for n in strides.split(",") if n))
        return Input(_unquoted(matched[1]), shape, dtype, "frozen" in words, "donated" in words, storage)

    def _operands(self, text: str) -> list[Operand]:
        return [self._operand(int(found[1]), found[2]) for found in _OPERAND.finditer(text)]

    def _operand(self, number: int, view: str | None) -> Operand:
        node = self.nodes[number]
        if view is None:
            return full_view(node)
        indices, shape_text, guards = view.split(":")
        shape = self._shape(shape_text, self.dims)
        names = {**self.dims, **{f"i{k}": Axis(f"i{k}", size) for k, size in enumerate(shape)}}
        places, kept = (tuple(parse_expression(e, names) for e in _entries(part)) for part in (indices, guards))
        return Operand(node, View(shape, places, kept))

    def _shape(self, text: str, names: Mapping[str, Integer]) -> Shape:
        return tuple(as_size(parse_expression(entry, names)) for entry in _entries(text))


def _entries(text: str) -> list[str]:
    return [entry for entry in text.split(",") if entry.strip()]


def _option(text: str, name: str) -> str:
    matched = re.search(rf"{name}=(\S*)", text)
    if matched is None:
        raise ValueError(f"expected {name}=…")
    return matched[1]


def _number(text: str) -> int | Fraction | float:
    if "/" in text:
        return Fraction(text)
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], text)
