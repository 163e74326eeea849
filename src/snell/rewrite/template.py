"""Templates: definitions up to the names of tensors, so that thirty equal layers are lowered and rewritten once.

A stored node is keyed by the structure between it and what it loads: operations, views, and for each tensor loaded its
shape, dtype, storage and whether it is frozen.  Nodes of equal keys share one template, a definition over the tensors
`t0`, `t1`, … stored as `out`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from snell.graph.node import Graph, Node, Operand
from snell.graph.primitives import Input, Structured
from snell.rewrite.definition import Definition
from snell.rewrite.index import define, input_tensor
from snell.rewrite.term import Tensor

__all__ = ["Instance", "instances", "stored_tensors"]


@dataclass(frozen=True, slots=True)
class Instance:
    """A template and the tensors that its own stand for (the stored one, `out`, among them)."""

    template: Definition
    tensors: Mapping[Tensor, Tensor]

    @property
    def stored(self) -> Tensor:
        return self.tensors[self.template.tensor]


def stored_tensors(graph: Graph, stored: Sequence[Node]) -> dict[Node, Tensor]:
    """The tensor of each stored node: one that an output shows as it is carries the output's name, the others are
    `v0`, `v1`, …"""
    names: dict[Node, str] = {}
    for name, operand in graph.outputs:
        if operand.is_whole and not isinstance(operand.node.op, Input):
            names.setdefault(operand.node, name)
    return {n: Tensor(names.get(n, f"v{k}"), n.shape, n.dtype) for k, n in enumerate(stored)}


def instances(graph: Graph, cut: Mapping[Node, Tensor]) -> tuple[Instance, ...]:
    """The program, producers first: one per stored node, and one per output that is another view of one.

    `cut` is what `stored_tensors` gives; a node that holds a graph has a tensor and no definition.
    """
    known: dict[Hashable, Definition] = {}
    program = [
        _instance(node, tensor, cut, known) for node, tensor in cut.items() if not isinstance(node.op, Structured)
    ]
    for name, operand in graph.outputs:
        if operand.node not in cut or cut[operand.node].name != name or not operand.is_whole:
            program.append(_instance(operand, Tensor(name, operand.shape, operand.dtype), cut, known))
    return tuple(program)


def _instance(
    source: Node | Operand, tensor: Tensor, cut: Mapping[Node, Tensor], known: dict[Hashable, Definition]
) -> Instance:
    structure = _Structure(cut)
    key = (structure.key(source), replace(tensor, name="out"))
    out = replace(tensor, name="out")
    found = known.get(key)
    if found is None:
        found = known[key] = define(source, out, structure.abstract)
    return Instance(found, {**{own: real for real, own in structure.tensors.items()}, out: tensor})


class _Structure:
    """The key of one stored node, and the abstract tensors of the nodes it loads."""

    def __init__(self, cut: Mapping[Node, Tensor]) -> None:
        self._cut = cut
        self._places: dict[Node, int] = {}
        self._lines: list[Hashable] = []
        self.tensors: dict[Tensor, Tensor] = {}
        self.abstract: dict[Node, Tensor] = {}

    def key(self, source: Node | Operand) -> Hashable:
        """The structure below the source: numbered operations in the order a walk finishes them."""
        if isinstance(source, Operand):
            self._visit(source.node)
            return (*self._lines, (self._places[source.node], source.view))
        for operand in source.operands:
            self._visit(operand.node)
        return (*self._lines, (source.op, source.dtype, self._edges(source)))

    def _visit(self, root: Node) -> None:
        stack = [(root, False)]
        while stack:
            node, done = stack.pop()
            if node in self._places:
                continue
            if done or node in self._cut or isinstance(node.op, Input):
                self._places[node] = len(self._places)
                self._lines.append(self._line(node))
                continue
            stack.append((node, True))
            stack.extend((operand.node, False) for operand in reversed(node.operands))

    def _line(self, node: Node) -> Hashable:
        tensor = self._cut.get(node) or (input_tensor(node) if isinstance(node.op, Input) else None)
        if tensor is None:
            return node.op, node.dtype, self._edges(node)
        own = self.tensors.get(tensor)
        if own is None:
            own = self.tensors[tensor] = replace(tensor, name=f"t{len(self.tensors)}")
        self.abstract[node] = own
        return own

    def _edges(self, node: Node) -> tuple[Hashable, ...]:
        return tuple((self._places[operand.node], operand.view) for operand in node.operands)
