"""Lowering of a graph to index notation: each stored node as a scalar term of its axes.

A node is pulled at given index expressions: views are composed by substitution, so strides and movement vanish.  Stored
nodes and inputs become loads; a view's guards go to the load, or become a selection where the producer is computed in
place.  Arithmetic on f16 and bf16 is widened to f32, with rounding at explicit casts and where a value is stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from snell.dtypes import DType, f32
from snell.errors import CompileError
from snell.graph.node import Graph, Node, Operand
from snell.graph.primitives import Constant, Input, Iota, MaxReduce, Random, Reduce, SumReduce
from snell.rewrite.canonical import canonical, merged
from snell.rewrite.definition import Definition
from snell.rewrite.elementwise import elementwise, rounded
from snell.rewrite.gather import conjunction, gathered, holds, select, vanishes
from snell.rewrite.refinement import refine
from snell.rewrite.substitution import fresh_axis, guarded_load
from snell.rewrite.term import Max, Sum, Tensor, Term, cast, index, number, term
from snell.symbolic import Axis, Expr, Integer, as_expr, coordinates

__all__ = ["compute_dtype", "define", "definitions", "input_tensor", "to_terms"]


def compute_dtype(dtype: DType) -> DType:
    """The dtype arithmetic on a value runs in: f32 for f16 and bf16, else its own."""
    return f32 if dtype.is_float and dtype.bits < 32 else dtype


def input_tensor(node: Node) -> Tensor:
    """The tensor of an Input node."""
    if not isinstance(node.op, Input):
        raise CompileError(f"expected an Input, received {node!r}; store the node first")
    return Tensor(node.op.name, node.op.shape, node.op.dtype, node.op.storage, node.op.frozen)


def to_terms(source: Operand | Node, axes: Sequence[Integer], cut: Mapping[Node, Tensor]) -> Term:
    """The value at `axes` (one index expression per dimension) in its compute dtype; nodes in `cut` become loads.

    A `Node` is itself computed even when it is in `cut`; an `Operand`'s producer is loaded then.  Bound axes are fresh:
    apply `refine` and `canonical` to the finished term, as `define` does.
    """
    lowering = _Lowering(cut)
    places = tuple(as_expr(axis) for axis in axes)
    if isinstance(source, Node):
        return lowering.value(_Task(source, places, ()))
    return lowering.operand(source, places)


def define(source: Operand | Node, tensor: Tensor, cut: Mapping[Node, Tensor]) -> Definition:
    """`tensor[…] = source`, over atomic axes, with canonical bound axes, rounded to the tensor's dtype."""
    places = coordinates(tensor.shape)
    value = to_terms(source, places, cut)
    axes = tuple(axis for k, size in enumerate(tensor.shape) for axis in as_expr(Axis(f"i{k}", size)).axes())
    refined, atomic, positions = refine(cast(value, tensor.dtype), axes)
    indices = tuple(place.substitute(positions) for place in places)  # type: ignore[arg-type]
    return Definition(tensor, atomic, indices, canonical(refined))


def definitions(graph: Graph, stored: Sequence[Node]) -> tuple[Definition, ...]:
    """The program as definitions, producers first: one per stored node, and one per output that is another view of one.

    A stored node that an output shows as it is carries the output's name, the others are `v0`, `v1`, …
    """
    names: dict[Node, str] = {}
    for name, operand in graph.outputs:
        if operand.is_whole and not isinstance(operand.node.op, Input):
            names.setdefault(operand.node, name)
    cut = {n: Tensor(names.get(n, f"v{k}"), n.shape, n.dtype) for k, n in enumerate(stored)}
    program = [define(node, tensor, cut) for node, tensor in cut.items()]
    for name, operand in graph.outputs:
        if operand.node not in cut or cut[operand.node].name != name or not operand.is_whole:
            program.append(define(operand, Tensor(name, operand.shape, operand.dtype), cut))
    return tuple(program)


