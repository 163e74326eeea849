"""Products of sums as a network of factors, and the cheapest order in which to multiply them and add up.

    Sum{k} (Sum{l} a[i, l]·b[l, k])·c[k, j]      factors a[i, l], b[l, k], c[k, j]; bound k, l; kept i, j
                                             →   Sum{l} a[i, l]·(Sum{k} b[l, k]·c[k, j])     where that is cheaper

Every order is equal in exact arithmetic, and has the same first-order error bound: a multiple of the sum of the products'
magnitudes.  The order is found by dynamic programming over sets of factors, at the typical sizes of the axes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from snell.dtypes import bool_
from snell.graph.primitives import Mul
from snell.rewrite.arithmetic import multiply
from snell.rewrite.cut import typical_volume
from snell.rewrite.substitution import fresh_axis, rebuilt, substitute
from snell.rewrite.term import Reduction, Sum, Term, children, reduction, walk
from snell.symbolic import Axis, as_expr

__all__ = ["STORED", "Network", "network_of", "ordered", "reordered", "written_cost"]

_MOST_FACTORS = 6  # orders of more take long to compare
STORED = 16.0  # multiplications in the time that an element takes to be stored and read again
_BESIDE = 0.1  # a further factor of a product that is added up: mostly known outside the innermost loop


@dataclass(frozen=True, slots=True)
class Network:
    """A sum over the `bound` axes of a product of factors, none of which is a product or a sum itself."""

    factors: tuple[Term, ...]
    bound: frozenset[Axis]


def network_of(item: Term) -> Network | None:
    """The network that a product of sums is; None where a sum may be empty, or adds up what does not depend on its axes."""
    if item.dtype == bool_:
        return None
    factors: list[Term] = []
    bound: set[Axis] = set()
    open_terms = [item]
    while open_terms:
        part = open_terms.pop()
        if isinstance(part.op, Mul) and all(arg.dtype == item.dtype for arg in part.args):
            open_terms += reversed(part.args)
        elif isinstance(part.op, Sum):
            own = {axis: fresh_axis(axis.extent) for axis in part.op.axes}
            bound |= set(own.values())
            open_terms.append(substitute(part.args[0], {axis: as_expr(new) for axis, new in own.items()}))
        else:
            factors.append(part)
    used = frozenset[Axis]().union(*(factor.free for factor in factors))
    if not bound <= used or not all(_is_present(axis) for axis in bound):
        return None
    return Network(tuple(factors), frozenset(bound))


def _is_present(axis: Axis) -> bool:
    return (as_expr(axis.extent) - 1).is_non_negative()


def ordered(network: Network) -> Term | None:
    """The sum in its cheapest order; None where there are too many factors to compare all orders.

    Factors on which no sum depends are multiplied last.
    """
    inside = tuple(factor for factor in network.factors if factor.free & network.bound)
    if len(inside) > _MOST_FACTORS:
        return None
    result = _Orders(Network(inside, network.bound)).term()
    for factor in network.factors:
        if factor not in inside:
            result = multiply(factor, result)
    return result


@dataclass(frozen=True, slots=True)
class _Part:
    """The best way to a set of factors' product: its cost until it is stored, multiplications left to its reader, and
    the two sets it is made of."""

    cost: float
    pending: int = 0
    split: tuple[int, int] | None = None


class _Orders:
    """The best part of every set of factors (bits of an integer), small sets first."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._all = (1 << len(network.factors)) - 1
        self._free = [self._union(mask) for mask in range(self._all + 1)]
        self._parts: dict[int, _Part] = {}
        for mask in sorted(range(1, self._all + 1), key=int.bit_count):
            self._parts[mask] = self._best(mask)

    def term(self) -> Term:
        """The product of all factors."""
        return self._term(self._all)

    def _union(self, mask: int) -> frozenset[Axis]:
        chosen = (factor.free for k, factor in enumerate(self._network.factors) if mask >> k & 1)
        return frozenset[Axis]().union(*chosen)

    def _needed(self, mask: int) -> frozenset[Axis]:
        """Axes of a set's product that are not added up inside it: results, and those that other factors depend on."""
        return self._free[mask] - (self._network.bound - self._free[self._all & ~mask])

    def _best(self, mask: int) -> _Part:
        if mask.bit_count() == 1:
            return self._part(mask, self._free[mask], 0.0, 0, None)
        return min((self._joined(mask, *split) for split in _splits(mask)), key=lambda part: self._total(mask, part))

    def _joined(self, mask: int, left: int, right: int) -> _Part:
        first, second = self._parts[left], self._parts[right]
        axes = self._needed(left) | self._needed(right)
        return self._part(mask, axes, first.cost + second.cost, 1 + first.pending + second.pending, (left, right))

    def _part(
        self, mask: int, axes: frozenset[Axis], cost: float, pending: int, split: tuple[int, int] | None
    ) -> _Part:
        """What is multiplied over `axes` is added up and stored where that ends some of them, and left to its reader
        else."""
        needed = self._needed(mask)
        if axes == needed:
            return _Part(cost, pending, split)
        stored = 0.0 if mask == self._all else STORED * typical_volume(needed)
        return _Part(cost + _work(pending) * typical_volume(axes) + stored, 0, split)

    def _total(self, mask: int, part: _Part) -> float:
        return part.cost + (_work(part.pending) * typical_volume(self._needed(mask)) if part.pending else 0.0)

    def _term(self, mask: int) -> Term:
        part = self._parts[mask]
        if part.split is None:
            axes, value = self._free[mask], self._network.factors[mask.bit_length() - 1]
        else:
            left, right = part.split
            axes = self._needed(left) | self._needed(right)
            value = multiply(self._term(left), self._term(right))
        ended = axes - self._needed(mask)
        return reduction(Sum(tuple(sorted(ended, key=str))), value) if ended else value


