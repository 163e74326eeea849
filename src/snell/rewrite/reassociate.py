"""Products of several matrices in another order: a stored product goes back into what reads it, and the whole is ordered
anew where that takes less work.

    s[i, j] = Sum{d} q[i, d]·k[j, d]                y[i, e] = Sum{d} q[i, d]·(Sum{j} k[j, d]·v[j, e])
    y[i, e] = Sum{j} s[i, j]·v[j, e]           →

The results are equal in exact arithmetic with the same first-order error bound; they round in another order.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from snell.rewrite.canonical import canonical
from snell.rewrite.chain import inlined
from snell.rewrite.cut import typical_volume
from snell.rewrite.definition import Definition
from snell.rewrite.network import STORED, network_of, reordered, written_cost
from snell.rewrite.substitution import with_tensors
from snell.rewrite.template import Instance
from snell.rewrite.term import Load, Reduction, Tensor, Term, walk

__all__ = ["Reassociation", "reassociated"]

_GAIN = 1.25  # an estimate at typical sizes is not worth following for less


@dataclass(frozen=True, slots=True)
class Reassociation:
    """A tensor that is no longer stored, or whose own products are in another order; costs in multiplications."""

    tensor: Tensor
    before: float
    after: float


def reassociated(
    program: Sequence[Instance], kept: Collection[str]
) -> tuple[tuple[Instance, ...], tuple[Reassociation, ...]]:
    """The program with products in cheaper orders, and what was changed; tensors with `kept` names stay stored."""
    search = _Search(list(program), frozenset(kept))
    while search.step():
        pass
    return tuple(search.program), tuple(search.found)


class _Search:
    """Definitions while their products are put together; equal neighbourhoods that do not pay are tried once."""

    def __init__(self, program: list[Instance], kept: frozenset[str]) -> None:
        self.found: list[Reassociation] = []
        self.program = [self._ordered(instance) for instance in program]
        self._kept = kept
        self._refused: set[Hashable] = set()

    def step(self) -> bool:
        """Put one stored product back into its readers; False where none pays any more."""
        readers: dict[str, list[int]] = {}
        for place, instance in enumerate(self.program):
            for own in _loaded(instance.template.value):
                readers.setdefault(instance.tensors[own].name, []).append(place)
        for place, instance in enumerate(self.program):
            places = readers.get(instance.stored.name, [])
            if places and instance.stored.name not in self._kept and _is_product(instance.template):
                changed = self._put_back(instance, [self.program[k] for k in places])
                if changed is not None:
                    for k, new in zip(places, changed, strict=True):
                        self.program[k] = new
                    del self.program[place]
                    return True
        return False

    def _ordered(self, instance: Instance) -> Instance:
        changed = _in_order(instance.template)
        if changed is None:
            return instance
        self.found.append(Reassociation(instance.stored, _cost(instance.template), _cost(changed)))
        return replace(instance, template=changed)

    def _put_back(self, stored: Instance, readers: list[Instance]) -> list[Instance] | None:
        key = (stored.template, *((reader.template, _names_of(reader, stored.stored)) for reader in readers))
        if key in self._refused or not all(_sums_up(reader, stored.stored) for reader in readers):
            return None
        changed = list(_without(stored, readers))
        before = _cost(stored.template) + STORED * typical_volume(stored.template.axes)
        before += sum(_cost(reader.template) for reader in readers)
        after = sum(_cost(reader.template) for reader in changed)
        if len(changed) < len(readers) or before < _GAIN * after:
            self._refused.add(key)
            return None
        self.found.append(Reassociation(stored.stored, before, after))
        return changed


def _without(stored: Instance, readers: Sequence[Instance]) -> Iterator[Instance]:
    """The readers with the stored value worked out in them, in the cheapest order; those where it cannot be are left out."""
    made = _on_its_tensors(stored)
    for reader in readers:
        chain = inlined([made, _on_its_tensors(reader)], [reader.stored])
        if chain is not None:
            yield _template_of(replace(chain[0], value=canonical(reordered(chain[0].value))))


def _on_its_tensors(instance: Instance) -> Definition:
    value = with_tensors(instance.template.value, instance.tensors)
    return replace(instance.template, tensor=instance.stored, value=value)


def _template_of(definition: Definition) -> Instance:
    """The definition as a template over `t0`, `t1`, …, so that equal ones are one."""
    names = {real: replace(real, name=f"t{k}") for k, real in enumerate(_loaded(definition.value))}
    out = replace(definition.tensor, name="out")
    template = replace(definition, tensor=out, value=with_tensors(definition.value, names))
    return Instance(template, {**{own: real for real, own in names.items()}, out: definition.tensor})


def _names_of(reader: Instance, tensor: Tensor) -> tuple[Tensor, ...]:
    return tuple(own for own in _loaded(reader.template.value) if reader.tensors[own] == tensor)


def _sums_up(reader: Instance, tensor: Tensor) -> bool:
    """Whether the reader reads the tensor inside of a sum."""
    return set(_names_of(reader, tensor)) <= _summed(reader.template.value)


@lru_cache(maxsize=1 << 12)
def _loaded(value: Term) -> tuple[Tensor, ...]:
    return tuple(dict.fromkeys(item.op.tensor for item in walk(value) if isinstance(item.op, Load)))


@lru_cache(maxsize=1 << 12)
def _summed(value: Term) -> frozenset[Tensor]:
    bodies = [item.args[0] for item in walk(value) if isinstance(item.op, Reduction)]
    return frozenset(item.op.tensor for item in walk(*bodies) if isinstance(item.op, Load))


@lru_cache(maxsize=1 << 12)
def _is_product(template: Definition) -> bool:
    """A product that adds up, or one that has more elements than any of its factors."""
    network = network_of(template.value)
    if network is None:
        return False
    largest = max(typical_volume(factor.free) for factor in network.factors)
    return bool(network.bound) or 2 * largest <= typical_volume(template.axes)


@lru_cache(maxsize=1 << 12)
def _cost(template: Definition) -> float:
    return written_cost(template.value, template.axes)


@lru_cache(maxsize=1 << 12)
def _in_order(template: Definition) -> Definition | None:
    """The definition with its own products in the cheapest order, where that pays."""
    value = reordered(template.value)
    if value is template.value:
        return None
    changed = replace(template, value=canonical(value))
    return changed if _cost(template) >= _GAIN * _cost(changed) else None
