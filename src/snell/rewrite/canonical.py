"""Canonical names for bound axes, so that equal reductions are one term.

The body of a reduction is named before the reduction itself.  An axis becomes `r<extent>_<k>`, with the least k that is
neither free in the reduction nor bound where the axis is used.  Axes of one reduction are taken in the order in which a
name-blind walk of the body meets them.  Directly nested reductions of one kind are merged into one over both axis sets.
"""

from __future__ import annotations

import hashlib
import re

from snell.graph.primitives import Add, Mul
from snell.rewrite.substitution import rebuilt, substitute
from snell.rewrite.term import And, Equal, Index, Load, Maximum, Reduction, Term, children, term, walk
from snell.symbolic import Axis, Expr, as_expr

__all__ = ["canonical", "merged"]

_COMMUTATIVE = (Add, Mul, And, Equal, Maximum)


def canonical(root: Term) -> Term:
    """`root` with every bound axis renamed and nested reductions merged; free axes are kept."""
    images: dict[Term, Term] = {}
    keys: dict[Term, str] = {}
    for item in walk(root):
        if isinstance(item.op, Reduction):
            images[item] = _named(merged(type(item.op), item.op.axes, images[item.args[0]]), keys)
        else:
            images[item] = rebuilt(item, images, {})
    return images[root]


def merged(kind: type[Reduction], axes: tuple[Axis, ...], body: Term) -> Term:
    """The reduction of `body`, over one axis set where the body is a reduction of the same kind."""
    if not axes:
        return body
    if isinstance(body.op, kind) and not set(body.op.axes) & set(axes):
        return term(kind(axes + body.op.axes), body.args, body.dtype)
    return term(kind(axes), (body,), body.dtype)


def _named(item: Term, keys: dict[Term, str]) -> Term:
    if not isinstance(item.op, Reduction):
        return item
    body = item.args[0]
    order = _order(body, item.op.axes, keys)
    taken = {axis.name for axis in item.free}
    names: dict[Axis, Axis] = {}
    for axis in order:
        clashes = taken | _bound_over(body, axis)
        stem = f"r{_word(axis.extent)}_"
        k = next(k for k in range(len(clashes) + 1) if f"{stem}{k}" not in clashes)
        names[axis] = Axis(f"{stem}{k}", axis.extent)
        taken.add(names[axis].name)
    renamed = substitute(body, {old: as_expr(new) for old, new in names.items() if old != new})
    return term(type(item.op)(tuple(names[axis] for axis in order)), (renamed,), item.dtype)


def _word(extent: int | Expr) -> str:
    text = str(extent).replace("*", "x").replace("+", "p").replace("-", "m").replace("//", "d").replace("%", "q")
    return re.sub(r"\W+", "", text)


def _bound_over(body: Term, axis: Axis) -> set[str]:
    """Names bound by reductions of the body in which the axis is free."""
    found: set[str] = set()
    seen: set[Term] = set()
    stack = [body]
    while stack:
        item = stack.pop()
        if item in seen or axis not in item.free:
            continue
        seen.add(item)
        if isinstance(item.op, Reduction):
            found |= {bound.name for bound in item.op.axes}
        stack.extend(children(item))
    return found


def _order(body: Term, axes: tuple[Axis, ...], keys: dict[Term, str]) -> list[Axis]:
    """The axes in the order a name-blind walk of the body meets them, those it does not meet last."""
    wanted = frozenset(axes)
    found: dict[Axis, None] = {}
    seen: set[Term] = set()
    stack = [body]
    while stack and len(found) < len(axes):
        item = stack.pop()
        if item in seen or not item.free & wanted:
            continue
        seen.add(item)
        for expression in _expressions(item):
            found.update(dict.fromkeys(axis for axis in _by_coefficient(expression) if axis in wanted))
        below = children(item)
        if isinstance(item.op, _COMMUTATIVE):
            below = tuple(sorted(below, key=lambda child: _blind_key(child, keys)))
        stack.extend(reversed(below))
    rest = [axis for axis in axes if axis not in found]
    return [*found, *sorted(rest, key=lambda axis: (str(axis.extent), len(axis.name), axis.name))]


def _expressions(item: Term) -> tuple[Expr, ...]:
    match item.op:
        case Index(expression):
            return (expression,)
        case Load(_, indices, guards):
            return (*indices, *guards)
        case _:
            return ()


def _by_coefficient(expression: Expr) -> list[Axis]:
    """The expression's own axes, largest coefficient first (names decide only between equal ones)."""
    ranked: dict[Axis, tuple[int, str, int, str]] = {}
    for monomial, coefficient in expression.terms:
        for axis in as_expr(1).axes().union(*(as_expr(atom).axes() for atom in monomial)):
            ranked.setdefault(axis, (-abs(coefficient), str(axis.extent), len(axis.name), axis.name))
    return sorted(ranked, key=ranked.__getitem__)


def _blind_key(item: Term, keys: dict[Term, str]) -> str:
    """A digest of the term's structure that does not see axis names."""
    for part in walk(item):
        if part in keys:
            continue
        below = [keys[child] for child in children(part)]
        if isinstance(part.op, _COMMUTATIVE):
            below.sort()
        text = f"{type(part.op).__name__}|{_blind_detail(part)}|{part.dtype}|{'|'.join(below)}"
        keys[part] = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    return keys[item]


def _blind_detail(item: Term) -> str:
    match item.op:
        case Load(tensor, indices, _):
            return tensor.name + ";".join(_blind_expression(e) for e in indices)
        case Index(expression):
            return _blind_expression(expression)
        case Reduction(axes):
            return ",".join(sorted(str(axis.extent) for axis in axes))
        case _:
            return str(item.op)


def _blind_expression(expression: Expr) -> str:
    terms = [(c, sorted(str(axis.extent) for atom in m for axis in as_expr(atom).axes())) for m, c in expression.terms]
    return f"{sorted(terms)}+{expression.constant}"
