"""A digest of a graph: equal for graphs of equal structure, in every process."""

from __future__ import annotations

import hashlib

from snell.graph.node import Graph, Node, Operand
from snell.graph.scan import Loop, Scan, loops_of

__all__ = ["fingerprint"]


def fingerprint(graph: Graph) -> str:
    """SHA-256 over operations, views, outputs, checks, dims and the bodies of loops."""
    digest = hashlib.sha256()
    places: dict[Node, int] = {}
    loops: dict[Loop, int] = {}
    views: dict[object, str] = {}

    def show(operand: Operand) -> str:
        text = views.get(operand.view)
        if text is None:
            text = views[operand.view] = str(operand.view)
        return f"{places[operand.node]} {text}"

    for loop, number in loops_of(graph).items():
        loops[loop] = number
        digest.update(f"{_described(loop)}\n".encode())
    for dim in graph.dims():
        digest.update(f"dim {dim!r}\n".encode())
    for node in graph.nodes():
        op = f"Scan {loops[node.op.loop]} {node.op.result}" if isinstance(node.op, Scan) else repr(node.op)
        line = f"{op} {node.dtype} {'; '.join(show(o) for o in node.operands)}\n"
        places[node] = len(places)
        digest.update(line.encode())
    for name, operand in graph.outputs:
        digest.update(f"output {name} {show(operand)}\n".encode())
    for check in graph.checks:
        digest.update(f"check {show(check.condition)} {show(check.value)} {check.message}\n".encode())
    return digest.hexdigest()


def _described(loop: Loop) -> str:
    return f"loop {fingerprint(loop.body)} {loop.inputs} {loop.carries} {loop.rows} {loop.length}"
