"""Point the loads of a term (those inside opaque indices too) at other tensors of the same shape and dtype."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from snell.loops.ir import ReadAccumulator, Tee
from snell.loops.stage import Partial, Stage, map_term
from snell.rewrite.term import Index, Load, Tensor, Term, index, load, term
from snell.symbolic import Axis, Expr, Opaque, as_expr

__all__ = ["rebuilt_stage", "retarget_stage", "retarget_term"]


def retarget_term(root: Term, tensors: Mapping[Tensor, Tensor]) -> Term:
    """The same term over renamed tensors; tensors not in the mapping stay."""

    def expression(value: Expr) -> Expr:
        def atom(a: object) -> Expr | None:
            if isinstance(a, Opaque) and isinstance(a.key, Term):
                inner = retarget_term(a.key, tensors)
                return as_expr(Opaque(inner, a.lower, a.upper, inner.free))
            return None

        return value.map_atoms(atom)

    def moved_term(item: Term) -> Term | None:
        match item.op:
            case Load(tensor, indices, guards):
                moved = tuple(map(expression, indices)), tuple(map(expression, guards))
                return load(tensors.get(tensor, tensor), *moved)
            case Index(value):
                return index(expression(value))
            case Tee(tensor, indices):
                inner = retarget_term(item.args[0], tensors)
                return term(Tee(tensors.get(tensor, tensor), indices), (inner,), item.dtype)
            case _:
                return None

    return map_term(root, moved_term)


def rebuilt_stage(stage: Stage, axes: Mapping[Axis, Axis], tensors: Mapping[Tensor, Tensor]) -> Stage:
    """The stage over other axes and tensors, renamed in one pass."""
    data = tuple(axes.get(axis, axis) for axis in stage.axes)
    swaps = {p.accumulator: dataclasses.replace(p.accumulator, axes=data) for p in stage.partials}
    memo: dict[Term, Term] = {}
    places: dict[Axis, Expr] = {old: as_expr(new) for old, new in axes.items()}

    def expression(value: Expr) -> Expr:
        def atom(a: object) -> Expr | None:
            if isinstance(a, Axis):
                return places.get(a)
            if isinstance(a, Opaque) and isinstance(a.key, Term):
                inner = moved(a.key)
                return as_expr(Opaque(inner, a.lower, a.upper, inner.free))
            return None

        return value.map_atoms(atom)

    def moved(item: Term) -> Term:
        found = memo.get(item)
        if found is None:
            found = memo[item] = image(item)
        return found

    def image(item: Term) -> Term:
        match item.op:
            case Load(tensor, indices, guards):
                at = tuple(map(expression, indices)), tuple(map(expression, guards))
                return load(tensors.get(tensor, tensor), *at)
            case Index(value):
                return index(expression(value))
            case ReadAccumulator(accumulator):
                return term(ReadAccumulator(swaps[accumulator]), (), item.dtype)
            case _:
                args = tuple(moved(arg) for arg in item.args)
                return item if args == item.args else term(item.op, args, item.dtype)

    return Stage(
        tensors.get(stage.tensor, stage.tensor),
        data,
        tuple(map(expression, stage.indices)),
        tuple(axes.get(axis, axis) for axis in stage.reduced),
        tuple(Partial(swaps[p.accumulator], moved(p.body)) for p in stage.partials),
        moved(stage.value),
        tuple((axes.get(axis, axis), size) for axis, size in stage.ranges),
        frozenset(tensors.get(tensor, tensor) for tensor in stage.inside),
    )


def retarget_stage(stage: Stage, tensors: Mapping[Tensor, Tensor]) -> Stage:
    """The stage reading and storing the renamed tensors."""
    partials = tuple(dataclasses.replace(p, body=retarget_term(p.body, tensors)) for p in stage.partials)
    tensor = tensors.get(stage.tensor, stage.tensor)
    return dataclasses.replace(stage, tensor=tensor, partials=partials, value=retarget_term(stage.value, tensors))
