"""The transpose of a view: each element of the source receives the sum over the coordinates that read it.

For pads it is a crop, for repeats and windows a sum, for a reshape a reshape, all by solving the index map (`inverse`).
A map that is not solved is a sum over all its coordinates of those that equal the position.
"""

from __future__ import annotations

from snell.autodiff.inverse import inverse
from snell.graph.node import Builder, Operand, full_view
from snell.graph.primitives import Iota, Mul, SumReduce
from snell.graph.value import Value
from snell.symbolic import Axis, Shape, View, as_expr, coordinates

__all__ = ["transposed"]


def transposed(builder: Builder, cotangent: Operand, view: View, source: Shape) -> Operand:
    """The cotangent of the source of `view`, from that of what the view shows."""
    cotangent, view = _without_repeats(builder, cotangent, view)
    if view.is_identity and view.shape == source:
        return cotangent
    solved = inverse(view, source)
    if solved is None:
        return _summed(builder, _chosen(builder, cotangent, view, source), len(source))
    return _summed(builder, Operand(cotangent.node, cotangent.view.then(solved.view)), len(source))


def _without_repeats(builder: Builder, cotangent: Operand, view: View) -> tuple[Operand, View]:
    """Axes along which the view repeats are summed first, where they lie: before zeros are put around the sums."""
    read = frozenset[Axis]().union(*(e.axes() for e in (*view.indices, *view.guards)))
    repeated = tuple(k for k, place in enumerate(coordinates(view.shape)) if place.axes() and not place.axes() & read)
    if not repeated:
        return cotangent, view
    kept = [k for k in range(len(view.shape)) if k not in repeated]
    shape = tuple(view.shape[k] for k in kept)
    places = {Axis(f"i{k}", view.shape[k]): place for k, place in zip(kept, coordinates(shape), strict=True)}
    indices, guards = ([e.substitute(places) for e in part] for part in (view.indices, view.guards))  # type: ignore[arg-type]  # an axis is an atom
    return full_view(builder.add(SumReduce(repeated), [cotangent])), View(shape, tuple(indices), tuple(guards))


def _summed(builder: Builder, operand: Operand, rank: int) -> Operand:
    axes = tuple(range(rank, len(operand.shape)))
    return full_view(builder.add(SumReduce(axes), [operand])) if axes else operand


def _chosen(builder: Builder, cotangent: Operand, view: View, source: Shape) -> Operand:
    """The cotangent over (position, coordinates), 0 where the coordinates read another position."""
    shape = (*source, *view.shape)
    places = coordinates(shape)
    beside = View(shape, places[len(source) :])
    guarded = View(view.shape, coordinates(view.shape), view.guards).then(beside)
    seen = Value(builder, Operand(cotangent.node, cotangent.view.then(guarded)))
    for read_at, place, size in zip(view.then(beside).indices, places, source, strict=False):
        ramp = builder.add(Iota(size))
        read, wanted = (Value(builder, Operand(ramp, View(shape, (as_expr(e),)))) for e in (read_at, place))
        same = (read < wanted).negated().apply(Mul(), (wanted < read).negated())
        seen = same.apply(Mul(), seen)
    return seen.seen
