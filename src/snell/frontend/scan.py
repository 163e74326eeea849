"""scan: structured repetition.  The body is traced once, compiled once, and runs once a row.

    carry, ys = scan(body, carry, xs)        body(carry, x) -> (carry, y)

The body is traced in a trace of its own, inside the caller's (`frontend.context`).  What it computes from neither carry
nor row is computed once, outside (`frontend.body`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from snell import trees
from snell.errors import DTypeError, GraphError, ShapeError
from snell.frontend.body import extracted
from snell.frontend.context import Trace, common_trace
from snell.frontend.promotion import as_tensor, cast_to
from snell.frontend.shapes import SizeLike, as_shape
from snell.frontend.tensor import Tensor
from snell.graph.node import Operand
from snell.graph.primitives import Contiguous, Input, Source
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
    first = _Leaves.of(carry, "carry")
    walked = _Leaves.of(xs, "xs")
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
    operands = [_stored(operand, home) for operand in (*given, *invariants)]
    found = [Tensor(home.add(Scan(loop, k), operands), home) for k in range(len(outputs))]
    return (
        trees.unflatten(first.structure, found[: len(carried)]),
        trees.unflatten(made.structure, found[len(carried) :]),
    )


@dataclass(frozen=True, slots=True)
class _Leaves:
    """The tensors of a tree, each with a name for messages, and what puts them back."""

    tensors: tuple[Tensor, ...]
    labels: tuple[str, ...]
    structure: trees.Structure

    @staticmethod
    def of(tree: Any, name: str) -> _Leaves:
        leaves, structure = trees.flatten(tree)
        labels = tuple(".".join((name, *path)) for path in trees.paths(tree))
        return _Leaves(tuple(_tensor(*pair) for pair in zip(leaves, labels, strict=True)), labels, structure)


def _tensor(leaf: Any, label: str) -> Tensor:
    if isinstance(leaf, str | bytes) or callable(leaf):
        raise GraphError(f"{label}: expected a tensor, an array or a number, received {type(leaf).__name__}")
    tensor = as_tensor(leaf if isinstance(leaf, Tensor | bool | int | float) else np.asarray(leaf))
    if tensor.dtype.is_packed:
        raise DTypeError(f"{label}: {tensor.dtype} has no rows in memory; cast it with .astype first")
    return tensor


def _length(walked: _Leaves, length: SizeLike | None) -> Size:
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


def _split(result: Any, first: _Leaves) -> tuple[list[Any], _Leaves]:
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
    return leaves, _Leaves.of(row, "y")


def _next(trace: Trace, before: Tensor, after: Any, label: str) -> Tensor:
    """The next value of a carry, of the shape and dtype it had."""
    tensor = as_tensor(_tensor(after, label), trace)
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


def _stored(operand: Operand, trace: Trace) -> Operand:
    """The operand as a whole node with memory of its own, as a scan reads it."""
    op = operand.node.op
    is_plain = isinstance(op, Input) if isinstance(op, Source) else True
    dense = not isinstance(op, Input) or op.storage is None
    return operand if operand.is_whole and is_plain and dense else trace.add(Contiguous(operand.dtype), [operand])
