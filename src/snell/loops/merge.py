"""Merging: neighbouring axes that every access of a stage walks as one become one axis.

`y[a, b] = x[a, b, k]·w[k]` over contiguous `a, b` is a nest over one axis of `a·b` positions: longer runs for the lanes, fewer
loops, and register tiles that do not end at every row.  The tensors take the shape that has the two dimensions as one; it
is the same memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from snell.loops.retarget import retarget_stage
from snell.loops.stage import Partial, Stage, map_term
from snell.rewrite.term import Index, Load, Tensor, Term, load, walk
from snell.symbolic import Axis, Expr, as_expr, as_size

__all__ = ["merge_axes"]

_Dimensions = dict[Tensor, int]
"""Where the first of two merged dimensions stands in each tensor that has them."""


def merge_axes(stage: Stage) -> tuple[Stage, dict[Tensor, Tensor]]:
    """The stage over as few axes as its accesses allow, and the tensors it now reads or writes → what they were."""
    origin: dict[Tensor, Tensor] = {}
    while True:
        found = next(_mergeable(stage), None)
        if found is None:
            return stage, origin
        stage = _merged(stage, *found, origin)


def _mergeable(stage: Stage) -> Iterator[tuple[Axis, Axis, _Dimensions]]:
    """Pairs (outer, inner) of data axes or of reduced ones that stand side by side wherever they are used."""
    places = list(_places(stage))
    for axes in (stage.axes, stage.reduced):
        for outer in axes:
            for inner in axes:
                if outer != inner:
                    dimensions = _side_by_side(stage, places, outer, inner)
                    if dimensions:
                        yield outer, inner, dimensions


def _places(stage: Stage) -> Iterator[tuple[Tensor, tuple[Expr, ...], tuple[Expr, ...]]]:
    yield stage.tensor, stage.indices, ()
    for item in stage.loads():
        assert isinstance(item.op, Load)
        yield item.op.tensor, item.op.indices, item.op.guards


def _side_by_side(
    stage: Stage, places: list[tuple[Tensor, tuple[Expr, ...], tuple[Expr, ...]]], outer: Axis, inner: Axis
) -> _Dimensions:
    """The dimensions that merge, empty where some use of the axes does not allow it."""
    pair = {outer, inner}
    for item in walk(*stage.terms()):
        if isinstance(item.op, Index) and item.op.expression.axes() & pair:
            return {}
    found: _Dimensions = {}
    other: set[Tensor] = set()
    for tensor, indices, guards in places:
        if any(expression.axes() & pair for expression in guards):
            return {}
        used = [k for k, index in enumerate(indices) if index.axes() & pair]
        if not used:
            other.add(tensor)
            continue
        first = used[0]
        exact = used == [first, first + 1] and indices[first : first + 2] == (as_expr(outer), as_expr(inner))
        whole = exact and tensor.shape[first : first + 2] == (outer.extent, inner.extent)
        if not whole or tensor.storage is not None or found.get(tensor, first) != first:
            return {}
        found[tensor] = first
    return {} if other & set(found) else found


def _merged(stage: Stage, outer: Axis, inner: Axis, dimensions: _Dimensions, origin: dict[Tensor, Tensor]) -> Stage:
    axis = Axis(f"{outer.name}_{inner.name}", as_size(as_expr(outer.extent) * inner.extent))
    renamed = {tensor: _joined(tensor, first) for tensor, first in dimensions.items()}
    for old, new in renamed.items():
        origin[new] = origin.pop(old, old)

    def indices(tensor: Tensor, places: tuple[Expr, ...]) -> tuple[Expr, ...]:
        first = dimensions.get(tensor)
        return places if first is None else (*places[:first], as_expr(axis), *places[first + 2 :])

    def moved(item: Term) -> Term | None:
        if isinstance(item.op, Load) and item.op.tensor in dimensions:
            return load(item.op.tensor, indices(item.op.tensor, item.op.indices), item.op.guards)
        return None

    def axes(old: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return tuple(axis if known == outer else known for known in old if known != inner)

    data = axes(stage.axes)
    moved_stage = replace(
        stage,
        axes=data,
        indices=indices(stage.tensor, stage.indices),
        reduced=axes(stage.reduced),
        partials=tuple(Partial(p.accumulator, map_term(p.body, moved)) for p in stage.partials),
        value=map_term(stage.value, moved),
    )
    return retarget_stage(moved_stage, renamed)


def _joined(tensor: Tensor, first: int) -> Tensor:
    size = as_size(as_expr(tensor.shape[first]) * tensor.shape[first + 1])
    return replace(tensor, shape=(*tensor.shape[:first], size, *tensor.shape[first + 2 :]))
