"""Sums in their own dtype: a long reduction whose result is narrower than its accumulator gets a tensor for the sums.

A pass over a long reduction leaves its sums in the result.  A 16-bit result cannot hold them, so they are stored as they
are added up, and a second stage works out the result from them: two short trips to memory for a reduction in passes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from snell.loops.grouping import Group
from snell.loops.ir import Combine, ReadAccumulator, read
from snell.loops.own_kernel import has_own_kernel
from snell.loops.schedule import schedule_stage
from snell.loops.stage import Stage, map_term
from snell.loops.traffic import PASS_LENGTH
from snell.rewrite.term import Tensor, Term, load
from snell.symbolic import as_expr, as_size
from snell.targets import Target

__all__ = ["store_sums"]

_LONG = 2 * PASS_LENGTH  # terms from which passes are worth the trips


def store_sums(groups: Iterable[Group], target: Target, fixed: frozenset[Tensor] = frozenset()) -> list[Group]:
    """The groups, with two stages for each long sum that its result cannot hold; `fixed` tensors are made as they are."""
    found: list[Group] = []
    for group in groups:
        stages = _stored(group.stages[0], target) if len(group.stages) == 1 else None
        if stages is None or group.stages[0].tensor in fixed:
            found.append(group)
        else:
            found += [Group((stage,), ()) for stage in stages]
    return found


def _stored(stage: Stage, target: Target) -> tuple[Stage, Stage] | None:
    """The stage that adds up, and the one that makes the result; None where one does for both."""
    if stage.holds_sums or len(stage.partials) != 1 or has_own_kernel(stage, target):
        return None
    accumulator = stage.partials[0].accumulator
    length = math.prod(stage.extent(axis) for axis in stage.reduced)
    if accumulator.combine is not Combine.SUM or length < _LONG:
        return None
    shape = tuple(as_size(axis.extent) for axis in stage.axes)
    sums = Tensor(f"{stage.tensor.name}.sums", shape, accumulator.dtype)
    places = tuple(as_expr(axis) for axis in stage.axes)

    def stored(item: Term) -> Term | None:
        return load(sums, places) if isinstance(item.op, ReadAccumulator) else None

    first = replace(stage, tensor=sums, indices=places, value=read(accumulator))
    if not schedule_stage(first, target).passes:
        return None
    return first, replace(stage, reduced=(), partials=(), value=map_term(stage.value, stored))