def _work(multiplications: int) -> float:
    """Multiplications at each point of a sum; the last one is part of adding up."""
    return 1.0 + _BESIDE * max(0, multiplications - 1)


def _splits(mask: int) -> Iterator[tuple[int, int]]:
    """Every way to halve a set, each once: the half that holds the lowest bit comes first."""
    lowest = mask & -mask
    rest = mask ^ lowest
    part = rest
    while part:
        part = (part - 1) & rest
        yield lowest | part, rest ^ part


def reordered(root: Term) -> Term:
    """The term with every product of sums in its cheapest order."""
    images: dict[Term, Term] = {}

    def go(item: Term) -> Term:
        if item not in images:
            images[item] = _in_order(item, go) or rebuilt(item, {child: go(child) for child in children(item)}, {})
        return images[item]

    return go(root)


def _in_order(item: Term, go: Callable[[Term], Term]) -> Term | None:
    if not isinstance(item.op, Mul | Sum):
        return None
    network = network_of(item)
    if network is None or all(network.bound <= factor.free for factor in network.factors):
        return None  # (nothing can be added up before all are multiplied)
    return ordered(Network(tuple(map(go, network.factors)), network.bound))


def written_cost(value: Term, axes: Iterable[Axis]) -> float:
    """Multiplications of the sums in a definition's value over `axes`, and the traffic of those that are stored for it.

    What lies inside another reduction is stored.
    """
    own = frozenset(axes)
    total = typical_volume(own) if _products(value) else 0.0
    inner = {t for item in walk(value) if isinstance(item.op, Reduction) for t in walk(item.args[0])}
    for item in walk(value):
        if isinstance(item.op, Reduction):
            total += _work(_products(item.args[0])) * typical_volume(item.free | set(item.op.axes))
            total += STORED * typical_volume(item.free) * (item in inner)
    return total


def _products(root: Term) -> int:
    """Multiplications at each point, those of sums inside not counted."""
    count = 0
    seen: set[Term] = set()
    stack = [root]
    while stack:
        item = stack.pop()
        if item not in seen:
            seen.add(item)
            count += isinstance(item.op, Mul)
            stack += [arg for arg in item.args if not isinstance(arg.op, Reduction)]
    return count
