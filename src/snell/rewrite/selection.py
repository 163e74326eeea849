"""Sums that select: `Σ_j [j == idx]·x[j]` recognised on the graph, before anything is stored.

The mask is an equality spelled with primitives, `not (a < b) and not (b < a)`, one side of which is the summed position
itself; the term builder (`rewrite.gather`) turns such a sum into an indexed load, so the mask must not be stored.
"""

from __future__ import annotations

from snell.dtypes import bool_
from snell.graph.node import Node, Operand
from snell.graph.primitives import Constant, Contiguous, Iota, LessThan, Mul
from snell.symbolic import Axis

__all__ = ["selecting", "selects_one"]


def selects_one(operand: Operand, bound: frozenset[Axis]) -> bool:
    """Whether a sum of `operand` over the `bound` coordinates keeps at most one position of one of them."""
    return bool(selecting(operand, bound))


def selecting(operand: Operand, bound: frozenset[Axis]) -> tuple[Node, ...]:
    """The masks under a sum of `operand` that leave at most one position of a `bound` coordinate."""
    return tuple(condition.node for condition in _conditions(operand) if _fixes(condition, bound))


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


def _fixes(condition: Operand, bound: frozenset[Axis]) -> bool:
    """Whether the condition is (or contains) an equation between a summed position and something free of it."""
    node = condition.node
    if not isinstance(node.op, Mul):
        return False
    left, right = (_seen(operand, condition) for operand in node.operands)
    a, b = _negated_less(left), _negated_less(right)
    if a is None or b is None or a[0].node is not b[1].node or a[1].node is not b[0].node:
        return _fixes(left, bound) or _fixes(right, bound)
    return any(_is_position(side, bound) and not _depends(other, bound) for side, other in (a, (a[1], a[0])))


def _negated_less(operand: Operand) -> tuple[Operand, Operand] | None:
    """(x, y) of `not (x < y)`, spelled `(x < y) < true`."""
    node = operand.node
    if not isinstance(node.op, LessThan) or node.operands[0].dtype != bool_:
        return None
    inner, true = node.operands
    if not (isinstance(true.node.op, Constant) and true.node.op.value == 1 and isinstance(inner.node.op, LessThan)):
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
