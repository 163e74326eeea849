"""From chosen nodes of the e-graph back to terms."""

from __future__ import annotations

from fractions import Fraction

from snell.dtypes import DType, bool_
from snell.graph.primitives import Add, LessThan, Mul, Op, Recip
from snell.rewrite import term as t
from snell.rewrite.classes import Classes, Node
from snell.rewrite.language import DTYPES, Encoding
from snell.rewrite.term import Term, term

__all__ = ["decode"]

_PLAIN: dict[str, Op] = {
    "Recip": Recip(), "Not": t.Not(), "Add": Add(), "Mul": Mul(), "Subtract": t.Subtract(), "Divide": t.Divide(),
    "LessThan": LessThan(), "Equal": t.Equal(), "And": t.And(), "Maximum": t.Maximum(), "Select": t.Select(),
    "SelectElse": t.SelectElse(),
}  # fmt: skip
_BOOLEAN = frozenset({"Not", "LessThan", "Equal", "And"})


def decode(classes: Classes, encoding: Encoding, choice: dict[int, Node]) -> tuple[Term, ...]:
    """The term of each root when every class is computed by its chosen node (which must form no cycle)."""
    terms: dict[int, Term] = {}
    stack = list(reversed(classes.roots))
    while stack:
        number = stack[-1]
        node = choice[number]
        missing = [child for child in node.children if child not in terms]
        if number in terms or not missing:
            stack.pop()
            if number not in terms:
                terms[number] = _term(encoding, node, tuple(terms[child] for child in node.children))
        else:
            stack.extend(reversed(missing))
    return tuple(terms[root] for root in classes.roots)


def _term(encoding: Encoding, node: Node, args: tuple[Term, ...]) -> Term:
    plain = _PLAIN.get(node.name)
    if plain is not None:
        return term(plain, args, bool_ if node.name in _BOOLEAN else args[-1].dtype)
    if node.axes:
        axes = tuple(encoding.axes[code] for code in sorted(node.axes))
        return t.reduction(t.Sum(axes) if node.name == "Sum" else t.Max(axes), args[0])
    first = node.payload[0] if node.payload else 0
    match node.name:
        case "Number":
            dtype = DTYPES[int(node.payload[1])]
            return t.number(_wrapped(Fraction(first), dtype), dtype)
        case "Scale":
            dtype = args[0].dtype
            return term(Mul(), (args[0], t.number(_wrapped(Fraction(first), dtype), dtype)), dtype)
        case "Atom":
            return encoding.atoms[int(first)]
        case "Cast":
            return t.cast(args[0], DTYPES[int(first)])
        case "Sum" | "Max":  # over no axis
            return args[0]
        case _:
            table = encoding.unary if node.name == "Unary" else encoding.binary
            return term(table[int(first)], args, args[-1].dtype)


def _wrapped(value: Fraction, dtype: DType) -> Fraction | int:
    """Integer constants wrap into their dtype, as the arithmetic does."""
    if not dtype.is_integer:
        return value
    low = int(dtype.range[0])
    return (int(value) - low) % (1 << dtype.bits) + low
