"""Tensor lanes of a nest: which reduced axis an instruction of the target takes in groups, and what it multiplies.

The match is on what an update does, a sum of products of two converted values whose dtypes a row of the target has;
nothing depends on the shape of the nest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from snell.loops.access import access_of
from snell.loops.ir import Combine, converted_factors
from snell.loops.stage import Stage
from snell.rewrite.term import Load, Term
from snell.symbolic import Axis
from snell.targets import Target

__all__ = ["TensorAxis", "tensor_axis"]


@dataclass(frozen=True, slots=True)
class TensorAxis:
    """`group` positions of `axis` go into one instruction of `lanes` sums, which multiplies the `factors`."""

    axis: Axis
    group: int
    lanes: int
    factors: tuple[Term, ...]

    def step(self, axis: Axis, size: int) -> int:
        """A step of a level, for this axis in whole groups."""
        return size if axis != self.axis else math.ceil(size / self.group) * self.group

    def is_word(self, item: Term) -> bool:
        """Whether a group of the factor's elements lies in memory side by side."""
        return isinstance(item.op, Load) and access_of(item).stride(self.axis) == 1.0


def tensor_axis(stage: Stage, target: Target) -> TensorAxis | None:
    """The axis that the target's instruction would take in groups; None where the nest has no such products.

    An axis along which more factors lie in words is better, then a longer one.
    """
    found = [converted_factors(partial.body) for partial in stage.partials]
    if len(found) != 1 or found[0] is None or stage.partials[0].accumulator.combine is not Combine.SUM:
        return None
    left, right = found[0]
    dtype = stage.partials[0].accumulator.dtype
    for row in target.products:
        if dtype == row.accumulator and {(left.dtype, right.dtype), (right.dtype, left.dtype)} & {
            (row.left, row.right)
        }:
            axes = [axis for axis in stage.reduced if stage.extent(axis) >= row.group]
            candidates = [TensorAxis(axis, row.group, row.lanes, (left, right)) for axis in axes]
            return max(candidates, key=lambda t: _goodness(stage, t), default=None)
    return None


def _goodness(stage: Stage, tensor: TensorAxis) -> tuple[int, float]:
    words = sum(tensor.is_word(item) for item in tensor.factors)
    return words, stage.extent(tensor.axis)
