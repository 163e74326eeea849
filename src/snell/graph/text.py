"""The text form of a graph: one line a node, producers first.  `graph.parse` reads it back.

    dim seq min=1 max=64 multiple=1
    %0: f32(seq, 4) = input "x" frozen
    %1: f32(seq) = sum axes=1 %0
    %2: f32(seq, 4) = mul %0, %1[i0 : seq, 4 : ]
    output "y" %2

The body of a scan (`graph.scan`) stands before the nodes, between `loop` and `end`:

    loop 0 inputs="carry0","row0" carries=1 rows=1 length=seq
      %0: f32() = input "carry0"
      …
    end
    %1: f32(seq) = scan loop=0 result=1 %0, %2

An operand is `%n` where it is seen as it is, else `%n[indices : shape : guards]` over the coordinates i0, i1, … of the
shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from snell.errors import GraphError
from snell.graph.node import Graph, Node, Operand
from snell.graph.primitives import (
    Add,
    Constant,
    Contiguous,
    Exp2,
    Input,
    Iota,
    LessThan,
    Log2,
    MaxReduce,
    Mod,
    Mul,
    Op,
    Random,
    Recip,
    Reduce,
    ScalarFunction,
    Sin,
    Sqrt,
    SumReduce,
)
from snell.graph.scan import Loop, Scan, loops_of
from snell.symbolic import Dim

__all__ = ["ELEMENTWISE", "REDUCTIONS", "quoted", "show_graph", "show_operand"]

ELEMENTWISE: Mapping[str, Op] = MappingProxyType(
    {
        "log2": Log2(), "exp2": Exp2(), "sin": Sin(), "sqrt": Sqrt(), "recip": Recip(),
        "add": Add(), "mul": Mul(), "mod": Mod(), "less_than": LessThan(),
    }
)  # fmt: skip
REDUCTIONS: Mapping[str, type[Reduce]] = MappingProxyType({"sum": SumReduce, "max": MaxReduce})


def show_graph(graph: Graph) -> str:
    """The graph's text; equal graphs have equal text."""
    numbers = {node: k for k, node in enumerate(graph.nodes())}
    loops = loops_of(graph)
    lines = [_show_dim(dim) for dim in graph.dims()]
    for loop, number in loops.items():
        lines += [_show_loop(loop, number), *(f"  {line}" for line in show_graph(loop.body).splitlines()), "end"]
    for node, number in numbers.items():
        operands = ", ".join(show_operand(operand, numbers) for operand in node.operands)
        sizes = ", ".join(str(size) for size in node.shape)
        lines.append(f"%{number}: {node.dtype}({sizes}) = {_show_op(node.op, loops)} {operands}".rstrip())
    lines += [f"output {quoted(name)} {show_operand(operand, numbers)}" for name, operand in graph.outputs]
    for check in graph.checks:
        condition, value = (show_operand(operand, numbers) for operand in (check.condition, check.value))
        lines.append(f"check {quoted(check.message)} {condition}, {value}")
    return "\n".join(lines) + "\n"


def show_operand(operand: Operand, numbers: Mapping[Node, int]) -> str:
    """`%3`, or `%3[indices : shape : guards]`."""
    name = f"%{numbers[operand.node]}"
    if operand.is_whole:
        return name
    view = operand.view
    parts = (", ".join(str(e) for e in entries) for entries in (view.indices, view.shape, view.guards))
    return f"{name}[{' : '.join(parts)}]"


def quoted(text: str) -> str:
    """A name in double quotes, on one line."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _show_dim(dim: Dim) -> str:
    typical = f" typical={','.join(map(str, dim.typical))}" if dim.typical else ""
    return f"dim {dim.name} min={dim.min} max={dim.max} multiple={dim.multiple}{typical}"


def _show_loop(loop: Loop, number: int) -> str:
    names = ",".join(quoted(name) for name in loop.inputs)
    return f"loop {number} inputs={names} carries={loop.carries} rows={loop.rows} length={loop.length}"


def _show_op(op: Op, loops: Mapping[Loop, int]) -> str:
    match op:
        case Scan(loop, result):
            return f"scan loop={loops[loop]} result={result}"
        case Input():
            return _show_input(op)
        case Constant(value, _):
            return f"constant {value if not isinstance(value, bool) else int(value)}"
        case Iota():
            return "iota"
        case Random():
            return "random"
        case Contiguous():
            return "contiguous"
        case ScalarFunction(name):
            return f"function {name}"
        case Reduce(axes):
            name = next(name for name, kind in REDUCTIONS.items() if isinstance(op, kind))
            return f"{name} axes={','.join(map(str, axes))}"
        case _:
            found = next((name for name, known in ELEMENTWISE.items() if known == op), None)
            if found is None:
                raise GraphError(f"{type(op).__name__} has no text form")
            return found


def _show_input(op: Input) -> str:
    words = [f"input {quoted(op.name)}"]
    words += ["frozen"] if op.frozen else []
    words += ["donated"] if op.donated else []
    if op.storage is not None:
        words.append(f"storage={op.storage.offset}:{','.join(map(str, op.storage.strides))}")
    return " ".join(words)
