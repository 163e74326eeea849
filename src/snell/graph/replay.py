"""Replay: nodes of one graph made again in a builder, with operands standing for some of them.

A replayed node is the same operation on the replayed operands; `known` says what takes the place of inputs, and
`instead` may build something else in the place of a node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from snell.graph.node import Builder, Node, Operand, full_view
from snell.graph.primitives import Contiguous, Input, Source
from snell.graph.scan import Scan

__all__ = ["Replay", "stored"]

Instead = Callable[[Builder, Node, Sequence[Operand]], Operand | None]


class Replay:
    """Replays operands, each node once."""

    def __init__(self, builder: Builder, known: Mapping[Node, Operand], instead: Instead | None = None) -> None:
        self.builder = builder
        self.made = dict(known)
        self._instead = instead

    def __call__(self, operand: Operand) -> Operand:
        """The operand as it is in the new builder."""
        stack = [operand.node]
        while stack:
            node = stack[-1]
            missing = [] if node in self.made else [o.node for o in node.operands if o.node not in self.made]
            if missing:
                stack += missing
                continue
            stack.pop()
            if node not in self.made:
                self.made[node] = self._replayed(node)
        return self._seen(operand)

    def _seen(self, operand: Operand) -> Operand:
        found = self.made[operand.node]
        view = operand.view if found.is_whole else found.view.then(operand.view)
        return Operand(found.node, view)

    def _replayed(self, node: Node) -> Operand:
        operands = [self._seen(operand) for operand in node.operands]
        found = self._instead(self.builder, node, operands) if self._instead else None
        if found is not None:
            return found
        if isinstance(node.op, Scan):
            operands = [stored(self.builder, operand) for operand in operands]
        return full_view(self.builder.add(node.op, operands))


def stored(builder: Builder, operand: Operand) -> Operand:
    """The operand as a whole node with memory of its own, as a scan reads it."""
    op = operand.node.op
    is_plain = isinstance(op, Input) if isinstance(op, Source) else True
    dense = not isinstance(op, Input) or op.storage is None
    if operand.is_whole and is_plain and dense:
        return operand
    return full_view(builder.add(Contiguous(operand.dtype), [operand]))
