"""Stages and terms over other axes and tensors: one pass renames loads, index values and accumulators together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from snell.loops.ir import Accumulator, ReadAccumulator
from snell.loops.stage import Partial, Stage
from snell.rewrite.term import Index, Load, Tensor, Term, index, load, term
from snell.symbolic import Axis, Expr, Opaque, as_expr

__all__ = ["Parts", "rebuilt_stage", "retarget_stage", "retarget_term", "split_stage"]

Parts = tuple[tuple[Axis, ...], Expr]
"""The axes that an axis becomes, and the axis as an expression of them."""


def retarget_term(root: Term, tensors: Mapping[Tensor, Tensor]) -> Term:
    """The same term over renamed tensors; tensors not in the mapping stay."""
    return _Rebuild({}, tensors, {}).term(root)


def retarget_stage(stage: Stage, tensors: Mapping[Tensor, Tensor]) -> Stage:
    """The stage reading and storing the renamed tensors."""
    return split_stage(stage, {}, tensors)


def rebuilt_stage(stage: Stage, axes: Mapping[Axis, Axis], tensors: Mapping[Tensor, Tensor] | None = None) -> Stage:
    """The stage over other axes of the same extents, and over other tensors."""
    return split_stage(stage, {old: ((new,), as_expr(new)) for old, new in axes.items()}, tensors or {})


def split_stage(stage: Stage, parts: Mapping[Axis, Parts], tensors: Mapping[Tensor, Tensor] | None = None) -> Stage:
    """The stage with axes replaced, each by one or several (`i` by `a, b` where `i = 3*a + b`)."""
    renamed = tensors or {}

    def replaced(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return tuple(part for axis in axes for part in (parts[axis][0] if axis in parts else (axis,)))

    data = replaced(stage.axes)
    swaps = {p.accumulator: replace(p.accumulator, axes=data) for p in stage.partials}
    rebuild = _Rebuild({axis: place for axis, (_, place) in parts.items()}, renamed, swaps)
    return Stage(
        renamed.get(stage.tensor, stage.tensor),
        data,
        tuple(map(rebuild.expression, stage.indices)),
        replaced(stage.reduced),
        tuple(Partial(swaps[p.accumulator], rebuild.term(p.body)) for p in stage.partials),
        rebuild.term(stage.value),
        tuple((axis, size) for old, size in stage.ranges for axis in replaced((old,))),
        frozenset(renamed.get(tensor, tensor) for tensor in stage.inside),
    )


class _Rebuild:
    """Terms with axes, tensors and accumulators replaced, those inside loaded indices too; each term once."""

    def __init__(
        self,
        axes: Mapping[Axis, Expr],
        tensors: Mapping[Tensor, Tensor],
        accumulators: Mapping[Accumulator, Accumulator],
    ) -> None:
        self._axes, self._tensors, self._accumulators = axes, tensors, accumulators
        self._images: dict[Term, Term] = {}

    def term(self, item: Term) -> Term:
        """The image of a term."""
        found = self._images.get(item)
        if found is None:
            found = self._images[item] = self._image(item)
        return found

    def expression(self, value: Expr) -> Expr:
        """The image of an index expression."""
        return value.map_atoms(self._atom)

    def _atom(self, atom: object) -> Expr | None:
        if isinstance(atom, Axis):
            return self._axes.get(atom)
        if isinstance(atom, Opaque) and isinstance(atom.key, Term):
            inner = self.term(atom.key)
            return as_expr(Opaque(inner, atom.lower, atom.upper, inner.free))
        return None

    def _image(self, item: Term) -> Term:
        match item.op:
            case Load(tensor, indices, guards):
                places, held = tuple(map(self.expression, indices)), tuple(map(self.expression, guards))
                return load(self._tensors.get(tensor, tensor), places, held)
            case Index(value):
                return index(self.expression(value))
            case ReadAccumulator(accumulator):
                return term(ReadAccumulator(self._accumulators.get(accumulator, accumulator)), (), item.dtype)
            case _:
                args = tuple(map(self.term, item.args))
                return item if args == item.args else term(item.op, args, item.dtype)
