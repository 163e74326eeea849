"""Batching: a graph for one example becomes a graph for many, with the batch as the first axis of what depends on it.

Every primitive is element-wise or reduces axes it names, so an operation on batched operands is the same operation with
its axes counted one further; views get one more coordinate.  What does not depend on the batch is computed once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from snell.graph.custom import Custom
from snell.graph.node import Builder, Graph, Node, Operand, full_view
from snell.graph.primitives import Input, Random, Reduce
from snell.graph.replay import stored
from snell.graph.scan import Loop, Scan
from snell.symbolic import Axis, Expr, Size, View, coordinates

__all__ = ["Batching", "batched_view"]


def batched_view(view: View, size: Size) -> View:
    """The view of a source with a batch in front, the batch in front of what it shows."""
    shape = (size, *view.shape)
    batch, *places = coordinates(shape)
    return View(shape, (batch, *_moved(view, places, view.indices)), _moved(view, places, view.guards))


def _moved(view: View, places: Sequence[Expr], expressions: Iterable[Expr]) -> tuple[Expr, ...]:
    mapping = {Axis(f"i{k}", size): place for k, (size, place) in enumerate(zip(view.shape, places, strict=True))}
    return tuple(e.substitute(mapping) for e in expressions)  # type: ignore[arg-type]  # an axis is an atom


@dataclass(slots=True)
class Batching:
    """Replays nodes in a builder; `batched` maps those that depend on the batch, `plain` the others."""

    builder: Builder
    size: Size
    batched: dict[Node, Operand] = field(default_factory=dict[Node, Operand])
    plain: dict[Node, Operand] = field(default_factory=dict[Node, Operand])
    graphs: dict[tuple[object, ...], Graph] = field(default_factory=dict[tuple[object, ...], Graph])
    """Batched graphs that were made, so that the results of one loop stay those of one."""

    def run(self, operands: Sequence[Operand]) -> None:
        """Replay everything that the operands depend on."""
        for node in Graph(tuple(("", operand) for operand in operands)).nodes():
            if node not in self.batched and node not in self.plain:
                self._replay(node)

    def depends(self, operand: Operand) -> bool:
        return operand.node in self.batched

    def single(self, operand: Operand) -> Operand:
        """An operand that does not depend on the batch."""
        made = self.plain[operand.node]
        return Operand(made.node, made.view.then(operand.view))

    def many(self, operand: Operand) -> Operand:
        """An operand with the batch in front, repeated where it does not depend on it."""
        if operand.node in self.batched:
            made = self.batched[operand.node]
            return Operand(made.node, made.view.then(batched_view(operand.view, self.size)))
        found = self.single(operand)
        return Operand(found.node, found.view.expand((self.size, *operand.shape)))

    def _replay(self, node: Node) -> None:
        if not any(operand.node in self.batched for operand in node.operands):
            given = [self.single(operand) for operand in node.operands]
            given = [stored(self.builder, o) for o in given] if isinstance(node.op, Scan) else given
            self.plain[node] = full_view(self.builder.add(node.op, given))
            return
        match node.op:
            case Scan(loop, result):
                self.batched[node] = self._scan(loop, result, node.operands)
            case Custom():
                self.batched[node] = self._custom(node.op, node.operands)
            case Random():
                self.batched[node] = self._random(node.op, node.operands[0])
            case Reduce(axes):
                op = replace(node.op, axes=tuple(axis + 1 for axis in axes))
                self.batched[node] = full_view(self.builder.add(op, [self.many(node.operands[0])]))
            case _:
                self.batched[node] = full_view(self.builder.add(node.op, [self.many(o) for o in node.operands]))

    def _random(self, op: Random, key: Operand) -> Operand:
        """Bits for each key, one after the other: bits are a function of one key."""
        body = Builder()
        bits = body.add(op, [full_view(body.add(Input("row0", key.shape, key.dtype)))])
        loop = Loop(Graph((("made0", full_view(bits)),)), ("row0",), 0, 1, self.size)
        return full_view(self.builder.add(Scan(loop, 0), [stored(self.builder, self.many(key))]))

    def _scan(self, loop: Loop, result: int, operands: Sequence[Operand]) -> Operand:
        """All examples walk together: carries have the batch in front, rows behind the steps."""
        split = loop.carries + loop.rows
        of_batch = [k < loop.carries or self.depends(operand) for k, operand in enumerate(operands)]
        inside = self._graph(loop.body, loop.inputs, of_batch)
        given: list[Operand] = []
        for k, operand in enumerate(operands):
            found = self.many(operand) if of_batch[k] else self.single(operand)
            if of_batch[k] and loop.carries <= k < split:
                found = Operand(found.node, found.view.permute((1, 0, *range(2, len(found.shape)))))
            given.append(stored(self.builder, found))
        made = full_view(self.builder.add(Scan(replace(loop, body=inside), result), given))
        if result < loop.carries:
            return made
        return Operand(made.node, made.view.permute((1, 0, *range(2, len(made.shape)))))

    def _custom(self, op: Custom, operands: Sequence[Operand]) -> Operand:
        """The pullback of many: each of its inputs and outputs with the batch in front."""
        pullback = op.pullback
        graph = self._graph(pullback.graph, pullback.inputs, [True] * len(pullback.inputs))
        many = replace(op, shape=(self.size, *op.shape), pullback=replace(pullback, graph=graph))
        return full_view(self.builder.add(many, [self.many(operand) for operand in operands]))

    def _graph(self, graph: Graph, names: Sequence[str], of_batch: Sequence[bool]) -> Graph:
        """`_batched_graph`, made once."""
        key = graph, tuple(names), tuple(of_batch)
        if key not in self.graphs:
            self.graphs[key] = _batched_graph(graph, names, of_batch, self.size)
        return self.graphs[key]


def _batched_graph(graph: Graph, names: Sequence[str], of_batch: Sequence[bool], size: Size) -> Graph:
    """The graph with a batch in front of the inputs that have one and of all outputs."""
    inner = Batching(Builder(), size)
    has_batch: Mapping[str, bool] = dict(zip(names, of_batch, strict=True))
    for node in graph.inputs():
        assert isinstance(node.op, Input)
        if has_batch[node.op.name]:
            made = inner.builder.add(replace(node.op, shape=(size, *node.shape), frozen=False))
            inner.batched[node] = full_view(made)
    inner.run(graph.roots())
    outputs = tuple((name, inner.many(operand)) for name, operand in graph.outputs)
    checks = tuple(
        replace(check, condition=inner.many(check.condition), value=inner.many(check.value)) for check in graph.checks
    )
    return Graph(outputs, checks)
