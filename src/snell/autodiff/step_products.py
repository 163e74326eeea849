"""What a loop that walks back would add up over its steps, a product each, as one product over all steps.

    Σ_t Σ_b u_t[b, i] · v_t[b, j]   =   Σ_{t, b} u[t, b, i] · v[t, b, j]

A weight that every step reads has such a cotangent.  Added up step by step it is read and written in each of them; one
product afterwards needs the rows u and v, which are smaller, and are often there already.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from snell.graph.node import Builder, Node, Operand, full_view
from snell.graph.primitives import Add, Mul, SumReduce
from snell.symbolic import Axis, Size, View, coordinates

__all__ = ["Known", "StepProduct", "split_products"]


@dataclass(frozen=True, slots=True)
class Known:
    """A value of the body outside of the loop: one row for each step, or the same in all of them."""

    operand: Operand
    each_step: bool


@dataclass(frozen=True, slots=True)
class StepProduct:
    """A sum of products in the body of a loop: two factors in the coordinates of the products, the summed axes, and how
    the sum is seen."""

    factors: tuple[Operand, Operand]
    axes: tuple[int, ...]
    view: View

    def over_all_steps(self, builder: Builder, length: Size, outside: Callable[[Node], Known]) -> Operand:
        """The sum over the steps too; `outside` gives what a node of the body is outside of the loop."""
        shape = (length, *self.factors[0].shape)
        seen = [self._seen(factor, shape, outside(factor.node)) for factor in self.factors]
        product = builder.add(Mul(), seen)
        summed = builder.add(SumReduce((0, *(axis + 1 for axis in self.axes))), [full_view(product)])
        return Operand(summed, self.view)

    def _seen(self, factor: Operand, shape: tuple[Size, ...], known: Known) -> Operand:
        step, *places = coordinates(shape)
        view = factor.view.then(View(shape, tuple(places)))
        if known.each_step:
            view = View(shape, (step, *view.indices), view.guards)
        return Operand(known.operand.node, known.operand.view.then(view))


def split_products(cotangent: Operand) -> tuple[list[StepProduct], list[Operand]]:
    """The terms of a cotangent: sums of products of something smaller, and whatever else is added to them.

    Any view of a sum is the sum of the views.
    """
    node = cotangent.node
    if isinstance(node.op, Add):
        seen = [Operand(operand.node, operand.view.then(cotangent.view)) for operand in node.operands]
        parts = [split_products(operand) for operand in seen]
        products = [product for found, _ in parts for product in found]
        return (products, [rest for _, others in parts for rest in others]) if products else ([], [cotangent])
    product = _product(node, cotangent.view)
    return ([], [cotangent]) if product is None else ([product], [])


def _product(node: Node, view: View) -> StepProduct | None:
    """An outer product summed over more: each factor lacks an axis of the result, so it is smaller."""
    if not isinstance(node.op, SumReduce):
        return None
    (operand,) = node.operands
    if not isinstance(operand.node.op, Mul):
        return None
    first, second = (Operand(o.node, o.view.then(operand.view)) for o in operand.node.operands)
    kept = frozenset[Axis]().union(
        *(place.axes() for k, place in enumerate(coordinates(operand.shape)) if k not in node.op.axes)
    )
    if any(kept <= _axes(factor) for factor in (first, second)):
        return None
    return StepProduct((first, second), node.op.axes, view)


def _axes(operand: Operand) -> frozenset[Axis]:
    return frozenset[Axis]().union(*(e.axes() for e in (*operand.view.indices, *operand.view.guards)))
