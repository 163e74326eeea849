"""scan: structured repetition.  The body is traced once, compiled once, and runs once a row.

    carry, ys = scan(body, carry, xs)        body(carry, x) -> (carry, y)

The body is traced in a trace of its own, inside the caller's (`frontend.context`).  What it computes from neither carry
nor row is computed once, outside (`frontend.body`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from snell import trees
from snell.errors import DTypeError, GraphError, ShapeError
from snell.frontend.body import extracted
from snell.frontend.context import Trace, common_trace
from snell.frontend.leaves import Leaves, leaf_tensor
from snell.frontend.promotion import as_tensor, cast_to
from snell.frontend.shapes import SizeLike, as_shape
from snell.frontend.tensor import Tensor
from snell.graph.primitives import Input
from snell.graph.replay import stored
from snell.graph.scan import Scan
from snell.symbolic import Size, as_size, show_shape

__all__ = ["scan"]

_SAYS = "scan's body must return (carry, y), the next carry first"


def scan(
    body: Callable[[Any, Any], tuple[Any, Any]], carry: Any, xs: Any = None, length: SizeLike | None = None
) -> tuple[Any, Any]:
    """Run `body(carry, x)` for each row x of `xs`; gives the last carry and the stacked ys.

    `carry`, `xs` and the ys are trees of tensors.  All of `xs` have one leading extent, which may be symbolic; without
    `xs` (x is None then) give a `length`.  A length of 0 gives the initial carry and empty ys.  The carry keeps its
    structure, shapes and dtypes from step to step.  Tensors that the body closes over do not change.

    Raises ShapeError, DTypeError or GraphError where the carry changes or the rows do not fit, naming the leaf.
    """
    first = Leaves.of(carry, "carry")
    walked = Leaves.of(xs, "xs")
    size = _length(walked, length)
    trace = Trace(capturing=True)
    carried = [_stand_in(trace, t.shape, t) for t in first.tensors]
    rows = [_stand_in(trace, t.shape[1:], t) for t in walked.tensors]
    try:
        result = body(trees.unflatten(first.structure, carried), trees.unflatten(walked.structure, rows))
        following, made = _split(result, first)
        outputs = [
            *(_next(trace, before, after, label) for before, after, label in zip(
                carried, following, first.labels, strict=True
            )),
            *(as_tensor(leaf, trace) for leaf in made.tensors),
        ]  # fmt: skip
    finally:
        trace.close()
    around = [*(t.trace for t in (*first.tensors, *walked.tensors)), *(other for other, _ in trace.captured.values())]
    home = common_trace(around)
    stand_ins = [t.operand.node for t in (*carried, *rows)]
    loop, invariants = extracted(trace, home, stand_ins, [t.operand for t in outputs], len(carried), size)
    given = [as_tensor(t, home).operand for t in (*first.tensors, *walked.tensors)]
    operands = [stored(home.builder, operand) for operand in (*given, *invariants)]
    found = [Tensor(home.add(Scan(loop, k), operands), home) for k in range(len(outputs))]
    return (
        trees.unflatten(first.structure, found[: len(carried)]),
        trees.unflatten(made.structure, found[len(carried) :]),
    )


def _length(walked: Leaves, length: SizeLike | None) -> Size:
    """The common leading extent of what is walked."""
    size = None if length is None else as_shape(length)[0]
    where = "length"
    for tensor, label in zip(walked.tensors, walked.labels, strict=True):
        if not tensor.shape:
            raise ShapeError(f"{label}: scan walks over a first axis, received a scalar; close over it instead")
        if size is not None and tensor.shape[0] != size:
            raise ShapeError(f"{label} has {tensor.shape[0]} rows, {where} says {size}; expected equal first axes")
        size, where = tensor.shape[0], label
    if size is None:
        raise ShapeError("scan has nothing to walk over: pass xs with a first axis, or a length")
    return as_size(size)


def _stand_in(trace: Trace, shape: tuple[Size, ...], like: Tensor) -> Tensor:
    return Tensor(trace.input(Input(f"step{trace.size}", shape, like.dtype)), trace)


def _split(result: Any, first: Leaves) -> tuple[list[Any], Leaves]:
    """The next carry's leaves and the row's; GraphError where the result is no pair or the carry another tree."""
    if not isinstance(result, tuple) or len(result) != 2:
        received = f"{len(result)} values" if isinstance(result, tuple) else type(result).__name__
        raise GraphError(f"{_SAYS}; received {received}")
    carry, row = result
    leaves, structure = trees.flatten(carry)
    if structure != first.structure:
        labels = [".".join(("carry", *path)) for path in trees.paths(carry)]
        raise GraphError(
            f"{_SAYS}, as the tree it was given; expected the leaves {', '.join(first.labels) or 'none'}, "
            f"received {', '.join(labels) or 'none'}"
        )
    return leaves, Leaves.of(row, "y")


def _next(trace: Trace, before: Tensor, after: Any, label: str) -> Tensor:
    """The next value of a carry, of the shape and dtype it had."""
    tensor = as_tensor(leaf_tensor(after, label), trace)
    if tensor.weak:
        tensor = cast_to(tensor, before.dtype)
    if tensor.shape != before.shape:
        raise ShapeError(
            f"scan's body changes the shape of {label}: expected {show_shape(before.shape)}, "
            f"received {show_shape(tensor.shape)}; a carry keeps its shape, stack what grows as rows"
        )
    if tensor.dtype != before.dtype:
        raise DTypeError(
            f"scan's body changes the dtype of {label}: expected {before.dtype}, received {tensor.dtype}; "
            "cast the initial carry, or the next one with .astype"
        )
    return tensor
