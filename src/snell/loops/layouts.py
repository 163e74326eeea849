"""Layouts: a stored value lies in the order in which it is read.

A contraction's result has its axes in the order that the graph gave them; where everything that reads it walks them in
another one, as an optimizer walks the gradient of a weight, reading in that order would jump through memory, element by
element.  The nest that makes the value can store it in either order at the same cost.  Stages are looked at from the last
to the first, so that a chain of intermediate values follows the results at its end, which stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from snell.loops.stage import Stage, map_term
from snell.rewrite.term import Load, Tensor, Term, load
from snell.symbolic import Axis, Expr

__all__ = ["in_reading_order"]

_Order = tuple[int, ...]
"""Dimensions of a tensor, the one that lies outermost first."""


def in_reading_order(stages: Sequence[Stage], kept: Iterable[Tensor]) -> list[Stage]:
    """The stages, with the dimensions of each tensor in the order of those that read it, where all agree on one.

    `kept` tensors are read by others and stay as they are.
    """
    fixed = set(kept)
    readers: dict[Tensor, list[int]] = {}
    for place, stage in enumerate(stages):
        for tensor in stage.reads():
            readers.setdefault(tensor, []).append(place)
    found = list(stages)
    for place in reversed(range(len(found))):
        stage = found[place]
        reading = readers.get(stage.tensor, [])
        if stage.tensor in fixed or not reading or not _is_dense(stage):
            continue
        order = _common_order(stage.tensor, [found[k] for k in reading])
        if order is None:
            continue
        found[place] = _stored_in(stage, order)
        for k in reading:
            found[k] = _reading(found[k], stage.tensor, order)
    return found


def _common_order(tensor: Tensor, readers: Sequence[Stage]) -> _Order | None:
    """The order that all stages that prefer one prefer; None where that is the tensor's own, or one cannot tell."""
    wanted: set[_Order] = set()
    for stage in readers:
        for item in stage.loads():
            if isinstance(item.op, Load) and item.op.tensor == tensor:
                axes = _axes(item.op.indices)
                if axes is None or item.op.guards:
                    return None
                if _is_summed_alone(item, axes, stage):
                    continue
                order = None if stage.partials else _order_of(axes, stage)
                if order is None:
                    return None
                wanted.add(order)
    own = tuple(range(len(tensor.shape)))
    return wanted.pop() if len(wanted) == 1 and own not in wanted else None


def _is_summed_alone(item: Term, axes: tuple[Axis, ...], stage: Stage) -> bool:
    """Whether the stage reduces all of what it loads, in any order: nothing else moves along these axes."""
    reduced = set(stage.reduced)
    return set(axes) == reduced and all(other is item or not other.free & reduced for other in stage.loads())


def _order_of(axes: tuple[Axis, ...], stage: Stage) -> _Order | None:
    """The dimensions of a load in the order of the stage's own result."""
    own = _axes(stage.indices)
    if own is None or not set(axes) <= set(own):
        return None
    return tuple(sorted(range(len(axes)), key=lambda k: own.index(axes[k])))


def _axes(indices: Sequence[Expr]) -> tuple[Axis, ...] | None:
    """The axes that are the indices, all different; None where they are anything else."""
    axes = tuple(axis for index in indices if (axis := index.lone_axis()) is not None)
    return axes if len(set(axes)) == len(indices) else None


def _is_dense(stage: Stage) -> bool:
    """Whether the stage stores all of its tensor, one axis a dimension."""
    axes = _axes(stage.indices)
    return (
        axes is not None
        and set(axes) == set(stage.axes)
        and tuple(axis.extent for axis in axes) == stage.tensor.shape
        and stage.tensor.storage is None
    )


def _stored_in(stage: Stage, order: _Order) -> Stage:
    return replace(stage, tensor=_reordered(stage.tensor, order), indices=tuple(stage.indices[k] for k in order))


def _reading(stage: Stage, tensor: Tensor, order: _Order) -> Stage:
    """The stage with its loads of a tensor in another order of dimensions."""

    def moved(item: Term) -> Term | None:
        if isinstance(item.op, Load) and item.op.tensor == tensor:
            return load(_reordered(tensor, order), tuple(item.op.indices[k] for k in order), item.op.guards)
        return None

    partials = tuple(replace(p, body=map_term(p.body, moved)) for p in stage.partials)
    return replace(stage, partials=partials, value=map_term(stage.value, moved))


def _reordered(tensor: Tensor, order: _Order) -> Tensor:
    return replace(tensor, shape=tuple(tensor.shape[k] for k in order))
