"""The cost of a node in an extraction: operations times the points where they run, plus repeated passes over memory.

The unit is one addition.  Sizes of run-time extents are taken at their typical values.  A reduction whose body needs a
finished reduction over the same axes is one more pass over its operands and pays for it, which a plain sum over nodes
does not see.
"""

from __future__ import annotations

import math

from snell.rewrite.classes import Classes, Node
from snell.rewrite.language import EXP, Encoding
from snell.symbolic import Axis, as_expr

__all__ = ["PASS", "WEIGHTS", "Costs", "typical_extent"]

PASS = 24.0
TINY = 4_096  # elements up to which a constant subtree costs nothing
_INTEGER = 0.5  # integer lanes are twice as many
_LEAST = 1e-3  # every node costs something, so no cycle is ever free

WEIGHTS = {
    "Atom": 1.0, "Number": 0.0, "Scale": 1.0, "Cast": 1.0, "Unary": 8.0, "Recip": 6.0, "Not": 0.5, "Sum": 1.0,
    "Max": 1.0, "Add": 1.0, "Mul": 1.0, "Subtract": 1.0, "Divide": 6.0, "LessThan": 1.0, "Equal": 1.0, "And": 0.5,
    "Maximum": 1.0, "Select": 0.7, "Binary": 4.0, "SelectElse": 0.7,
}  # fmt: skip
_EXP_WEIGHT = 7.9  # the accurate exp wins a tie against exp2 of a scaled argument


def typical_extent(axis: Axis) -> float:
    """The extent with each dim at its last typical value; without one, its maximum but at most 128."""
    extent = as_expr(axis.extent)
    sizes = {dim: dim.typical[-1] if dim.typical else max(dim.min, min(dim.max, 128)) for dim in extent.dims()}
    return float(extent.evaluate(sizes))


class Costs:
    """Costs of the nodes of one region."""

    def __init__(self, classes: Classes, encoding: Encoding) -> None:
        self._classes = classes
        self._extents = [max(1.0, typical_extent(axis)) for axis in encoding.axes]
        self._volumes: dict[frozenset[int], float] = {}

    def volume(self, axes: frozenset[int]) -> float:
        """Points of an iteration over the axes."""
        found = self._volumes.get(axes)
        if found is None:
            found = self._volumes[axes] = math.prod(self._extents[axis] for axis in axes)
        return found

    def of(self, number: int, node: Node, passes: int) -> float:
        """Cost of computing a class by this node, after `passes` earlier passes over the axes it reduces."""
        points = self.volume(self._classes.free[number] | node.axes)
        if number in self._classes.constant and points <= TINY:
            return _LEAST
        weight = _EXP_WEIGHT if node.name == "Unary" and node.payload[0] == EXP else WEIGHTS[node.name]
        if node.name not in ("Atom", "Cast") and self._classes.dtype[number].is_integer:
            weight *= _INTEGER
        return _LEAST + weight * points + PASS * points * passes
