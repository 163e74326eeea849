"""Reverse mode: from the cotangents of some values to those of the inputs they depend on, as nodes of one builder.

Nodes are visited from the results back.  Each hands its cotangent to its operands by its rule (`rules`), through the
transposes of their views (`transpose`); what arrives at a node from several sides is added.  Loops and custom
derivatives have several results: they are visited once, when the cotangents of all of them are known.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from snell.autodiff.loops import loop_cotangents, with_kept_carries
from snell.autodiff.rules import cotangents
from snell.autodiff.transpose import transposed
from snell.graph.custom import Custom
from snell.graph.node import Builder, Graph, Node, Operand
from snell.graph.replay import Replay
from snell.graph.scan import Scan
from snell.graph.value import Value

__all__ = ["active_nodes", "pulled_back"]


def pulled_back(
    builder: Builder, outputs: Sequence[Operand], seeds: Sequence[Operand | None], inputs: Sequence[Node]
) -> tuple[list[Operand], list[Operand | None]]:
    """The outputs, and the cotangent of each input (None: no output depends on it in a differentiable way).

    `seeds` are the cotangents of the outputs.  Loops are replaced by ones that also keep their carries, so that nothing
    runs twice: use the outputs that are returned.
    """
    kept = with_kept_carries(builder, outputs, active_nodes(outputs, inputs))
    reverse = _Reverse(builder, active_nodes(kept, inputs))
    for output, seed in zip(kept, seeds, strict=True):
        reverse.receive(output, seed)
    reverse.run(frozenset(inputs))
    return kept, [reverse.total(node) for node in inputs]


def active_nodes(outputs: Sequence[Operand], inputs: Sequence[Node]) -> dict[Node, None]:
    """The float nodes that depend on an input through floats, producers first."""
    found: dict[Node, None] = {}
    for node in Graph(tuple(("", operand) for operand in outputs)).nodes():
        if node in inputs or (node.dtype.is_float and any(operand.node in found for operand in node.operands)):
            found[node] = None
    return found


@dataclass(slots=True)
class _Reverse:
    builder: Builder
    active: Mapping[Node, None]
    received: dict[Node, list[Operand]] = field(default_factory=dict[Node, list[Operand]])

    def receive(self, operand: Operand, cotangent: Operand | None) -> None:
        """Take in the cotangent of a node as it is seen somewhere."""
        if cotangent is not None and operand.node in self.active:
            moved = transposed(self.builder, cotangent, operand.view, operand.node.shape)
            self.received.setdefault(operand.node, []).append(moved)

    def total(self, node: Node) -> Operand | None:
        """The sum of what a node has received."""
        parts = [Value(self.builder, operand) for operand in self.received.get(node, [])]
        return functools.reduce(lambda a, b: a + b, parts).seen if parts else None

    def run(self, stops: frozenset[Node]) -> None:
        first: dict[tuple[object, ...], Node] = {}
        members: dict[Node, list[Node]] = {}
        for node in self.active:
            key = _shared_key(node)
            members.setdefault(first.setdefault(key, node), []).append(node)
        for node in reversed(list(members)):
            if node not in stops:
                self._visit(node, {member: self.total(member) for member in members[node]})

    def _visit(self, node: Node, totals: Mapping[Node, Operand | None]) -> None:
        known = {member: total for member, total in totals.items() if total is not None}
        if not known:
            return
        match node.op:
            case Scan(loop):
                results = {member.op.result: total for member, total in known.items() if isinstance(member.op, Scan)}
                wanted = [operand.node in self.active for operand in node.operands]
                found = loop_cotangents(self.builder, loop, node.operands, results, wanted, pulled_back)
            case Custom():
                found = self._custom(node, node.op, known)
            case _:
                found = cotangents(self.builder, node, known[node])
        for operand, cotangent in zip(node.operands, found, strict=True):
            self.receive(operand, cotangent)

    def _custom(self, node: Node, op: Custom, totals: Mapping[Node, Operand]) -> Sequence[Operand | None]:
        """The pullback's graph, made here."""
        by_result = {member.op.result: total for member, total in totals.items() if isinstance(member.op, Custom)}
        seeds = [by_result.get(k) or self._zeros(node.operands[k]) for k in range(op.results)]
        values = dict(zip(op.pullback.inputs, (*node.operands[op.results :], *seeds), strict=True))
        known = {source: values[source.op.name] for source in op.pullback.graph.inputs()}  # type: ignore[attr-defined]  # an Input
        replay = Replay(self.builder, known)
        found: list[Operand | None] = [None] * len(node.operands)
        for place, (_, operand) in zip(op.pullback.places, op.pullback.graph.outputs, strict=True):
            found[place] = replay(operand)
        return found

    def _zeros(self, like: Operand) -> Operand:
        return Value(self.builder, like).constant(0).seen


def _shared_key(node: Node) -> tuple[object, ...]:
    """Equal for the results of one structured operation."""
    match node.op:
        case Scan(loop):
            return loop, node.operands
        case Custom(pullback=pullback):
            return pullback, node.operands
        case _:
            return (node,)
