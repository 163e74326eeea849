"""The transpose of a view: each element of the source receives the sum over the coordinates that read it.

For pads it is a crop, for repeats and windows a sum, for a reshape a reshape, all by solving the index map (`inverse`).
A map that is not solved is a sum over all its coordinates of those that equal the position.
"""

from __future__ import annotations

from snell.autodiff.inverse import inverse
from snell.graph.node import Builder, Operand, full_view
from snell.graph.primitives import Iota, Mul, SumReduce
from snell.graph.value import Value
from snell.symbolic import Shape, View, coordinates

__all__ = ["transposed"]


def transposed(builder: Builder, cotangent: Operand, view: View, source: Shape) -> Operand:
    """The cotangent of the source of `view`, from that of what the view shows."""
    if view.is_identity and view.shape == source:
        return cotangent
    solved = inverse(view, source)
    if solved is None:
        return _summed(builder, _chosen(builder, cotangent, view, source), len(source))
    return _summed(builder, Operand(cotangent.node, cotangent.view.then(solved.view)), len(source))


def _summed(builder: Builder, operand: Operand, rank: int) -> Operand:
    axes = tuple(range(rank, len(operand.shape)))
    return full_view(builder.add(SumReduce(axes), [operand])) if axes else operand


def _chosen(builder: Builder, cotangent: Operand, view: View, source: Shape) -> Operand:
    """The cotangent over (position, coordinates), 0 where the coordinates read another position."""
    shape = (*source, *view.shape)
    places = coordinates(shape)
    beside = View(shape, places[len(source) :])
    seen = Value(
        builder,
        Operand(
            cotangent.node, cotangent.view.then(View(view.shape, coordinates(view.shape), view.guards)).then(beside)
        ),
    )
    for index, place, size in zip(view.then(beside).indices, places, source, strict=False):
        ramp = builder.add(Iota(size))
        read, wanted = (Value(builder, Operand(ramp, View(shape, (e,)))) for e in (index, place))
        same = (read < wanted).negated().apply(Mul(), (wanted < read).negated())
        seen = same.apply(Mul(), seen)
    return seen.seen
