"""Nodes, operands and graphs: a hash-consed DAG of primitives with views on its edges.

A `Builder` interns nodes: building the same operation on the same operands twice gives the same node, so node identity
is structural equality within one builder.  A `Graph` is a frozen selection of outputs and checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from snell.dtypes import DType
from snell.errors import GraphError
from snell.graph.primitives import (
    Binary,
    Constant,
    Contiguous,
    Input,
    Iota,
    Op,
    Random,
    Reduce,
    ScalarFunction,
    Structured,
    Unary,
    reduced_shape,
)
from snell.symbolic import Dim, Expr, Shape, View, as_expr, show_shape

__all__ = ["Builder", "Check", "Graph", "Node", "Operand", "full_view", "inferred", "sizes_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One operation.  Identity is equality (hash-consing); `operands` reach producers through views."""

    op: Op
    operands: tuple[Operand, ...]
    shape: Shape
    dtype: DType

    def __repr__(self) -> str:
        return f"Node({type(self.op).__name__} {self.dtype}{show_shape(self.shape)})"


@dataclass(frozen=True, slots=True)
class Operand:
    """An edge: a producer seen through a view; the consumer sees `view.shape`."""

    node: Node
    view: View

    @property
    def shape(self) -> Shape:
        return self.view.shape

    @property
    def dtype(self) -> DType:
        return self.node.dtype

    @property
    def is_whole(self) -> bool:
        """True where the consumer sees the producer as it is."""
        return self.view.is_identity and self.view.shape == self.node.shape


@dataclass(frozen=True, slots=True)
class Check:
    """A run-time condition: where `condition` (bool) is false anywhere, `message` is raised with the `value` there."""

    condition: Operand
    value: Operand
    message: str


@dataclass(frozen=True, slots=True)
class Graph:
    """Outputs (names and operands) and checks; everything reachable from them is the program."""

    outputs: tuple[tuple[str, Operand], ...]
    checks: tuple[Check, ...] = ()

    def roots(self) -> tuple[Operand, ...]:
        return tuple(o for _, o in self.outputs) + tuple(o for c in self.checks for o in (c.condition, c.value))

    def nodes(self) -> tuple[Node, ...]:
        """Every reachable node, producers before consumers, in a deterministic order."""
        order: dict[Node, None] = {}
        stack: list[tuple[Node, bool]] = [(o.node, False) for o in reversed(self.roots())]
        while stack:
            node, done = stack.pop()
            if node in order:
                continue
            if done:
                order[node] = None
                continue
            stack.append((node, True))
            stack.extend((o.node, False) for o in reversed(node.operands) if o.node not in order)
        return tuple(order)

    def inputs(self) -> tuple[Node, ...]:
        """The Input nodes, in order of first use."""
        return tuple(node for node in self.nodes() if isinstance(node.op, Input))

    def dims(self) -> tuple[Dim, ...]:
        """Every symbolic dimension that occurs, by name."""
        found: dict[str, Dim] = {}
        for node in self.nodes():
            if isinstance(node.op, Structured):
                found.update({dim.name: dim for dim in node.op.dims()})
            views = [o.view for o in node.operands]
            sizes = [*node.shape, *(e for v in views for e in (*v.shape, *v.indices, *v.guards))]
            for size in sizes:
                found.update({dim.name: dim for dim in as_expr(size).dims()})
        for output in self.roots():
            for size in (*output.view.shape, *output.view.indices, *output.view.guards):
                found.update({dim.name: dim for dim in as_expr(size).dims()})
        return tuple(found[name] for name in sorted(found))


class Builder:
    """Interns nodes and infers shapes and dtypes; raises GraphError, ShapeError or DTypeError where a call is wrong."""

    def __init__(self) -> None:
        self._table: dict[tuple[object, ...], Node] = {}

    def add(self, op: Op, operands: Sequence[Operand] = ()) -> Node:
        """The node of `op` on `operands`, built once."""
        key = (op, tuple((id(o.node), o.view) for o in operands))
        node = self._table.get(key)
        if node is None:
            shape, dtype = inferred(op, operands)
            node = self._table[key] = Node(op, tuple(operands), shape, dtype)
        return node

    def nodes(self) -> Iterable[Node]:
        return self._table.values()


def inferred(op: Op, operands: Sequence[Operand]) -> tuple[Shape, DType]:
    """Shape and dtype rule of every operation."""
    match op:
        case Input(_, shape, dtype) | Random(shape, dtype):
            return shape, dtype
        case Constant(_, dtype):
            return (), dtype
        case Iota(extent, dtype):
            return (extent,), dtype
        case Unary() | ScalarFunction() | Contiguous():
            return operands[0].shape, op.result_dtype(operands[0].dtype)
        case Reduce(axes):
            return reduced_shape(operands[0].shape, axes), op.result_dtype(operands[0].dtype)
        case Structured():
            return op.result_type()
        case Binary():
            a, b = operands
            if a.shape != b.shape:
                raise GraphError(
                    f"{type(op).__name__} expected operands of one shape, received "
                    f"{show_shape(a.shape)} and {show_shape(b.shape)}; expand one of them first"
                )
            return a.shape, op.result_dtype(a.dtype, b.dtype)
        case _:
            raise GraphError(f"{type(op).__name__} is not an operation of the graph")


def full_view(node: Node) -> Operand:
    """The node seen as it is."""
    return Operand(node, View.identity(node.shape))


def sizes_of(shape: Shape) -> tuple[Expr, ...]:
    """Sizes as expressions."""
    return tuple(as_expr(size) for size in shape)
