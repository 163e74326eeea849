"""vmap: a function of one example applied to all examples at once, without a loop.

vmap(function, in_axes=0, out_axes=0)(*arguments)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from snell import trees
from snell.autodiff.batching import Batching
from snell.errors import GraphError, ShapeError
from snell.frontend.captured import Captured
from snell.frontend.leaves import Leaves
from snell.frontend.ops.movement import movedim
from snell.frontend.promotion import as_tensor
from snell.frontend.shapes import normal_axis
from snell.frontend.tensor import Tensor
from snell.graph.node import full_view
from snell.symbolic import Size, show_shape

__all__ = ["vmap"]

Axes = int | None | Sequence[int | None]


def vmap(function: Callable[..., Any], in_axes: Axes = 0, out_axes: int = 0) -> Callable[..., Any]:
    """`function` over one axis of its arguments, stacked along axis `out_axes` of each result.

    `in_axes` says which axis of an argument's leaves holds the examples: one number for all arguments, or one an
    argument; None for an argument that all examples share.  Raises ShapeError where the extents differ.
    """

    @functools.wraps(function)
    def over_examples(*arguments: Any) -> Any:
        axes = tuple(in_axes) if isinstance(in_axes, Sequence) else (in_axes,) * len(arguments)
        if len(axes) != len(arguments):
            raise GraphError(f"vmap expected an axis for each of {len(arguments)} arguments, received in_axes={axes}")
        moved, size = _batch_first(arguments, axes)
        captured = Captured.of(function, tuple(_example(a, axis) for a, axis in zip(moved, axes, strict=True)))
        home = captured.home
        outside = captured.outside(home, {})
        batching = Batching(home.builder, size)
        flags = [axis is not None for a, axis in zip(moved, axes, strict=True) for _ in trees.leaves(a)]
        tensors = [as_tensor(leaf, home) for a in moved for leaf in trees.leaves(a)]
        for stand_in, tensor, is_batched in zip(captured.stand_ins, tensors, flags, strict=True):
            if is_batched:
                del outside[stand_in.operand.node]
                batching.batched[stand_in.operand.node] = tensor.operand
        batching.plain.update(outside)
        results = Leaves.of(captured.result, "result")
        batching.run([t.operand for t in results.tensors])
        _move_checks(captured, batching)
        found = [movedim(Tensor(batching.many(t.operand), home), 0, out_axes) for t in results.tensors]
        return trees.unflatten(results.structure, found)

    return over_examples


def _batch_first(arguments: Sequence[Any], axes: Sequence[int | None]) -> tuple[list[Any], Size]:
    """The arguments with their examples along axis 0, and how many there are."""
    size: Size | None = None
    moved: list[Any] = []
    for number, (argument, axis) in enumerate(zip(arguments, axes, strict=True)):
        leaves = Leaves.of(argument, f"argument{number}")
        tensors = list(leaves.tensors)
        for k, (tensor, label) in enumerate(zip(leaves.tensors, leaves.labels, strict=True)):
            if axis is None:
                continue
            place = normal_axis(axis, tensor.ndim)
            if size is not None and tensor.shape[place] != size:
                raise ShapeError(
                    f"vmap: {label} {show_shape(tensor.shape)} has {tensor.shape[place]} examples along "
                    f"axis {axis}, others have {size}; expected equal extents"
                )
            size = tensor.shape[place]
            tensors[k] = movedim(tensor, place, 0)
        moved.append(trees.unflatten(leaves.structure, tensors))
    if size is None:
        raise GraphError("vmap expected at least one argument with an axis of examples; in_axes names none")
    return moved, size


def _example(argument: Any, axis: int | None) -> Any:
    """The first example, which has the shape and dtype of all."""
    return argument if axis is None else trees.map(lambda t: t[0], argument)


def _move_checks(captured: Captured, batching: Batching) -> None:
    for check, guarded in captured.trace.checks:
        operands = (check.condition, check.value, full_view(guarded))
        batching.run(operands)
        condition, value, result = (batching.many(operand) for operand in operands)
        captured.home.check(condition, value, check.message, result.node)