@dataclass(frozen=True, slots=True)
class _Task:
    """A node at index expressions; `guards` hold wherever the value is used (they protect the loads below)."""

    node: Node
    indices: tuple[Expr, ...]
    guards: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class _Read:
    """An operand in place: what is below it, and the guards of its view."""

    task: _Task
    guards: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a task needs: its operands in place, and the fresh axes it binds."""

    reads: tuple[_Read, ...]
    bound: tuple[Axis, ...] = ()


class _Lowering:
    """Memoised terms of tasks; the walk keeps its own stack, so deep graphs are no concern."""

    def __init__(self, cut: Mapping[Node, Tensor]) -> None:
        self._cut = cut
        self._values: dict[_Task, Term] = {}
        self._plans: dict[_Task, _Plan] = {}

    def value(self, root: _Task) -> Term:
        """The node's own operation at the task's indices."""
        stack = [root]
        while stack:
            task = stack[-1]
            if task in self._values:
                stack.pop()
                continue
            plan = self._plan(task)
            missing = [r.task for r in plan.reads if not self._is_stored(r.task.node) and r.task not in self._values]
            if missing:
                stack.extend(missing)
                continue
            self._values[task] = self._combined(task, plan)
            stack.pop()
        return self._values[root]

    def operand(self, operand: Operand, places: tuple[Expr, ...]) -> Term:
        """The operand's value at the consumer's coordinates `places`."""
        read = _placed(operand, places, ())
        if not self._is_stored(operand.node):
            self.value(read.task)
        return self._seen(read)

    def _is_stored(self, node: Node) -> bool:
        return node in self._cut or isinstance(node.op, Input)

    def _plan(self, task: _Task) -> _Plan:
        found = self._plans.get(task)
        if found is None:
            found = self._plans[task] = _planned(task)
        return found

    def _seen(self, read: _Read) -> Term:
        """A load under its guards, or the computed value where they hold."""
        node = read.task.node
        if self._is_stored(node):
            tensor = self._cut.get(node) or input_tensor(node)
            loaded = guarded_load(tensor, read.task.indices, read.guards, read.task.guards)
            return cast(loaded, compute_dtype(node.dtype))
        value = self._values[read.task]
        if any(guard.bounds()[1] < 0 for guard in read.guards):
            return number(0, value.dtype)
        if not read.guards or vanishes(value, read.guards):
            return value
        return select(conjunction([holds(guard) for guard in read.guards]), value)

    def _combined(self, task: _Task, plan: _Plan) -> Term:
        arguments = tuple(self._seen(read) for read in plan.reads)
        node = task.node
        dtype = compute_dtype(node.dtype)
        match node.op:
            case Constant(value, _):
                return number(int(value) if isinstance(value, bool) else value, dtype)
            case Iota(_, declared):
                return rounded(index(task.indices[0]), declared, dtype)
            case Random():
                # The position says it all; the shape would only keep equal words apart.
                return term(Random(()), (*arguments, index(_row_major(task))), node.dtype)
            case Reduce():
                return _reduced(node.op, plan.bound, arguments[0])
            case _:
                return elementwise(node.op, arguments, node, dtype)


def _planned(task: _Task) -> _Plan:
    node = task.node
    match node.op:
        case Random():
            (key,) = node.operands
            return _Plan(tuple(_placed(key, (as_expr(k),), task.guards) for k in range(2)))
        case Reduce(reduced):
            (operand,) = node.operands
            kept = iter(task.indices)
            bound = {k: fresh_axis(operand.shape[k]) for k in reduced}
            places = tuple(as_expr(bound[k]) if k in bound else next(kept) for k in range(len(operand.shape)))
            axes = tuple(axis for axis in bound.values() if axis.extent != 1)
            return _Plan((_placed(operand, places, task.guards),), axes)
        case _:
            return _Plan(tuple(_placed(operand, task.indices, task.guards) for operand in node.operands))


def _placed(operand: Operand, places: tuple[Expr, ...], context: tuple[Expr, ...]) -> _Read:
    """The operand's producer at the consumer's coordinates, under the guards of the view and of the context."""
    view = operand.view
    mapping = {Axis(f"i{k}", n): place for k, (n, place) in enumerate(zip(view.shape, places, strict=True))}
    indices = tuple(i.substitute(mapping) for i in view.indices)  # type: ignore[arg-type]
    moved = (g.substitute(mapping) for g in view.guards)  # type: ignore[arg-type]
    guards = tuple(dict.fromkeys(g for g in moved if not g.is_non_negative()))
    return _Read(_Task(operand.node, indices, tuple(dict.fromkeys((*context, *guards)))), guards)


def _row_major(task: _Task) -> Expr:
    flat = as_expr(0)
    for size, place in zip(task.node.shape, task.indices, strict=True):
        flat = flat * size + place
    return flat


def _reduced(op: Reduce, bound: tuple[Axis, ...], body: Term) -> Term:
    """The reduction, with empty axes folded, equations solved and nests merged."""
    match op:
        case SumReduce():
            if any(axis.extent == 0 for axis in bound):
                return number(0, body.dtype)
            axes, value = gathered(bound, body)
            return merged(Sum, axes, value)
        case MaxReduce():
            if any(axis.extent == 0 for axis in bound):
                return number(body.dtype.lowest, body.dtype)
            return merged(Max, bound, body)
        case _:
            raise CompileError(f"{type(op).__name__} has no index notation")
