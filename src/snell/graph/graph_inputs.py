"""The inputs of a graph by name."""

from __future__ import annotations

from snell.errors import GraphError
from snell.graph.node import Graph
from snell.graph.primitives import Input

__all__ = ["input_operations"]


def input_operations(graph: Graph) -> dict[str, Input]:
    """Input operations by name; GraphError where two different inputs share one."""
    found: dict[str, Input] = {}
    for node in graph.inputs():
        assert isinstance(node.op, Input)
        known = found.setdefault(node.op.name, node.op)
        if known != node.op:
            raise GraphError(f"two inputs are named {node.op.name!r}; expected each input to have its own name")
    return found
