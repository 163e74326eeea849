"""Stages whose kernel has a form of its own: they join no group, and no rewrite of lone stages touches them."""

from __future__ import annotations

from snell.loops.nested import nested_sum
from snell.loops.scatter import scatter_of
from snell.loops.stage import Stage
from snell.targets import Target

__all__ = ["has_own_kernel"]


def has_own_kernel(stage: Stage, target: Target) -> bool:
    """Whether the stage is a nested sum or a scatter on the target."""
    if not stage.partials:
        return False
    return nested_sum(stage, target) is not None or scatter_of(stage, target) is not None
