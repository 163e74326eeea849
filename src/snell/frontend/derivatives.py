"""Derivatives of functions of trees: grad, value_and_grad, vjp and jvp.

Each traces the function inside the caller's program, so derivatives nest, compile with what surrounds them, and keep
symbolic sizes.  What the function closes over is constant.  What is not defined everywhere is said in `autodiff.rules`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from snell import trees
from snell.autodiff.reverse import pulled_back
from snell.errors import DTypeError, GraphError, ShapeError
from snell.frontend.captured import Captured
from snell.frontend.context import Trace, common_trace
from snell.frontend.leaves import Leaves
from snell.frontend.ops.creation import zeros_like
from snell.frontend.promotion import as_tensor, cast_to, constant_in
from snell.frontend.tensor import Tensor
from snell.graph.node import Node, Operand
from snell.symbolic import show_shape

__all__ = ["grad", "jvp", "value_and_grad", "vjp"]


def vjp(function: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """`(result, pullback)`, or `(result, pullback, aux)` where the function returns (result, aux).

    `pullback(cotangent)`, given a tree like the result, returns one cotangent a primal: a tuple of trees like them.  Leaves
    that are not floats receive zeros.
    """
    linear = _Linear.of(function, primals, has_aux)
    return (linear.result, linear.pull, linear.aux) if has_aux else (linear.result, linear.pull)


def grad(function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The gradient of a scalar-valued function with respect to the arguments that `argnums` numbers, as trees like them.

    With `has_aux` the function returns (value, aux), and its gradient (gradient, aux).
    """
    both = value_and_grad(function, argnums, has_aux)

    @functools.wraps(function)
    def gradient(*arguments: Any, **named: Any) -> Any:
        value, found = both(*arguments, **named)
        return (found, value[1]) if has_aux else found

    return gradient


