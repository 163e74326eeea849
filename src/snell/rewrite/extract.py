"""Extraction: one term per root out of the frozen e-graph.

Greedy over the DAG: each class keeps the cheapest node found, with the classes its whole subtree uses, so that shared
work is counted once.  A node is considered only where every argument has a choice, where the class is not among what it
uses (no cycles) and where it depends on no axis its class does not depend on (a class can depend on fewer axes than a
member: such a member would escape the reduction that binds them).  Ties go to the first node in a fixed order, so equal
regions give equal terms.  With noise on the costs, the same search yields other members of the class.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from snell.errors import CompileError
from snell.rewrite.classes import Classes, Node
from snell.rewrite.cost import Costs
from snell.rewrite.decode import decode
from snell.rewrite.language import Encoding
from snell.rewrite.term import Term

__all__ = ["candidates", "extract", "least_cost"]

_Entry = tuple[int, Node]


@dataclass(slots=True)
class _Best:
    """The choice for one class: its node, and the cost of every class its subtree uses."""

    total: float
    node: Node
    costs: dict[int, float]
    reductions: frozenset[int]
    depth: int


def extract(classes: Classes, encoding: Encoding, costs: Costs) -> tuple[Term, ...]:
    """The cheapest term of each root."""
    return _terms(classes, encoding, _Search(classes, costs, None, 0.0))


def least_cost(classes: Classes, costs: Costs) -> float:
    """What `extract` pays for all roots together; shared work counts once."""
    search = _Search(classes, costs, None, 0.0)
    search.run()
    used: dict[int, float] = {}
    for root in classes.roots:
        used.update(search.best[root].costs)
    return sum(used.values())


def candidates(classes: Classes, encoding: Encoding, costs: Costs, count: int, seed: int) -> Iterator[tuple[Term, ...]]:
    """The cheapest terms, then different ones found under noisy costs: at most `count`, deterministic in the seed."""
    seen: set[tuple[Term, ...]] = set()
    generator = random.Random(seed)
    for attempt in range(3 * count):
        noise = 1.8 * attempt / (3 * count)
        terms = _terms(classes, encoding, _Search(classes, costs, generator if attempt else None, noise))
        if terms not in seen:
            seen.add(terms)
            yield terms
        if len(seen) == count:
            return


def _terms(classes: Classes, encoding: Encoding, search: _Search) -> tuple[Term, ...]:
    search.run()
    choice = {number: best.node for number, best in search.best.items()}
    if not all(root in choice for root in classes.roots):
        raise CompileError("a root of the region has no extractable term; please report the program")
    if not _is_acyclic(choice, classes.roots):
        choice = _cheapest_trees(classes, search)
    return decode(classes, encoding, choice)


class _Search:
    """The worklist over nodes whose arguments have choices."""

    def __init__(self, classes: Classes, costs: Costs, generator: random.Random | None, noise: float) -> None:
        self.best: dict[int, _Best] = {}
        self._classes = classes
        self._costs = costs
        self._generator = generator
        self._noise = noise
        self._factors: dict[_Entry, float] = {}
        self._parents: dict[int, list[_Entry]] = {}
        entries = ((number, node) for number, nodes in classes.nodes.items() for node in nodes)
        self._entries = [entry for entry in entries if self._in_scope(*entry)]
        for entry in self._entries:
            for child in dict.fromkeys(entry[1].children):
                self._parents.setdefault(child, []).append(entry)

    @property
    def entries(self) -> list[_Entry]:
        """Every node that may be chosen, with its class."""
        return self._entries

    def run(self) -> None:
        queue = deque(entry for entry in self._entries if not entry[1].children)
        waiting = set(queue)
        while queue:
            entry = queue.popleft()
            waiting.discard(entry)
            if not self._improves(entry):
                continue
            for parent in self._parents.get(entry[0], ()):
                if parent not in waiting:
                    waiting.add(parent)
                    queue.append(parent)

    def cost(self, entry: _Entry, passes: int) -> float:
        """Cost of a node, with this search's noise."""
        plain = self._costs.of(*entry, passes)
        if self._generator is None:
            return plain
        factor = self._factors.get(entry)
        if factor is None:
            factor = self._factors[entry] = math.exp(self._generator.gauss(0.0, self._noise))
        return plain * factor

    def _improves(self, entry: _Entry) -> bool:
        """Evaluate a node; True when it became the choice of its class."""
        number, node = entry
        used: dict[int, float] = {}
        reductions: frozenset[int] = frozenset()
        for child in node.children:
            below = self.best.get(child)
            if below is None:
                return False
            used.update(below.costs)
            reductions |= below.reductions
        if number in used:
            return False
        passes = self._passes(node, reductions) if node.axes else 0
        used[number] = self.cost(entry, passes)
        total = sum(used.values())
        known = self.best.get(number)
        if known is not None and total >= known.total * (1 - 1e-9):
            return False
        if node.axes:
            reductions |= {number}
        self.best[number] = _Best(total, node, used, reductions, passes)
        return True

    def _passes(self, node: Node, reductions: frozenset[int]) -> int:
        """Finished reductions over the same axes, one after another, that the body of a reduction needs."""
        free = self._classes.free
        deepest = 0
        for number in reductions:
            inner = self.best[number]
            if inner.node.axes & node.axes and not (free[number] & node.axes) and number not in self._classes.constant:
                deepest = max(deepest, 1 + inner.depth)
        return deepest

    def _in_scope(self, number: int, node: Node) -> bool:
        free = self._classes.free
        if node.name == "Atom":
            return True
        axes = frozenset[int]().union(*(free[child] for child in node.children)) - node.axes
        return axes <= free[number]


def _is_acyclic(choice: dict[int, Node], roots: tuple[int, ...]) -> bool:
    """Whether the chosen nodes form a DAG: choices made at different times may disagree."""
    done: set[int] = set()
    open_: set[int] = set()
    stack: list[tuple[int, bool]] = [(root, False) for root in roots]
    while stack:
        number, finished = stack.pop()
        if finished:
            open_.discard(number)
            done.add(number)
            continue
        if number in open_:
            return False
        if number in done:
            continue
        open_.add(number)
        stack.append((number, True))
        stack.extend((child, False) for child in choice[number].children if child not in done)
    return True


def _cheapest_trees(classes: Classes, search: _Search) -> dict[int, Node]:
    """Choices by tree cost: a class costs more than each argument, so they cannot form a cycle."""
    cost: dict[int, float] = {}
    choice: dict[int, Node] = {}
    changed = True
    while changed:
        changed = False
        for number, node in search.entries:
            if any(child not in cost for child in node.children):
                continue
            total = search.cost((number, node), 0) + sum(cost[child] for child in node.children)
            if total < cost.get(number, math.inf) * (1 - 1e-9):
                cost[number], choice[number] = total, node
                changed = True
    return {number: choice[number] for number in classes.nodes if number in choice}
