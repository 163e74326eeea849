"""The graph verifier: every invariant a pass may rely on, each with its own message.

Index bounds are proved where the algebra can; where it cannot, positions are sampled (all of a small static view), so
an error always comes with a counterexample.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

from snell.dtypes import bool_
from snell.errors import DTypeError, GraphError, ShapeError
from snell.graph.node import Graph, Node, Operand, inferred
from snell.graph.primitives import Binary, Input, MaxReduce, Op, Random, Reduce, Source, Structured
from snell.graph.scan import Scan, loops_of
from snell.graph.verify_loop import verify_scan
from snell.symbolic import Axis, Dim, Expr, View, as_expr, show_shape

__all__ = ["verify"]

_SAMPLES = 256


def verify(graph: Graph) -> None:
    """Raise GraphError at the first violation; the message names the node, what was expected and what was found."""
    _verify_names(graph)
    for loop in loops_of(graph):
        verify(loop.body)
    for node in graph.nodes():
        _verify_node(node)
    for operand in graph.roots():
        _verify_view(operand, "a root")
    for check in graph.checks:
        if check.condition.dtype != bool_:
            raise GraphError(f"check {check.message!r} expected a bool condition, received {check.condition.dtype}")
        if check.condition.shape != check.value.shape:
            raise GraphError(
                f"check {check.message!r} expected condition and value of one shape, received "
                f"{show_shape(check.condition.shape)} and {show_shape(check.value.shape)}"
            )


def _verify_names(graph: Graph) -> None:
    outputs = [name for name, _ in graph.outputs]
    repeated = sorted({name for name in outputs if outputs.count(name) > 1})
    if repeated:
        raise GraphError(f"output names must differ; {', '.join(repeated)} occurs more than once")
    inputs: dict[str, Node] = {}
    for node in graph.inputs():
        assert isinstance(node.op, Input)
        if inputs.setdefault(node.op.name, node) is not node:
            raise GraphError(f"two inputs are named {node.op.name!r}; give them different names")
    dims: dict[str, Dim] = {}
    for dim in _all_dims(graph):
        known = dims.setdefault(dim.name, dim)
        if known != dim:
            raise GraphError(f"dim {dim.name!r} is declared twice with different ranges: {known!r} and {dim!r}")


def _all_dims(graph: Graph) -> Iterator[Dim]:
    for node in graph.nodes():
        if isinstance(node.op, Structured):
            yield from node.op.dims()
        for size in node.shape:
            yield from as_expr(size).dims()
        for operand in node.operands:
            yield from _view_dims(operand.view)
    for operand in graph.roots():
        yield from _view_dims(operand.view)


def _view_dims(view: View) -> Iterator[Dim]:
    for expression in (*view.shape, *view.indices, *view.guards):
        yield from as_expr(expression).dims()


def _verify_node(node: Node) -> None:
    expected = _arity(node.op)
    if len(node.operands) != expected:
        raise GraphError(f"{node!r} expected {expected} operands, received {len(node.operands)}")
    for k, operand in enumerate(node.operands):
        _verify_view(operand, f"operand {k} of {node!r}")
    if isinstance(node.op, Reduce):
        _verify_reduction(node, node.op)
    if isinstance(node.op, Scan):
        verify_scan(node, node.op)
    if isinstance(node.op, Random) and node.operands[0].shape != (2,):
        raise GraphError(f"{node!r} expected a key of shape (2,), received {show_shape(node.operands[0].shape)}")
    try:
        shape, dtype = inferred(node.op, node.operands)
    except (DTypeError, ShapeError) as problem:
        raise GraphError(f"{node!r}: {problem}") from problem
    if shape != node.shape or dtype != node.dtype:
        raise GraphError(f"{node!r} should have shape {show_shape(shape)} and dtype {dtype} by its operation's rule")


def _arity(op: Op) -> int:
    match op:
        case Random():
            return 1
        case Source():
            return 0
        case Scan(loop):
            return len(loop.inputs)
        case Binary():
            return 2
        case _:
            return 1


def _verify_reduction(node: Node, op: Reduce) -> None:
    shape = node.operands[0].shape
    if list(op.axes) != sorted(set(op.axes)) or any(not 0 <= k < len(shape) for k in op.axes):
        raise GraphError(f"{node!r} expected rising axes of {show_shape(shape)}, received {op.axes}")
    if isinstance(op, MaxReduce) and any(shape[k] == 0 for k in op.axes):
        raise GraphError(f"{node!r} takes the maximum over an empty axis of {show_shape(shape)}, which has none")


def _verify_view(operand: Operand, where: str) -> None:
    view, source = operand.view, operand.node.shape
    if len(view.indices) != len(source):
        raise GraphError(f"{where} has {len(view.indices)} indices, expected {len(source)} for {show_shape(source)}")
    known = {Axis(f"i{k}", size) for k, size in enumerate(view.shape)}
    for expression in (*view.indices, *view.guards):
        foreign = expression.axes() - known
        if foreign:
            raise GraphError(f"{where} uses {', '.join(sorted(map(str, foreign)))}, not coordinates of {view}")
    if any(size == 0 for size in view.shape):
        return
    for k, (index, size) in enumerate(zip(view.indices, source, strict=True)):
        for bound, side in ((index, "below 0"), (as_expr(size) - 1 - index, f"beyond its extent {size}")):
            if not _is_proved(bound, view.guards):
                _verify_samples(bound, view, f"{where}: index {index} of dimension {k} goes {side}")


def _is_proved(bound: Expr, guards: tuple[Expr, ...]) -> bool:
    return bound.is_non_negative() or any((bound - guard).is_non_negative() for guard in guards)


def _verify_samples(bound: Expr, view: View, message: str) -> None:
    """Fail with a position where the guards hold and the bound does not."""
    for place in _places(view):
        if all(guard.evaluate(place) >= 0 for guard in view.guards) and bound.evaluate(place) < 0:
            shown = ", ".join(f"{atom} = {value}" for atom, value in place.items())
            raise GraphError(f"{message} at {shown}, in view {view}")


def _places(view: View) -> Iterator[Mapping[Any, int]]:
    """Positions of a view: all of them where they are few, else corners and evenly spread ones."""
    dims = sorted(set(_view_dims(view)), key=str)
    for sizes in itertools.product(*(_dim_values(dim) for dim in dims)):
        known = dict(zip(dims, sizes, strict=True))
        axes = [Axis(f"i{k}", size) for k, size in enumerate(view.shape)]
        lengths = [int(as_expr(size).evaluate(known)) for size in view.shape]
        few = max(2, int(_SAMPLES ** (1 / max(1, len(axes)))))
        every = math.prod(lengths) <= 16 * _SAMPLES
        spread = [[(n - 1) * k // (few - 1) for k in range(few)] for n in lengths]
        picks = (range(n) if every or n <= few else chosen for n, chosen in zip(lengths, spread, strict=True))
        for position in itertools.product(*picks):
            yield {**known, **dict(zip(axes, position, strict=True))}


def _dim_values(dim: Dim) -> tuple[int, ...]:
    low = -(-dim.min // dim.multiple) * dim.multiple
    return tuple(dict.fromkeys(n for n in (low, low + dim.multiple, low + 6 * dim.multiple) if n <= dim.max)) or (low,)
