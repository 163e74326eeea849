"""Replacing axes in terms: capture-avoiding, also inside index expressions and loaded indices.

`rebuilt` is the common step of every term → term pass: the same operation on new arguments, with the terms inside
opaque index atoms replaced too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from snell.rewrite.term import Index, Load, Reduction, Tensor, Term, children, index, load, number, opaque, term, walk
from snell.symbolic import Axis, Expr, Opaque, as_expr
from snell.symbolic.expression import Atom

__all__ = ["fresh_axis", "guarded_load", "over_tensors", "rebuilt", "replaced_expression", "substitute"]


class _Fresh:
    """Numbers for temporary axes; canonical naming removes them."""

    count = 0


def fresh_axis(extent: int | Expr) -> Axis:
    """A bound axis no other term has yet; `canonical` gives it its lasting name."""
    _Fresh.count += 1
    return Axis(f"t{_Fresh.count}", extent)


def replaced_expression(expression: Expr, axes: Mapping[Axis, Expr], terms: Mapping[Term, Term]) -> Expr:
    """The expression with axes replaced and with loaded indices replaced by their images in `terms`."""
    mapping: dict[Atom, Expr] = dict(axes.items())
    for atom in expression.atoms():
        if isinstance(atom, Opaque) and isinstance(atom.key, Term):
            image = terms.get(atom.key, atom.key)
            if image is not atom.key:
                mapping[atom] = as_expr(opaque(image, atom.lower, atom.upper))
    return expression.substitute(mapping)  # type: ignore[arg-type]


def rebuilt(item: Term, terms: Mapping[Term, Term], axes: Mapping[Axis, Expr], guards: tuple[Expr, ...] = ()) -> Term:
    """The operation of `item` with arguments and loaded indices looked up in `terms`, and free axes replaced.

    Loads that are not provably in range afterwards get the `guards` besides their own.
    """
    match item.op:
        case Index(expression):
            return index(replaced_expression(expression, axes, terms))
        case Load(tensor, indices, own):
            places = tuple(replaced_expression(e, axes, terms) for e in indices)
            moved = tuple(replaced_expression(e, axes, terms) for e in own)
            return guarded_load(tensor, places, moved, guards)
        case _:
            arguments = tuple(terms.get(argument, argument) for argument in item.args)
            return item if arguments == item.args else term(item.op, arguments, item.dtype)


def guarded_load(tensor: Tensor, places: tuple[Expr, ...], own: tuple[Expr, ...], context: tuple[Expr, ...]) -> Term:
    """A load under its own guards, and under those of its context where its indices are not provably in range."""
    guards = (*own, *context) if context and not _is_inside(tensor, places) else own
    if any(guard.bounds()[1] < 0 for guard in guards):
        return number(0, tensor.dtype)
    return load(tensor, places, tuple(dict.fromkeys(g for g in guards if not g.is_non_negative())))


def _is_inside(tensor: Tensor, places: tuple[Expr, ...]) -> bool:
    return all(
        place.is_non_negative() and (as_expr(size) - 1 - place).is_non_negative()
        for place, size in zip(places, tensor.shape, strict=True)
    )


def _affected(root: Term, axes: frozenset[Axis]) -> Iterator[Term]:
    """Terms below the root in which one of the axes is free, arguments first."""
    seen: set[Term] = set()
    stack: list[tuple[Term, bool]] = [(root, False)]
    while stack:
        item, done = stack.pop()
        if done:
            yield item
        elif item not in seen and item.free & axes:
            seen.add(item)
            stack.append((item, True))
            stack.extend((child, False) for child in children(item))


def substitute(root: Term, mapping: Mapping[Axis, Expr], guards: tuple[Expr, ...] = ()) -> Term:
    """`root` with its free axes replaced by index expressions; bound axes that would capture are renamed.

    `guards` protect the loads that the replacement may send out of range.
    """
    if not root.free & mapping.keys():
        return root
    images: dict[Term, Term] = {}
    for item in _affected(root, frozenset(mapping)):
        if isinstance(item.op, Reduction):
            images[item] = _under_binder(item, item.op, mapping, guards, images)
        else:
            images[item] = rebuilt(item, images, mapping, guards)
    return images[root]


def _under_binder(
    item: Term, op: Reduction, mapping: Mapping[Axis, Expr], guards: tuple[Expr, ...], images: Mapping[Term, Term]
) -> Term:
    incoming = frozenset[Axis]().union(*(value.axes() for value in (*mapping.values(), *guards)))
    if not (set(op.axes) & (incoming | mapping.keys())):
        return term(op, (images[item.args[0]],), item.dtype)
    renamed = {axis: fresh_axis(axis.extent) for axis in op.axes}
    inner = {axis: value for axis, value in mapping.items() if axis not in op.axes}
    body = substitute(item.args[0], {**inner, **{axis: as_expr(new) for axis, new in renamed.items()}}, guards)
    return term(type(op)(tuple(renamed[axis] for axis in op.axes)), (body,), item.dtype)


def over_tensors(root: Term, tensors: Mapping[Tensor, Tensor]) -> Term:
    """`root` with other tensors in its loads, those inside loaded indices too; tensors not in the mapping stay."""
    images: dict[Term, Term] = {}
    for item in walk(root):
        image = rebuilt(item, images, {})
        if isinstance(image.op, Load):
            image = load(tensors.get(image.op.tensor, image.op.tensor), image.op.indices, image.op.guards)
        images[item] = image
    return images[root]
