"""The body of a scan as a loop: which nodes depend on a step, and what is computed once, outside.

A node that depends on neither carry nor row is an invariant.  Constants, positions and decoded weights are cheaper to
repeat than to store, so they stay in the body; other invariants are replayed in the trace around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from snell.errors import GraphError
from snell.frontend.context import Trace
from snell.graph.node import Builder, Check, Graph, Node, Operand, full_view
from snell.graph.primitives import Input, Random, Reduce, ScalarFunction, Structured, Unary
from snell.graph.scan import Loop
from snell.symbolic import Size

__all__ = ["extracted"]


def extracted(
    trace: Trace, home: Trace, stand_ins: Sequence[Node], outputs: Sequence[Operand], carries: int, length: Size
) -> tuple[Loop, tuple[Operand, ...]]:
    """The loop of a traced body, and the operands in `home` of its invariants.

    `stand_ins` are the inputs for the carries and the rows; `outputs` the next carries and the made rows.
    """
    body = _Body(trace, home, tuple(stand_ins), carries)
    body.sort(outputs)
    named = [
        (f"carry{k}" if k < carries else f"made{k - carries}", body.inside(operand))
        for k, operand in enumerate(outputs)
    ]
    graph = Graph(tuple(named), body.checks())
    names = (*body.names, *(node.op.name for node in body.invariants if isinstance(node.op, Input)))
    return Loop(graph, names, carries, len(stand_ins) - carries, length), tuple(body.invariants.values())


@dataclass(slots=True)
class _Body:
    """Nodes of the body's trace on their way into a graph of their own (`kept`) or to the trace around (`moved`)."""

    trace: Trace
    home: Trace
    stand_ins: tuple[Node, ...]
    carries: int
    builder: Builder = field(default_factory=Builder)
    stepping: set[Node] = field(default_factory=set[Node])
    cheap: set[Node] = field(default_factory=set[Node])
    kept: dict[Node, Node] = field(default_factory=dict[Node, Node])
    moved: dict[Node, Node] = field(default_factory=dict[Node, Node])
    invariants: dict[Node, Operand] = field(default_factory=dict[Node, Operand])
    """Inputs of the body, and what they stand for in the trace around it."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"carry{k}" if k < self.carries else f"row{k - self.carries}" for k in range(len(self.stand_ins)))

    def sort(self, outputs: Sequence[Operand]) -> None:
        """Say of each node whether it depends on a step, and whether it is cheap to repeat."""
        checks = tuple(check for check, _ in self.trace.checks)
        guarded = tuple((f"guarded{k}", full_view(node)) for k, (_, node) in enumerate(self.trace.checks))
        named = tuple((f"out{k}", operand) for k, operand in enumerate(outputs))
        for node in Graph((*named, *guarded), checks).nodes():
            below = [operand.node for operand in node.operands]
            if node in self.stand_ins or any(n in self.stepping for n in below):
                self.stepping.add(node)
            elif self._is_cheap(node, below):
                self.cheap.add(node)
        for name, stand_in in zip(self.names, self.stand_ins, strict=True):
            self.kept[stand_in] = self.builder.add(Input(name, stand_in.shape, stand_in.dtype))

    def _is_cheap(self, node: Node, below: Sequence[Node]) -> bool:
        match node.op:
            case Input():
                return node.op.frozen
            case Reduce() | Random() | Structured() | Unary() | ScalarFunction():
                return False
            case _:
                return all(n in self.cheap for n in below)

    def inside(self, operand: Operand) -> Operand:
        """The operand in the body's graph."""
        stack = [operand.node]
        while stack:
            node = stack[-1]
            missing = [o.node for o in node.operands if o.node not in self.kept] if self._stays(node) else []
            if missing:
                stack += missing
                continue
            stack.pop()
            if node not in self.kept:
                self.kept[node] = self._copied(node) if self._stays(node) else self._invariant(node)
        return self._seen(operand)

    def _stays(self, node: Node) -> bool:
        return node in self.stepping or (node in self.cheap and not isinstance(node.op, Input))

    def _copied(self, node: Node) -> Node:
        return self.builder.add(node.op, [self._seen(operand) for operand in node.operands])

    def _seen(self, operand: Operand) -> Operand:
        return Operand(self.kept[operand.node], operand.view)

    def _invariant(self, node: Node) -> Node:
        """An input for a value from outside; one that is frozen there is frozen here."""
        outside = self.outside(full_view(node))
        source = outside.node.op
        options = (source.frozen, False, source.storage) if isinstance(source, Input) else ()
        made = self.builder.add(Input(f"invariant{len(self.invariants)}", node.shape, node.dtype, *options))
        self.invariants[made] = outside
        return made

    def outside(self, operand: Operand) -> Operand:
        """An invariant operand in the trace around the body."""
        for node in Graph((("operand", operand),)).nodes():
            if node not in self.moved:
                self.moved[node] = self._replayed(node)
        return Operand(self.moved[operand.node], operand.view)

    def _replayed(self, node: Node) -> Node:
        if not isinstance(node.op, Input):
            return self.home.add(node.op, [Operand(self.moved[o.node], o.view) for o in node.operands]).node
        if node in self.trace.captured:
            return self.home.adopt(*self.trace.captured[node]).node
        array = self.trace.arrays.get(node.op.name)
        if array is None:
            raise GraphError(f"the body of a scan reads {node.op.name!r}, which has no value yet; set it first")
        return self.home.bind(array).node

    def checks(self) -> tuple[Check, ...]:
        """The checks of a step; those that no step changes go to the trace around the body."""
        kept: list[Check] = []
        for check, guarded in self.trace.checks:
            if self.stepping & {check.condition.node, check.value.node, guarded}:
                kept.append(Check(self.inside(check.condition), self.inside(check.value), check.message))
            else:
                node = self.outside(full_view(guarded)).node
                self.home.check(self.outside(check.condition), self.outside(check.value), check.message, node)
        return tuple(kept)
