"""Sums that select: recognised on the graph, before anything is stored.

Two kinds of sum only choose.  `c·a + (not c)·b` is a where c holds, else b.  `Σ_j [j == idx]·x[j]` is x[idx]: the mask
is an equality spelled with primitives, `not (a < b) and not (b < a)`, one side of which is the summed position itself;
the term builder (`rewrite.gather`) turns such a sum into an indexed load, so the mask must not be stored.

A sum that selects moves its value unchanged, the sign of a zero included, though 0 + (-0) is 0: generated code selects
or loads, and the interpreter joins the parts with `joined` and `joined_along`.
"""

from __future__ import annotations

import numpy as np

from snell.dtypes import bool_
from snell.graph.node import Node, Operand
from snell.graph.numeric import Array
from snell.graph.primitives import Add, Constant, Contiguous, Iota, LessThan, Mul
from snell.symbolic import Axis, View, coordinates

__all__ = ["absolute_of", "equates_position", "joined", "joined_along", "selects_either", "selects_one"]


def joined(a: Array, b: Array) -> Array:
    """a + b of floats one of which is +0 for "nothing": the other one, -0 included."""
    return -(-a + -b)


def joined_along(x: Array, axes: tuple[int, ...]) -> Array:
    """The sum over the axes of floats of which all but one are +0 for "nothing": that one, -0 included."""
    total: Array = x.sum(axis=axes)
    return np.where((total == 0) & np.signbit(x).any(axis=axes), -0.0, total)


def selects_either(node: Node) -> bool:
    """Whether the node is `c·a + (not c)·b`, other than |x|, of which generated code takes the sign away at 0 too."""
    if not isinstance(node.op, Add) or absolute_of(node) is not None:
        return False
    first, second = (_selecting(operand) for operand in node.operands)
    return any(_is_negation(c, d) or _is_negation(d, c) for c in first for d in second)


def absolute_of(node: Node) -> Operand | None:
    """x, in the node's coordinates, where the node is |x|: `(x < 0)·(-x) + (not (x < 0))·x`, operands in this order."""
    if not isinstance(node.op, Add):
        return None
    negated, kept = node.operands
    if not isinstance(negated.node.op, Mul) or not isinstance(kept.node.op, Mul):
        return None
    below, minus = (_seen(operand, negated) for operand in negated.node.operands)
    above, x = (_seen(operand, kept) for operand in kept.node.operands)
    is_x = _is_product(minus, x, -1) and _is_below_zero(below, x) and _is_negation(below, above)
    return x if is_x else None


def _is_product(operand: Operand, x: Operand, factor: int) -> bool:
    """Whether the operand is x times the factor, x seen alike."""
    if not isinstance(operand.node.op, Mul):
        return False
    first, second = operand.node.operands
    return _seen(first, operand) == x and _is_constant(second, factor)


def _is_below_zero(operand: Operand, x: Operand) -> bool:
    """Whether the operand is x < 0, x seen alike."""
    if not isinstance(operand.node.op, LessThan):
        return False
    first, second = operand.node.operands
    return _seen(first, operand) == x and _is_constant(second, 0)


def _selecting(operand: Operand) -> list[Operand]:
    """The bool factor of a product that selects, in the product's coordinates; empty where it is none."""
    node = operand.node
    if not isinstance(node.op, Mul) or node.dtype == bool_ or operand.view.guards:
        return []
    return [_seen(factor, operand) for factor in node.operands if factor.dtype == bool_]


def _is_negation(condition: Operand, other: Operand) -> bool:
    """Whether `other` is spelled `condition < true`."""
    if not isinstance(other.node.op, LessThan) or other.node.operands[0].dtype != bool_:
        return False
    negated, true = other.node.operands
    seen = _seen(negated, other)
    return _is_constant(true, 1) and seen.node is condition.node and seen.view == condition.view


def _is_constant(operand: Operand, value: int) -> bool:
    return isinstance(operand.node.op, Constant) and operand.node.op.value == value and not operand.view.guards


def selects_one(operand: Operand, bound: frozenset[Axis]) -> bool:
    """Whether a sum of `operand` over the `bound` coordinates keeps at most one position of one of them."""
    return any(_fixes(condition, bound) for condition in _conditions(operand))


def _conditions(operand: Operand) -> list[Operand]:
    """The bool factors of a product, in the sum's coordinates."""
    node = operand.node
    if node.dtype == bool_:
        return [operand]
    if isinstance(node.op, Contiguous):
        return _conditions(_seen(node.operands[0], operand))
    if not isinstance(node.op, Mul):
        return []
    return [c for factor in node.operands if factor.dtype == bool_ for c in _conditions(_seen(factor, operand))]


def _seen(inner: Operand, outer: Operand) -> Operand:
    return Operand(inner.node, inner.view.then(outer.view))


def equates_position(node: Node) -> bool:
    """Whether the node is (or contains) an equation of a position: a mask that is never worth storing."""
    places = frozenset[Axis]().union(*(place.axes() for place in coordinates(node.shape)))
    return node.dtype == bool_ and _equates(Operand(node, View.identity(node.shape)), places)


def _equates(condition: Operand, places: frozenset[Axis]) -> bool:
    if not isinstance(condition.node.op, Mul):
        return False
    if any(_is_position(side, places) for side in _equated(condition)):
        return True
    return any(_equates(_seen(operand, condition), places) for operand in condition.node.operands)


def _fixes(condition: Operand, bound: frozenset[Axis]) -> bool:
    """Whether the condition is (or contains) an equation between a summed position and something free of it."""
    node = condition.node
    if not isinstance(node.op, Mul):
        return False
    sides = _equated(condition)
    if not sides:
        return any(_fixes(_seen(operand, condition), bound) for operand in node.operands)
    return any(_is_position(a, bound) and not _depends(b, bound) for a, b in (sides, sides[::-1]))


def _equated(condition: Operand) -> tuple[Operand, ...]:
    """(x, y) of `not (x < y) and not (y < x)`; empty for anything else."""
    if not isinstance(condition.node.op, Mul):
        return ()
    a, b = (_negated_less(_seen(operand, condition)) for operand in condition.node.operands)
    is_equation = a is not None and b is not None and a[0].node is b[1].node and a[1].node is b[0].node
    return a if a is not None and is_equation else ()


def _negated_less(operand: Operand) -> tuple[Operand, Operand] | None:
    """(x, y) of `not (x < y)`, spelled `(x < y) < true`."""
    node = operand.node
    if not isinstance(node.op, LessThan) or node.operands[0].dtype != bool_:
        return None
    inner, true = node.operands
    if not (_is_constant(true, 1) and isinstance(inner.node.op, LessThan)):
        return None
    seen = _seen(inner, operand)
    x, y = (_seen(o, seen) for o in inner.node.operands)
    return x, y


def _is_position(operand: Operand, bound: frozenset[Axis]) -> bool:
    """An iota (through integer casts) read at a summed coordinate, up to sign and offset."""
    node: Node = operand.node
    while isinstance(node.op, Contiguous) and node.dtype.is_integer:
        operand = _seen(node.operands[0], operand)
        node = operand.node
    if not isinstance(node.op, Iota):
        return False
    (index,) = operand.view.indices
    return any(abs(index.coefficient(axis)) == 1 and index.is_affine_in(axis) for axis in index.axes() & bound)


def _depends(operand: Operand, bound: frozenset[Axis]) -> bool:
    return any(axis in bound for e in (*operand.view.indices, *operand.view.guards) for axis in e.axes())
