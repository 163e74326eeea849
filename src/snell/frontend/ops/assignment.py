"""Assignment: `x[index] = value` makes x stand for a new value; nothing is written in place.

A tensor is immutable as a node of its program, so other names of it, views of it and what was computed from it keep the
old value, as after `x = where(mask, value, x)`.  The compiler writes in place where the old value is donated.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from snell.errors import UnsupportedError
from snell.frontend.ops.comparison import where
from snell.frontend.ops.creation import full_like
from snell.frontend.ops.elementwise import astype
from snell.frontend.ops.indexing import scatter
from snell.frontend.ops.movement import expand, flip, movedim, permute, reshape, unsqueeze, zero_pad
from snell.frontend.ops.subscript import Subscript, is_mask
from snell.frontend.promotion import as_tensor, lift
from snell.frontend.tensor import Tensor, TensorLike
from snell.symbolic import as_expr, as_size

__all__ = ["setitem"]


def setitem(x: Tensor, index: Any, value: TensorLike) -> None:
    """x[index] = value, which is cast to the dtype of x and broadcasts to the elements selected.

    The index may be slices and integers; integer arrays and known masks beside whole axes (of several values for one
    element the last wins); or a boolean mask over the leading axes whose value only the run time knows, where the value
    must broadcast to x itself.  Raises as reading x[index] does, UnsupportedError for arrays beside slices.
    """
    tensor, given = lift(x, value)
    given = astype(given, tensor.dtype)
    is_lone_mask = isinstance(index, Tensor | np.ndarray) and is_mask(index)
    if is_lone_mask and (given.ndim == 0 or (isinstance(index, Tensor) and index.trace.evaluator is None)):
        result = _masked(tensor, as_tensor(index), given)
    else:
        subscript = Subscript.of(tensor, index)
        result = (_scattered if subscript.arrays else _placed)(tensor, subscript, given)
    object.__setattr__(x, "operand", result.operand)
    object.__setattr__(x, "trace", result.trace)
    object.__setattr__(x, "weak", False)


def _masked(x: Tensor, mask: Tensor, value: Tensor) -> Tensor:
    below = list(range(mask.ndim, x.ndim))
    return where(unsqueeze(mask, below) if below else mask, expand(value, x.shape), x)


def _placed(x: Tensor, subscript: Subscript, value: Tensor) -> Tensor:
    """Slices: the value spread out to where its elements go, and selected there."""
    value = reshape(expand(value, subscript.shape), subscript.sizes)
    inside = full_like(value, True, "bool")
    for axis, (start, size, step) in enumerate(zip(subscript.starts, subscript.sizes, subscript.steps, strict=True)):
        first = as_expr(start) if step > 0 else as_expr(start) + (as_expr(size) - 1) * step
        value, inside = (_spread(part, axis, first, step, as_expr(x.shape[axis])) for part in (value, inside))
    return where(inside, value, x)


def _spread(value: Tensor, axis: int, first: Any, step: int, extent: Any) -> Tensor:
    """Elements at first, first + |step|, … of an axis, nothing between them."""
    value = flip(value, axis) if step < 0 else value
    width = as_expr(value.shape[axis])
    if abs(step) > 1:
        apart = zero_pad(unsqueeze(value, axis + 1), axis + 1, 0, abs(step) - 1)
        width = width * abs(step)
        value = reshape(apart, [*value.shape[:axis], as_size(width), *value.shape[axis + 1 :]])
    return zero_pad(value, axis, as_size(first), as_size(extent - first - width))


def _scattered(x: Tensor, subscript: Subscript, value: Tensor) -> Tensor:
    """Integer arrays: their axes become one, whose slices are replaced."""
    if not subscript.is_whole_beside_arrays(x):
        raise UnsupportedError("an assignment through integer arrays takes whole axes beside them, not slices or None")
    joint = subscript.joint(x)
    updates = movedim(expand(value, joint.shape), range(joint.start, joint.start + joint.rank), range(joint.rank))
    written = joint.guard(scatter(joint.merged, joint.positions, updates, mode="zero"))
    back = sorted(range(x.ndim), key=joint.order.__getitem__)
    return permute(reshape(written, [x.shape[k] for k in joint.order]), back)
