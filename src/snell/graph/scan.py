"""Scan: a node that holds a graph and stands for running it once a row, with values carried from row to row.

    carry, length → for t in 0 .. length-1:  carry, row_t = body(carry, xs[t], invariants)

The body is a graph whose inputs are, by name and in the order of the node's operands, the carries, one row of each
array that is walked, and the invariants.  Its outputs are the next carries, then one row of each array that is made.
A body is a graph: its inputs and outputs are rounded to their dtypes at every step.  One `Scan` node yields one result
(a last carry or a stacked array); nodes of one `Loop` on the same operands are one repetition.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from snell.dtypes import DType
from snell.graph.node import Graph, Node, Operand
from snell.graph.primitives import Structured
from snell.symbolic import Dim, Shape, Size, as_expr

__all__ = ["Loop", "Repetition", "Scan", "loops_of", "repetitions"]


@dataclass(frozen=True, slots=True)
class Loop:
    """The body, the names of its inputs in operand order, and how many of them are carries and rows."""

    body: Graph
    inputs: tuple[str, ...]
    carries: int
    rows: int
    length: Size

    def dims(self) -> tuple[Dim, ...]:
        """The dims of the length and of everything in the body."""
        return tuple(dict.fromkeys((*as_expr(self.length).dims(), *self.body.dims())))

    def carry_names(self) -> tuple[str, ...]:
        return self.inputs[: self.carries]

    def row_names(self) -> tuple[str, ...]:
        return self.inputs[self.carries : self.carries + self.rows]

    def result_type(self, result: int) -> tuple[Shape, DType]:
        """Shape and dtype of a last carry, or of an array with one row a step."""
        _, operand = self.body.outputs[result]
        shape = operand.shape if result < self.carries else (self.length, *operand.shape)
        return shape, operand.dtype


@dataclass(frozen=True, slots=True)
class Scan(Structured):
    """Result number `result` of a loop: its last carries first, then the arrays of rows."""

    loop: Loop
    result: int

    def result_type(self) -> tuple[Shape, DType]:
        return self.loop.result_type(self.result)

    def dims(self) -> tuple[Dim, ...]:
        return self.loop.dims()


@dataclass(frozen=True, slots=True)
class Repetition:
    """One loop on its operands; `results` are the nodes that show a result of it."""

    loop: Loop
    operands: tuple[Operand, ...]
    results: tuple[Node, ...]


def repetitions(nodes: Iterable[Node]) -> tuple[Repetition, ...]:
    """The loops of a graph's nodes, each once, in order of first occurrence."""
    found: dict[tuple[Loop, tuple[Operand, ...]], list[Node]] = {}
    for node in nodes:
        if isinstance(node.op, Scan):
            found.setdefault((node.op.loop, node.operands), []).append(node)
    return tuple(Repetition(loop, operands, tuple(results)) for (loop, operands), results in found.items())


def loops_of(graph: Graph) -> dict[Loop, int]:
    """The distinct loops of a graph, numbered in order of first occurrence."""
    found: dict[Loop, int] = {}
    for node in graph.nodes():
        if isinstance(node.op, Scan):
            found.setdefault(node.op.loop, len(found))
    return found
