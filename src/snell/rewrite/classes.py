"""The frozen e-graph as plain Python: e-classes, their nodes and facts, in a deterministic order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from snell.dtypes import DType
from snell.rewrite.egraph import EGraph, Row, Value
from snell.rewrite.language import CONSTRUCTORS, DTYPES, Encoding
from snell.rewrite.term import Term

__all__ = ["Classes", "Node", "read_classes"]

_FACTS = ("free", "dtype", "root")
_NOTHING: frozenset[int] = frozenset()


class Node(NamedTuple):
    """One way to compute a class: a constructor, the numbers it carries, the axes it binds, argument classes."""

    name: str
    payload: tuple[int | Fraction, ...]
    axes: frozenset[int]
    children: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Classes:
    """`nodes[c]` are the members of class c; `free[c]` the axes it depends on; `constant` those of constants only."""

    nodes: dict[int, list[Node]]
    free: dict[int, frozenset[int]]
    dtype: dict[int, DType]
    constant: frozenset[int]
    roots: tuple[int, ...]


def read_classes(egraph: EGraph, encoding: Encoding, is_constant: Callable[[Term], bool]) -> Classes:
    """Every class of the open region; `is_constant` says which atoms have values known before run time."""
    tables = egraph.rows((*CONSTRUCTORS, *_FACTS))
    values = {row.output for name in CONSTRUCTORS for row in tables.get(name, [])}
    numbers = {value: k for k, value in enumerate(sorted(values))}
    nodes: dict[int, list[Node]] = {k: [] for k in range(len(numbers))}
    for name, arity in CONSTRUCTORS.items():
        for row in tables.get(name, []):
            nodes[numbers[row.output]].append(_node(egraph, name, arity, row, numbers))
    for members in nodes.values():
        members.sort(key=_order)
    free = {numbers[row.inputs[0]]: egraph.integers(row.output) for row in tables["free"]}
    dtype = {numbers[row.inputs[0]]: DTYPES[egraph.integer(row.output)] for row in tables["dtype"]}
    places = {egraph.integer(row.inputs[0]): numbers[row.output] for row in tables["root"]}
    roots = tuple(places[k] for k in range(len(places)))
    return Classes(nodes, free, dtype, _constants(nodes, encoding, is_constant), roots)


def _node(egraph: EGraph, name: str, arity: int, row: Row, numbers: dict[Value, int]) -> Node:
    split = len(row.inputs) - arity
    head, children = row.inputs[:split], tuple(numbers[value] for value in row.inputs[split:])
    match name:
        case "Sum" | "Max":
            return Node(name, (), egraph.integers(head[0]), children)
        case "Number":
            return Node(name, (egraph.fraction(head[0]), egraph.integer(head[1])), _NOTHING, children)
        case "Atom":
            return Node(name, (egraph.integer(head[0]),), _NOTHING, children)
        case "Scale":
            return Node(name, (egraph.fraction(head[0]),), _NOTHING, children)
        case _:
            return Node(name, tuple(egraph.integer(value) for value in head), _NOTHING, children)


def _order(node: Node) -> tuple[str, tuple[int | Fraction, ...], list[int], tuple[int, ...]]:
    return (node.name, node.payload, sorted(node.axes), node.children)


def _constants(nodes: dict[int, list[Node]], encoding: Encoding, is_constant: Callable[[Term], bool]) -> frozenset[int]:
    """Classes with a member whose leaves are all constant; equal values, so one member is enough."""
    known: set[int] = set()
    atoms = [is_constant(atom) for atom in encoding.atoms]
    grew = True
    while grew:
        before = len(known)
        for number, members in nodes.items():
            if number not in known and any(_is_known(node, atoms, known) for node in members):
                known.add(number)
        grew = len(known) > before
    return frozenset(known)


def _is_known(node: Node, atoms: list[bool], known: set[int]) -> bool:
    if node.name == "Atom":
        return atoms[int(node.payload[0])]
    return all(child in known for child in node.children)
