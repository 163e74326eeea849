"""Custom: an identity that says itself how cotangents pass it, by a graph.

    operands = (results…, others…)      value = results[k]

A user's own derivative, a value that gradients do not pass and a recomputed region are all this node.  It means
something to differentiation only; `plain` takes it out of a graph before anything is compiled or evaluated.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from snell.dtypes import DType
from snell.graph.node import Builder, Graph, Node, Operand, full_view
from snell.graph.primitives import Structured
from snell.graph.replay import Replay, stored
from snell.graph.scan import Loop, Scan
from snell.symbolic import Dim, Shape

__all__ = ["Custom", "Pullback", "plain"]


@dataclass(frozen=True, slots=True)
class Pullback:
    """A graph that gives cotangents of some operands.

    `inputs` name what it reads: the operands after the results, then the cotangents of the results.  Output k is the
    cotangent of operand `places[k]`; operands that are not named receive nothing.
    """

    graph: Graph
    inputs: tuple[str, ...]
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Custom(Structured):
    """Result number `result` of `results`, whose cotangents go through the pullback."""

    shape: Shape
    dtype: DType
    results: int
    result: int
    pullback: Pullback

    def result_type(self) -> tuple[Shape, DType]:
        return self.shape, self.dtype

    def dims(self) -> tuple[Dim, ...]:
        return self.pullback.graph.dims()


def plain(graph: Graph) -> Graph:
    """The same program without Custom nodes, in the bodies of loops too."""
    if not any(_holds_custom(node) for node in graph.nodes()):
        return graph
    replay = Replay(Builder(), {}, functools.partial(_plain, {}))
    outputs = tuple((name, replay(operand)) for name, operand in graph.outputs)
    checks = tuple(replace(c, condition=replay(c.condition), value=replay(c.value)) for c in graph.checks)
    return Graph(outputs, checks)


def _holds_custom(node: Node) -> bool:
    match node.op:
        case Custom():
            return True
        case Scan(loop):
            return any(_holds_custom(inner) for inner in loop.body.nodes())
        case _:
            return False


def _plain(loops: dict[Loop, Loop], builder: Builder, node: Node, operands: Sequence[Operand]) -> Operand | None:
    """A node without Custom; `loops` holds what was made of each loop, so that its results stay those of one."""
    match node.op:
        case Custom(result=result):
            return operands[result]
        case Scan(loop, result) if _holds_custom(node):
            if loop not in loops:
                loops[loop] = replace(loop, body=plain(loop.body))
            return full_view(builder.add(Scan(loops[loop], result), [stored(builder, operand) for operand in operands]))
        case _:
            return None
