"""Functions that say how gradients pass them: stop_gradient, custom_vjp and remat, which are one kind of node.

Each puts `graph.custom.Custom` nodes around values that are computed as ever; they vanish before anything is compiled.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from snell import trees
from snell.autodiff.reverse import pulled_back
from snell.errors import GraphError, ShapeError
from snell.frontend.captured import Captured
from snell.frontend.context import Trace, common_trace
from snell.frontend.leaves import Leaves
from snell.frontend.promotion import as_tensor
from snell.frontend.tensor import Tensor
from snell.graph.custom import Custom, Pullback
from snell.graph.node import Builder, Graph, Node, Operand, full_view
from snell.graph.primitives import Input, ScalarFunction
from snell.graph.replay import Replay
from snell.symbolic import show_shape

__all__ = ["custom_vjp", "differentiated_as", "remat", "stop_gradient"]


def stop_gradient(tree: Any) -> Any:
    """The same values, constant to differentiation."""
    leaves = Leaves.of(tree, "value")
    nothing = Pullback(Graph(()), ("cotangent",), ())
    return trees.unflatten(leaves.structure, [_wrapped([t], [], nothing, t.trace)[0] for t in leaves.tensors])


def differentiated_as(value: Tensor, other: Tensor) -> Tensor:
    """The value of one tensor with the gradient of another, which is equal wherever that matters."""
    given = Input("cotangent", value.shape, value.dtype)
    graph = Graph((("out0", full_view(Builder().add(given))),))
    pullback = Pullback(graph, ("other", "cotangent"), (1,))
    return _wrapped([value], [other.operand], pullback, value.trace)[0]


def custom_vjp(
    forward: Callable[..., tuple[Any, Any]], backward: Callable[[Any, Any], Sequence[Any]]
) -> Callable[..., Any]:
    """A function with a derivative of its own.

    `forward(*arguments)` returns (result, residuals); `backward(residuals, cotangent)`, the cotangent a tree like the
    result, returns a cotangent for each argument, None where there is none.  What they close over is constant.
    """

    @functools.wraps(forward)
    def function(*arguments: Any) -> Any:
        given = Leaves.of(arguments, "argument")
        home = common_trace([tensor.trace for tensor in given.tensors])
        result, residuals = _pair(forward(*arguments))
        outputs = Leaves.of(result, "result")
        captured = Captured.of(backward, (residuals, result), "given")
        home = common_trace([home, captured.home])
        count = captured.arguments.structure.children[0].count
        found = _cotangents(captured.result, arguments, given)
        sources = {t.operand.node: f"cotangent{k}" for k, t in enumerate(captured.stand_ins[count:])}
        pullback, others = _pullback(captured, found, sources, home, len(outputs.tensors), len(given.tensors))
        operands = [*(as_tensor(t, home).operand for t in given.tensors), *others]
        return trees.unflatten(outputs.structure, _wrapped(outputs.tensors, operands, pullback, home))

    return function


def remat(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, whose intermediate values are computed again in the backward pass instead of being kept.

    Only its arguments, and what it closes over, stay in memory in between.
    """

    @functools.wraps(function)
    def wrapped(*arguments: Any) -> Any:
        captured = Captured.of(function, arguments)
        home = captured.home
        outputs = Leaves.of(captured.result, "result")
        operands = [tensor.operand for tensor in outputs.tensors]
        results = captured.moved(operands, home, {})
        values = captured.outside(home, {})
        pullback = _recomputed(operands, list(values), [t.operand.node for t in captured.stand_ins])
        return trees.unflatten(outputs.structure, _wrapped(results, list(values.values()), pullback, home))

    return wrapped


