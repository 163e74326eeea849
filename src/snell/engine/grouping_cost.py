"""The roofline cost of a lowered program (Williams, Waterman and Patterson 2009), to rank groupings before one is timed.

Each kernel takes as long as its operations or its bytes do, whichever takes longer, and each dispatch a little more.
"""

from __future__ import annotations

from collections.abc import Mapping

from snell.compiler.lowered import Lowered, RepeatStep
from snell.engine.report.costs import group_cost, plane_bytes
from snell.symbolic import Dim
from snell.targets import Target

__all__ = ["roofline_seconds"]

_CLOCK = 3e9
_OPERATIONS = 2.0  # a lane and cycle: half of what two fused multiply-adds are
_BYTES = 15e9  # a second and thread, between what memory and what the caches give
_DISPATCH = 2e-6


def roofline_seconds(lowered: Lowered, target: Target, threads: int, sizes: Mapping[Dim, int]) -> float:
    """Estimated seconds of one run at these sizes."""
    rate = target.vector_bits / 32 * _OPERATIONS * _CLOCK * threads
    planes = plane_bytes(lowered.graph)
    total = 0.0
    for group in lowered.groups:
        cost = group_cost(group, sizes, planes)
        total += max(cost.flops / rate, cost.bytes / (_BYTES * threads))
    for step in lowered.steps:
        if isinstance(step, RepeatStep):
            total += float(step.length.evaluate(sizes)) * roofline_seconds(step.body, target, threads, sizes)
        else:
            total += _DISPATCH
    return total
