"""Reordering: a large operand is read in the order in which it lies in memory, and the result is brought into its own after.

A nest that reduces a large operand to a small result walks it best from one end to the other, with lanes and long runs
along its own axes.  Where the result has these axes in another order, computing each element where it goes would jump
through the operand (or scatter the sums of each pass); here the sums get a tensor in the operand's order, and one short
copy of that tensor makes the result.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from snell.loops.access import access_of
from snell.loops.grouping import Group
from snell.loops.own_kernel import has_own_kernel
from snell.loops.stage import Stage
from snell.loops.traffic import elements_used
from snell.rewrite.term import Tensor, Term, load
from snell.symbolic import Axis, as_expr
from snell.targets import Target

__all__ = ["reorder_results"]

_LARGER = 16.0  # times that the operand is larger than the result: the copy is then a few percent of reading it


def reorder_results(groups: Iterable[Group], target: Target, fixed: frozenset[Tensor] = frozenset()) -> list[Group]:
    """The groups, with a stage of its own for each result that is brought into order; `fixed` tensors stay as they are."""
    found: list[Group] = []
    for group in groups:
        stages = _reordered(group.stages[0], target) if len(group.stages) == 1 else None
        if stages is None or group.stages[0].tensor in fixed:
            found.append(group)
        else:
            found += [Group((stage,), ()) for stage in stages]
    return found


def _reordered(stage: Stage, target: Target) -> tuple[Stage, Stage] | None:
    """The stage with its result in the order of its large operand, and the copy into the result's own order."""
    if not stage.partials or not _is_dense(stage) or has_own_kernel(stage, target):
        return None
    operand = _large_operand(stage, target)
    if operand is None:
        return None
    access = access_of(operand)
    own = [axis for axis in stage.axes if axis in access.axes]
    order = (
        *(axis for axis in _result_order(stage) if axis not in own),
        *sorted(own, key=lambda axis: -abs(access.stride(axis) or 0.0)),
    )
    if order == _result_order(stage):
        return None
    tensor = Tensor(f"{stage.tensor.name}.reordered", tuple(axis.extent for axis in order), stage.tensor.dtype)
    places = tuple(as_expr(axis) for axis in order)
    copy = Stage(stage.tensor, stage.axes, stage.indices, (), (), load(tensor, places))
    return replace(stage, tensor=tensor, indices=places), copy


def _result_order(stage: Stage) -> tuple[Axis, ...]:
    """The axes of the result as they lie in memory, the outermost first."""
    return tuple(axis for index in stage.indices for axis in stage.axes if index == as_expr(axis))


def _is_dense(stage: Stage) -> bool:
    """Whether the stage stores all of its tensor, one axis a dimension."""
    order = _result_order(stage)
    whole = tuple(axis.extent for axis in order) == stage.tensor.shape
    return whole and set(order) == set(stage.axes) and stage.tensor.storage is None


def _large_operand(stage: Stage, target: Target) -> Term | None:
    """The largest operand, where it comes from memory in runs along data axes and is much larger than the result."""
    loads = [item for item in stage.loads() if None not in map(access_of(item).stride, access_of(item).axes)]
    if not loads:
        return None
    largest = max(loads, key=lambda item: elements_used(stage, item) * item.dtype.itemsize)
    size = elements_used(stage, largest) * largest.dtype.itemsize
    result = math.prod(stage.extent(axis) for axis in stage.axes) * stage.tensor.dtype.itemsize
    in_runs = any(access_of(largest).stride(axis) == 1.0 for axis in stage.axes)
    return largest if in_runs and size > target.l2_bytes and size >= _LARGER * result else None