def _recomputed(operands: Sequence[Operand], sources: Sequence[Node], stand_ins: Sequence[Node]) -> Pullback:
    """The function once more, and its VJP.

    Barriers on the arguments keep what is computed again from being recognised as what was computed before.
    """
    builder = Builder()
    inputs = [builder.add(Input(f"value{k}", node.shape, node.dtype)) for k, node in enumerate(sources)]
    seen = [
        full_view(builder.add(ScalarFunction("barrier"), [full_view(made)]) if source in stand_ins else made)
        for source, made in zip(sources, inputs, strict=True)
    ]
    replay = Replay(builder, dict(zip(sources, seen, strict=True)))
    outputs = [replay(operand) for operand in operands]
    seeds = [builder.add(Input(f"cotangent{k}", o.shape, o.dtype)) for k, o in enumerate(operands)]
    given = [full_view(seed) if seed.dtype.is_float else None for seed in seeds]
    _, found = pulled_back(builder, outputs, given, [operand.node for operand in seen])
    named = [(k, operand) for k, operand in enumerate(found) if operand is not None]
    graph = Graph(tuple((f"out{k}", operand) for k, operand in named))
    names = tuple(node.op.name for node in (*inputs, *seeds) if isinstance(node.op, Input))
    return Pullback(graph, names, tuple(len(operands) + k for k, _ in named))


def _pullback(
    captured: Captured, found: Sequence[Operand | None], sources: dict[Node, str], home: Trace, results: int, count: int
) -> tuple[Pullback, list[Operand]]:
    """The graph of a traced `backward`, and the operands in `home` that it reads besides cotangents."""
    builder = Builder()
    outside = captured.outside(home, {})
    others = [node for node in outside if node not in sources]
    made = {node: builder.add(Input(f"value{k}", node.shape, node.dtype)) for k, node in enumerate(others)}
    made |= {node: builder.add(Input(name, node.shape, node.dtype)) for node, name in sources.items()}
    replay = Replay(builder, {node: full_view(one) for node, one in made.items()})
    named = [(k, replay(operand)) for k, operand in enumerate(found) if operand is not None]
    graph = Graph(tuple((f"out{k}", operand) for k, operand in named))
    unread = tuple(f"argument{k}" for k in range(count))
    names = (*unread, *(f"value{k}" for k in range(len(others))), *sources.values())
    return Pullback(graph, names, tuple(results + k for k, _ in named)), [outside[node] for node in others]


def _wrapped(results: Sequence[Tensor], others: Sequence[Operand], pullback: Pullback, home: Trace) -> list[Tensor]:
    """Each result behind a Custom node."""
    values = [as_tensor(tensor, home) for tensor in results]
    operands = [*(tensor.operand for tensor in values), *others]
    return [
        Tensor(home.add(Custom(t.shape, t.dtype, len(values), k, pullback), operands), home, weak=t.weak)
        for k, t in enumerate(values)
    ]


def _pair(result: Any) -> tuple[Any, Any]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise GraphError(f"custom_vjp's forward must return (result, residuals), received {type(result).__name__}")
    return result


def _cotangents(result: Any, arguments: tuple[Any, ...], given: Leaves) -> list[Operand | None]:
    """The leaf cotangents that `backward` returned, None for the leaves of an argument that has none."""
    if not isinstance(result, tuple | list) or len(result) != len(arguments):
        received = f"{len(result)} of them" if isinstance(result, tuple | list) else type(result).__name__
        raise GraphError(
            f"custom_vjp's backward must return a tuple of {len(arguments)} cotangents, one an argument, also of one; "
            f"received {received}"
        )
    found: list[Operand | None] = []
    for cotangent, argument in zip(result, arguments, strict=True):
        leaves, structure = trees.flatten(cotangent)
        expected = trees.flatten(argument)[1]
        if cotangent is not None and structure != expected:
            raise GraphError("custom_vjp's backward must return a tree like the argument for each, or None")
        found += [None] * expected.count if cotangent is None else [leaf.operand for leaf in leaves]
    for operand, tensor, label in zip(found, given.tensors, given.labels, strict=True):
        if operand is not None and (operand.shape, operand.dtype) != (tensor.shape, tensor.dtype):
            raise ShapeError(
                f"custom_vjp's backward, cotangent of {label}: expected {tensor.dtype}{show_shape(tensor.shape)}, "
                f"received {operand.dtype}{show_shape(operand.shape)}"
            )
    return found
