"""Point the loads of a term (those inside opaque indices too) at other tensors of the same shape and dtype."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from snell.loops.ir import Tee
from snell.loops.stage import Stage, map_term
from snell.rewrite.term import Index, Load, Tensor, Term, index, load, term
from snell.symbolic import Expr, Opaque, as_expr

__all__ = ["retarget_stage", "retarget_term"]


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


def retarget_stage(stage: Stage, tensors: Mapping[Tensor, Tensor]) -> Stage:
    """The stage reading and storing the renamed tensors."""
    partials = tuple(replace(p, body=retarget_term(p.body, tensors)) for p in stage.partials)
    tensor = tensors.get(stage.tensor, stage.tensor)
    return replace(stage, tensor=tensor, partials=partials, value=retarget_term(stage.value, tensors))
