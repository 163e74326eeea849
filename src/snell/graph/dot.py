"""A picture of a graph in Graphviz's language: one box a node, edges labelled with the views that are not whole."""

from __future__ import annotations

from snell.graph.node import Graph, Operand
from snell.graph.primitives import Constant, Input, ScalarFunction, Source
from snell.symbolic import show_shape

__all__ = ["to_dot"]


def to_dot(graph: Graph) -> str:
    """`dot -Tsvg` draws the result."""
    numbers = {node: k for k, node in enumerate(graph.nodes())}
    lines = ["digraph snell {", "  node [shape=box];"]
    for node, number in numbers.items():
        match node.op:
            case Input(name) | ScalarFunction(name):
                title = name
            case Constant(value, _):
                title = str(value)
            case _:
                title = type(node.op).__name__
        style = ", style=rounded" if isinstance(node.op, Source) else ""
        caption = f"{node.dtype}{show_shape(node.shape)}"
        lines.append(f'  n{number} [label="{_escaped(title)}\\n{_escaped(caption)}"{style}];')
        lines += [f"  n{numbers[operand.node]} -> n{number}{_edge_label(operand)};" for operand in node.operands]
    for k, (name, operand) in enumerate(graph.outputs):
        lines.append(f'  out{k} [label="{_escaped(name)}", shape=ellipse];')
        lines.append(f"  n{numbers[operand.node]} -> out{k}{_edge_label(operand)};")
    return "\n".join([*lines, "}"]) + "\n"


def _edge_label(operand: Operand) -> str:
    return "" if operand.is_whole else f' [label="{_escaped(str(operand.view))}"]'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
