"""Pictures of a program before and after fusion, as data that the page's script draws where one looks.

A box is a place, two lines of text and a kind (its colour); what a scan repeats is drawn once, among the kernels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from snell.compiler.compile import Compilation
from snell.engine.report.layout import layered
from snell.graph.node import Graph
from snell.graph.primitives import Constant, Contiguous, Input, Iota, Op, Reduce, ScalarFunction, Source
from snell.graph.scan import Scan
from snell.symbolic import show_shape

__all__ = ["fused_picture", "graph_picture"]

Picture = dict[str, list[Any]]


@dataclass(frozen=True, slots=True)
class _Box:
    title: str
    detail: str
    kind: str


def graph_picture(graph: Graph) -> Picture:
    """The twelve primitives as they were traced; numbers, ramps and weights are left out."""
    nodes = [node for node in graph.nodes() if not _is_left_out(node.op)]
    places = {node: k for k, node in enumerate(nodes)}
    boxes = [_Box(_title(node.op), f"{node.dtype}{show_shape(node.shape)}", _kind(node.op)) for node in nodes]
    edges = [(places[o.node], k) for k, node in enumerate(nodes) for o in node.operands if o.node in places]
    for name, operand in graph.outputs:
        if operand.node in places:
            edges.append((places[operand.node], len(boxes)))
            boxes.append(_Box(name.removeprefix("result:"), "output", "output"))
    return _picture(boxes, edges)


def fused_picture(compilation: Compilation, names: Mapping[Any, str], heat: Mapping[str, float]) -> Picture:
    """The kernels in the order in which they run, and who reads what they write; `heat` is a kernel's share of time."""
    boxes: list[_Box] = []
    edges: list[tuple[int, int]] = []
    made: dict[str, int] = {}
    for node in compilation.lowered.graph.inputs():
        if isinstance(node.op, Input) and not node.op.frozen:
            made[node.op.name] = len(boxes)
            boxes.append(_Box(node.op.name, f"{node.dtype}{show_shape(node.shape)}", "source"))
    for built in compilation.lowered.kernels:
        name = names[built.kernel]
        place = len(boxes)
        edges += [(made[t.name], place) for t in built.tensors if made.get(t.name, place) < place]
        writes = sorted(built.writes, key=lambda tensor: tensor.name)
        made |= {tensor.name: place for tensor in writes}
        detail = ", ".join(f"{tensor.name} {show_shape(tensor.shape)}" for tensor in writes)
        boxes.append(_Box(name, detail, f"heat{min(4, int(8 * heat.get(name, 0.0)))}"))
    return _picture(boxes, edges)


def _picture(boxes: Sequence[_Box], edges: Sequence[tuple[int, int]]) -> Picture:
    places = layered(len(boxes), edges)
    drawn = [[round(x, 2), y, b.title, b.detail, b.kind] for (x, y), b in zip(places, boxes, strict=True)]
    return {"boxes": drawn, "edges": [list(edge) for edge in dict.fromkeys(edges)]}


def _title(op: Op) -> str:
    match op:
        case Input(name) | ScalarFunction(name):
            return name
        case Scan(loop, result):
            return f"Scan, {loop.length} times, result {result}"
        case _:
            return type(op).__name__


def _is_left_out(op: Op) -> bool:
    return isinstance(op, Constant | Iota) or (isinstance(op, Input) and op.frozen)


def _kind(op: Op) -> str:
    match op:
        case Source():
            return "source"
        case Reduce():
            return "reduce"
        case Scan():
            return "scan"
        case Contiguous():
            return "move"
        case _:
            return "plain"
