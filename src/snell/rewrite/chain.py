"""A chain of definitions as one term a result: values stored on the way are put back where they are read.

    m[i] = Max{j} s[i, j]                                  r[i] = Sum{j} Exp2(s[i, j] - Max{j'} s[i, j'])
    r[i] = Sum{j} Exp2(s[i, j] - m[i])            →

Bound axes get their canonical names afterwards, so that equal reductions of the chain are one term.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from snell.rewrite.arithmetic import select
from snell.rewrite.canonical import canonical
from snell.rewrite.definition import Definition
from snell.rewrite.gather import conjunction, holds
from snell.rewrite.substitution import rebuilt, substitute
from snell.rewrite.term import Load, Tensor, Term, walk
from snell.symbolic import Axis, Expr, as_expr

__all__ = ["inlined", "positions_of"]


def inlined(chain: Sequence[Definition], wanted: Iterable[Tensor]) -> tuple[Definition, ...] | None:
    """The `wanted` definitions of a chain (producers first) over what the chain itself does not define.

    None where a value is read at a place that its definition cannot be solved for.
    """
    kept = set(wanted)
    values: dict[Tensor, Definition] = {}
    for definition in chain:
        value = _inlined(definition.value, values)
        if value is None:
            return None
        values[definition.tensor] = replace(definition, value=value)
    return tuple(replace(d, value=canonical(d.value)) for d in values.values() if d.tensor in kept)


def _inlined(root: Term, values: Mapping[Tensor, Definition]) -> Term | None:
    images: dict[Term, Term] = {}
    for item in walk(root):
        image = rebuilt(item, images, {})
        if isinstance(image.op, Load) and image.op.tensor in values:
            definition = values[image.op.tensor]
            places = positions_of(definition, image.op.indices)
            if places is None:
                return None
            value = substitute(definition.value, places, image.op.guards)
            image = (
                select(conjunction([holds(guard) for guard in image.op.guards]), value) if image.op.guards else value
            )
        images[item] = image
    return images[root]


def positions_of(definition: Definition, places: Sequence[Expr]) -> dict[Axis, Expr] | None:
    """The definition's axes at which it stores the element `places`; None where they are not found."""
    found: dict[Axis, Expr] = {}
    for written, read in zip(definition.indices, places, strict=True):
        if not written.axes():
            continue
        solved = {written_axis(written): read} if written_axis(written) in written.axes() else _matched(written, read)
        if not solved:
            return None
        found.update({axis: place for axis, place in solved.items() if axis is not None})
    return found if set(found) >= {axis for axis in definition.axes if axis.extent != 1} else None


def written_axis(expression: Expr) -> Axis | None:
    """The axis that the expression is, None where it is anything else."""
    lone = next(iter(expression.axes()), None)
    return lone if lone is not None and expression == as_expr(lone) else None


def _matched(written: Expr, read: Expr) -> dict[Axis | None, Expr]:
    """Positions of a sum `3*a + b` in another sum with the same coefficients and extents."""
    if written.constant != read.constant or len(written.terms) != len(read.terms):
        return {}
    by_coefficient = {c: m[0] for m, c in read.terms if len(m) == 1}
    pairs: dict[Axis | None, Expr] = {}
    for monomial, coefficient in written.terms:
        own, other = monomial[0], by_coefficient.get(coefficient)
        if len(monomial) != 1 or not isinstance(own, Axis) or not isinstance(other, Axis) or own.extent != other.extent:
            return {}
        pairs[own] = as_expr(other)
    return pairs if len({c for _, c in written.terms}) == len(pairs) else {}
