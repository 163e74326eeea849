"""A picture of a graph in Graphviz's language: one box a node, edges labelled with the views that are not whole.

The body of a loop is a frame of its own beside the nodes that repeat it.
"""

from __future__ import annotations

from collections.abc import Mapping

from snell.graph.node import Graph, Operand
from snell.graph.primitives import Constant, Input, Op, ScalarFunction, Source
from snell.graph.scan import Loop, Scan, loops_of
from snell.symbolic import show_shape

__all__ = ["to_dot"]


def to_dot(graph: Graph) -> str:
    """`dot -Tsvg` draws the result."""
    return "\n".join(["digraph snell {", "  node [shape=box];", *_drawn(graph, ""), "}"]) + "\n"


def _drawn(graph: Graph, prefix: str) -> list[str]:
    """The statements of a graph; `prefix` keeps the names of different bodies apart."""
    numbers = {node: k for k, node in enumerate(graph.nodes())}
    loops = loops_of(graph)
    lines: list[str] = []
    for node, number in numbers.items():
        style = ", style=rounded" if isinstance(node.op, Source) else ""
        caption = f"{node.dtype}{show_shape(node.shape)}"
        title = _title(node.op, loops)
        lines.append(f'  {prefix}n{number} [label="{_escaped(title)}\\n{_escaped(caption)}"{style}];')
        edges = ((numbers[operand.node], operand) for operand in node.operands)
        lines += [f"  {prefix}n{source} -> {prefix}n{number}{_edge_label(operand)};" for source, operand in edges]
    for k, (name, operand) in enumerate(graph.outputs):
        lines.append(f'  {prefix}out{k} [label="{_escaped(name)}", shape=ellipse];')
        lines.append(f"  {prefix}n{numbers[operand.node]} -> {prefix}out{k}{_edge_label(operand)};")
    for loop, number in loops.items():
        lines.append(f"  subgraph cluster_{prefix}loop{number} {{")
        lines.append(f'  label="loop {number}, {_escaped(str(loop.length))} times";')
        lines += [*_drawn(loop.body, f"{prefix}loop{number}_"), "  }"]
    return lines


def _title(op: Op, loops: Mapping[Loop, int]) -> str:
    match op:
        case Input(name) | ScalarFunction(name):
            return name
        case Constant(value, _):
            return str(value)
        case Scan(loop, result):
            return f"Scan of loop {loops[loop]}, result {result}"
        case _:
            return type(op).__name__


def _edge_label(operand: Operand) -> str:
    return "" if operand.is_whole else f' [label="{_escaped(str(operand.view))}"]'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
