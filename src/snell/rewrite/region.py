"""Regions up to names: equal ones are rewritten once.

Thirty equal layers differ only in the names of their tensors and axes.  `abstract` renames both in the order in which a
walk meets them, keeping structure, shapes, dtypes and whether a tensor is frozen.  Terms are interned, so two regions
are equal exactly when their abstract roots are the same terms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from snell.rewrite import term as t
from snell.rewrite.policy import Policy
from snell.rewrite.rewrite import Rewritten, rewrite_terms
from snell.rewrite.saturate import Budget
from snell.rewrite.term import Tensor, Term, term, walk
from snell.symbolic import Axis, Expr, Opaque, as_expr

__all__ = ["Abstract", "RegionCache", "abstract"]


@dataclass(frozen=True, slots=True)
class Abstract:
    """A region with its names taken out: the renamed roots, and what the new names stand for."""

    roots: tuple[Term, ...]
    axes: Mapping[Axis, Axis]
    tensors: Mapping[Tensor, Tensor]

    def concrete(self, roots: Sequence[Term]) -> tuple[Term, ...]:
        """Terms over the abstract names, over the original names again."""
        return _renamed(roots, self.axes, self.tensors)


class RegionCache:
    """Rewrites regions, each distinct one once.  One cache belongs to one compile."""

    def __init__(self, policy: Policy = Policy.DEFAULT, budget: Budget | None = None) -> None:
        self._policy = policy
        self._budget = budget
        self._known: dict[tuple[Term, ...], Rewritten] = {}
        self.hits = 0

    def rewrite(self, roots: Sequence[Term]) -> Rewritten:
        """As `rewrite_terms`; the report of a region seen before is the first one's."""
        region = abstract(roots)
        found = self._known.get(region.roots)
        if found is None:
            found = self._known[region.roots] = rewrite_terms(region.roots, self._policy, budget=self._budget)
        else:
            self.hits += 1
        return Rewritten(region.concrete(found.roots), found.report)


def abstract(roots: Sequence[Term]) -> Abstract:
    """The region with tensors named t0, t1, … and axes a0, a1, … in the order in which they occur."""
    axes: dict[Axis, Axis] = {}
    tensors: dict[Tensor, Tensor] = {}
    for item in walk(*roots):
        match item.op:
            case t.Load(tensor, indices, guards):
                tensors.setdefault(tensor, replace(tensor, name=f"t{len(tensors)}"))
                _meet(axes, (axis for e in (*indices, *guards) for axis in _ordered(e)))
            case t.Index(expression):
                _meet(axes, _ordered(expression))
            case t.Reduction(bound):
                _meet(axes, bound)
            case _:
                pass
    renamed = _renamed(roots, axes, tensors)
    return Abstract(renamed, {new: old for old, new in axes.items()}, {new: old for old, new in tensors.items()})


def _meet(axes: dict[Axis, Axis], met: Iterable[Axis]) -> None:
    for axis in met:
        axes.setdefault(axis, Axis(f"a{len(axes)}", axis.extent))


def _ordered(expression: Expr) -> list[Axis]:
    """The axes of an expression in an order that their names do not decide, as far as that goes."""
    return sorted(expression.axes(), key=lambda axis: (-abs(expression.coefficient(axis)), str(axis.extent), axis.name))


def _renamed(roots: Sequence[Term], axes: Mapping[Axis, Axis], tensors: Mapping[Tensor, Tensor]) -> tuple[Term, ...]:
    images: dict[Term, Term] = {}
    for item in walk(*roots):
        match item.op:
            case t.Load(tensor, indices, guards):
                places = tuple(_expression(e, axes, images) for e in indices)
                images[item] = t.load(tensors[tensor], places, tuple(_expression(e, axes, images) for e in guards))
            case t.Index(expression):
                images[item] = t.index(_expression(expression, axes, images))
            case t.Reduction(bound):
                op = type(item.op)(tuple(axes[axis] for axis in bound))
                images[item] = t.reduction(op, images[item.args[0]])
            case _:
                images[item] = term(item.op, tuple(images[arg] for arg in item.args), item.dtype)
    return tuple(images[root] for root in roots)


def _expression(expression: Expr, axes: Mapping[Axis, Axis], images: Mapping[Term, Term]) -> Expr:
    mapping: dict[Axis | Opaque, Expr] = {}
    for atom in expression.atoms():
        if isinstance(atom, Axis):
            mapping[atom] = as_expr(axes[atom])
        elif isinstance(atom, Opaque) and isinstance(atom.key, Term):
            mapping[atom] = as_expr(t.opaque(images[atom.key], atom.lower, atom.upper))
    return expression.substitute(mapping)  # pyright: ignore[reportArgumentType] - a Mapping is invariant in its keys