def value_and_grad(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """As `grad`, returning (value, gradient), or ((value, aux), gradient).

    Raises ShapeError or DTypeError where the value is no float scalar or an argument holds leaves that are not floats.
    """
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    @functools.wraps(function)
    def value_and_gradient(*arguments: Any, **named: Any) -> Any:
        def of_chosen(*chosen: Any) -> Any:
            every = list(arguments)
            for number, argument in zip(numbers, chosen, strict=True):
                every[number] = argument
            return function(*every, **named)

        _check_numbers(numbers, len(arguments))
        chosen = tuple(arguments[number] for number in numbers)
        linear = _Linear.of(of_chosen, chosen, has_aux)
        _check_floats(linear.captured.arguments)
        value = _scalar(linear.result)
        found = linear.pull(as_tensor(1.0, value.trace))
        result = (linear.result, linear.aux) if has_aux else linear.result
        return result, found[0] if isinstance(argnums, int) else found

    return value_and_gradient


def jvp(function: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """The result, and its derivative along `tangents`, trees like the primals.

    The VJP is linear in the cotangent; its own VJP is the JVP, so no rule is written twice.
    """
    for name, values in (("primals", primals), ("tangents", tangents)):
        if not isinstance(values, tuple | list):
            raise GraphError(
                f"jvp expected {name} as a tuple of one an argument, received {type(values).__name__}; write (x,)"
            )
    linear = _Linear.of(function, tuple(primals))
    return linear.result, linear.push(tuple(tangents))


@dataclass(frozen=True, slots=True)
class _Linear:
    """A captured function with its VJP: inputs for the cotangents of the result's leaves, and what they give."""

    captured: Captured
    seeds: tuple[Operand, ...]
    found: tuple[Operand | None, ...]
    outputs: Leaves
    result: Any
    aux: Any

    @staticmethod
    def of(function: Callable[..., Any], primals: tuple[Any, ...], has_aux: bool = False) -> _Linear:
        captured = Captured.of(function, primals)
        main, aux = _with_aux(captured.result) if has_aux else (captured.result, ())
        outputs, extra = Leaves.of(main, "result"), Leaves.of(aux, "aux")
        operands = [tensor.operand for tensor in (*outputs.tensors, *extra.tensors)]
        own = len(outputs.tensors)
        seeds = tuple(captured.input(operand) for operand in operands[:own])
        given = [seed if seed.dtype.is_float else None for seed in seeds] + [None] * len(extra.tensors)
        inputs = [tensor.operand.node for tensor in captured.stand_ins]
        kept, found = pulled_back(captured.trace.builder, operands, given, inputs)
        moved = captured.moved(kept, captured.home, {})
        result = trees.unflatten(outputs.structure, moved[:own])
        aux = trees.unflatten(extra.structure, moved[own:])
        return _Linear(captured, seeds, tuple(found), outputs, result, aux)

    def pull(self, cotangent: Any) -> Any:
        """The cotangents of the primals."""
        given = _matching(cotangent, self.outputs, "cotangent")
        found = self._moved(self.found, self.seeds, given)
        leaves = [
            zeros_like(primal) if tensor is None else tensor
            for tensor, primal in zip(found, self.captured.arguments.tensors, strict=True)
        ]
        return trees.unflatten(self.captured.arguments.structure, leaves)

    def push(self, tangents: Any) -> Any:
        """The tangent of the result: the transpose of the transpose."""
        captured = self.captured
        given = _matching(tangents, captured.arguments, "tangent")
        directions = [captured.input(stand_in.operand) for stand_in in captured.stand_ins]
        pairs = [(f, d) for f, d in zip(self.found, directions, strict=True) if f is not None]
        _, pushed = pulled_back(
            captured.trace.builder, [f for f, _ in pairs], [d for _, d in pairs], [s.node for s in self.seeds]
        )
        found = self._moved(pushed, directions, given)
        leaves = [zeros_like(y) if t is None else t for t, y in zip(found, trees.leaves(self.result), strict=True)]
        return trees.unflatten(self.outputs.structure, leaves)

    def _moved(
        self, operands: Sequence[Operand | None], inputs: Sequence[Operand], given: Sequence[Tensor]
    ) -> list[Tensor | None]:
        """Operands of the captured trace in the caller's, with values for the inputs that were made for them."""
        target = common_trace([self.captured.home, *(tensor.trace for tensor in given)])
        known: dict[Node, Operand] = {
            source.node: as_tensor(tensor, target).operand for source, tensor in zip(inputs, given, strict=True)
        }
        for (
            seed
        ) in self.seeds:  # the derivative of what is linear in a seed reads none; its primal results are not asked for
            known.setdefault(seed.node, _zeros(seed, target))
        present = [operand for operand in operands if operand is not None]
        moved = iter(self.captured.moved(present, target, known))
        return [None if operand is None else next(moved) for operand in operands]


def _zeros(like: Operand, target: Trace) -> Operand:
    scalar = constant_in(target, 0, like.dtype).operand
    return Operand(scalar.node, scalar.view.expand(like.shape))


def _with_aux(result: Any) -> tuple[Any, Any]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise GraphError(f"with has_aux the function must return (value, aux), received {type(result).__name__}")
    return result


def _matching(tree: Any, like: Leaves, name: str) -> list[Tensor]:
    """The tree's leaves with the shapes and dtypes of those they belong to; numbers are repeated."""
    given = Leaves.of(tree, name)
    if given.structure != like.structure:
        raise GraphError(
            f"expected a {name} for each of {', '.join(like.labels) or 'no leaves'}, in a tree like theirs; "
            f"received {', '.join(given.labels) or 'no leaves'}"
        )
    found: list[Tensor] = []
    for tensor, label, wanted in zip(given.tensors, given.labels, like.tensors, strict=True):
        if tensor.shape != wanted.shape and not (tensor.weak and tensor.shape == ()):
            raise ShapeError(f"{label}: expected shape {show_shape(wanted.shape)}, received {show_shape(tensor.shape)}")
        cast = cast_to(tensor, wanted.dtype)
        found.append(cast.seen_through(cast.operand.view.expand(wanted.shape)))
    return found


def _check_numbers(numbers: Sequence[int], count: int) -> None:
    if any(not -count <= number < count for number in numbers):
        raise GraphError(
            f"argnums {tuple(numbers)} number arguments from 0 to {count - 1}; keyword arguments have none"
        )


def _check_floats(arguments: Leaves) -> None:
    for tensor, label in zip(arguments.tensors, arguments.labels, strict=True):
        if not tensor.dtype.is_float:
            raise DTypeError(f"{label}: only floats have gradients, received {tensor.dtype}; leave it out of argnums")


def _scalar(result: Any) -> Tensor:
    if not isinstance(result, Tensor):
        raise GraphError(
            f"a gradient is that of one number; the function returned a {type(result).__name__}; "
            "pass has_aux=True if it returns (value, aux)"
        )
    if result.shape != () or not result.dtype.is_float:
        raise ShapeError(
            f"a gradient is that of one float number, the function returned {result.dtype}{show_shape(result.shape)}; "
            "reduce it, for instance with .mean(), or use vjp"
        )
    return result
