"""Reassociation: a product of products in the order that takes less work.

    T[i, k] = Σ_r a[i, r]·b[r, k]          V[r, j] = Σ_k b[r, k]·c[k, j]
    U[i, j] = Σ_k T[i, k]·c[k, j]     →    U[i, j] = Σ_r a[i, r]·V[r, j]

It is an analysis of pairs of definitions, not a rule of the e-graph: what a product stores is decided by the cut, and a
rule sees one definition.  T must be read by that one product alone, in the product's own dtype of 32 bits or more; its
factors that vary with `k` change sides, the others stay.  Both orders have the same first-order error bound
`(|r| + |k|)·u·Σ|a·b·c|`, so a policy that refines allows it; an intermediate value may overflow where the other did not.

A pair is turned where multiplications, with what the new intermediate value costs to store, become clearly fewer at
typical sizes.  Longer chains are turned pair by pair until no turn pays; each lowers the work, so that ends.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from snell.graph.primitives import Mul
from snell.rewrite.canonical import canonical
from snell.rewrite.cut import typical_size
from snell.rewrite.definition import Definition
from snell.rewrite.substitution import fresh_axis, over_tensors, rebuilt, substitute
from snell.rewrite.template import Instance
from snell.rewrite.term import Load, Number, Reduction, Sum, Tensor, Term, load, reduction, term, walk
from snell.symbolic import Axis, Expr, as_expr, as_size

__all__ = ["Reassociation", "reassociated"]

_CLEARLY = 0.75  # of the work before: sizes are typical ones, and the order as written may have been meant
_STORED = 16.0  # multiplications in the time of storing a value and reading it again from a shared cache


_Pair = tuple[Definition, Definition, Tensor]
"""The templates of two products, and the second one's own name for the first one's result."""


@dataclass(frozen=True, slots=True)
class Reassociation:
    """One turned pair: the tensor computed, and multiplications for it before and after."""

    result: Tensor
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class _Product:
    """`Π outer · Σ_axes Π inner` as factors."""

    outer: tuple[Term, ...]
    axes: tuple[Axis, ...]
    inner: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class _Turn:
    """The two definitions that take the place of a pair, over the program's tensors, and what was gained."""

    intermediate: Definition
    result: Definition
    gain: Reassociation


def reassociated(
    program: Sequence[Instance], kept: Iterable[Tensor]
) -> tuple[tuple[Instance, ...], tuple[Reassociation, ...]]:
    """The program (producers first) with every pair turned that pays, and the turns; `kept` tensors stay stored."""
    current, turns, stored = list(program), list[Reassociation](), set(kept)
    refused: set[_Pair] = set()
    while True:
        found = next(_turns(current, stored, refused), None)
        if found is None:
            return tuple(current), tuple(turns)
        first, second, turn = found
        current[second : second + 1] = [_abstract(turn.intermediate), _abstract(turn.result)]
        del current[first]
        turns.append(turn.gain)


def _turns(program: Sequence[Instance], kept: set[Tensor], refused: set[_Pair]) -> Iterator[tuple[int, int, _Turn]]:
    """Pairs that pay; those of templates that are known not to are not asked again."""
    for first, second, own in _pairs(program, kept):
        pair = (program[first].template, program[second].template, own)
        if pair in refused:
            continue
        turn = _turned(_whole(program[first]), _whole(program[second]))
        if turn is None:
            refused.add(pair)
        else:
            yield first, second, turn


def _pairs(program: Sequence[Instance], kept: set[Tensor]) -> list[tuple[int, int, Tensor]]:
    """Places of a product and of the one definition that reads it, inside a product of its own, under what name."""
    readers: dict[Tensor, list[tuple[int, Tensor]]] = {}
    inside: dict[Definition, frozenset[Tensor]] = {}
    loads: dict[Definition, tuple[Tensor, ...]] = {}
    for place, instance in enumerate(program):
        template = instance.template
        if template not in loads:
            loads[template] = tuple(dict.fromkeys(t.op.tensor for t in walk(template.value) if isinstance(t.op, Load)))
            inside[template] = _factors_of_sums(template.value)
        for own in loads[template]:
            readers.setdefault(instance.tensors[own], []).append((place, own))
    found: list[tuple[int, int, Tensor]] = []
    for place, instance in enumerate(program):
        read = readers.get(instance.stored, [])
        if len(read) != 1 or instance.stored in kept or _product(instance.template.value) is None:
            continue
        ((reader, own),) = read
        if own in inside[program[reader].template]:
            found.append((place, reader, own))
    return found


def _factors_of_sums(value: Term) -> frozenset[Tensor]:
    """Tensors that are factors of a product under a sum."""
    sums = (item for item in walk(value) if isinstance(item.op, Sum))
    return frozenset(
        f.op.tensor for item in sums for f in _factors(item.args[0]) if isinstance(f.op, Load) and not f.op.guards
    )


def _factors(value: Term) -> tuple[Term, ...]:
    if isinstance(value.op, Mul):
        return tuple(factor for argument in value.args for factor in _factors(argument))
    return (value,)


def _product(value: Term) -> _Product | None:
    """The value as factors around one sum of products, in one float dtype that keeps partial results."""
    if not value.dtype.is_float or value.dtype.itemsize < 4:
        return None
    factors = _factors(value)
    sums = [factor for factor in factors if isinstance(factor.op, Sum)]
    if len(sums) != 1 or not isinstance(sums[0].op, Sum):
        return None
    outer = tuple(factor for factor in factors if factor is not sums[0])
    inner = _factors(sums[0].args[0])
    if any(isinstance(t.op, Reduction) for factor in (*outer, *inner) for t in walk(factor)):
        return None
    return _Product(outer, sums[0].op.axes, inner)


def _turned(producer: Definition, consumer: Definition) -> _Turn | None:
    """The pair in the other order, where that is the same sum and pays."""
    owner = _owner(consumer.value, producer.tensor)
    if owner is None or not isinstance(owner.op, Sum):
        return None
    factors = _factors(owner.args[0])
    (read,) = (f for f in factors if isinstance(f.op, Load) and f.op.tensor == producer.tensor)
    product = _seen_at(producer, read)
    if product is None:
        return None
    others = tuple(factor for factor in factors if factor is not read)
    over = set(owner.op.axes)
    moving = (*_varying(product.inner, over), *_varying(product.outer, over), *others)
    staying = tuple(f for f in product.inner if not f.free & over)
    if len(moving) == len(others) or not any(not isinstance(f.op, Number) for f in staying):
        return None
    body = reduction(Sum(owner.op.axes), _multiplied(moving))
    intermediate, value = _stored(producer.tensor, body, consumer.axes)
    inner = reduction(Sum(product.axes), _multiplied((*staying, value)))
    turned = _multiplied((*(f for f in product.outer if not f.free & over), inner))
    before = _work(read.free | set(product.axes)) + _work(owner.free | over)
    after = _work(body.free | over) + _work(owner.free | set(product.axes))
    if after + _STORED * _work(body.free) >= _CLEARLY * before:
        return None
    result = replace(consumer, value=canonical(_replaced(consumer.value, owner, turned)))
    return _Turn(intermediate, result, Reassociation(consumer.tensor, before, after))


def _owner(value: Term, tensor: Tensor) -> Term | None:
    """The sum one of whose factors is the tensor, where nothing else in the value reads it."""
    reads = [t for t in walk(value) if isinstance(t.op, Load) and t.op.tensor == tensor]
    sums = [t for t in walk(value) if isinstance(t.op, Sum) and tensor in _tensors(_factors(t.args[0]))]
    if len(reads) != 1 or len(sums) != 1 or reads[0].dtype != sums[0].dtype:
        return None
    (owner,) = sums
    holders = sum(reads[0] in item.args for item in walk(value))
    repeated = [f for f in _factors(owner.args[0]) if f is reads[0]]
    return owner if len(repeated) == 1 and holders == 1 else None


def _tensors(factors: Iterable[Term]) -> set[Tensor]:
    return {f.op.tensor for f in factors if isinstance(f.op, Load) and not f.op.guards}


def _seen_at(producer: Definition, read: Term) -> _Product | None:
    """The producer's factors where a load reads them, its summed axes renamed apart."""
    product = _product(producer.value)
    assert isinstance(read.op, Load)
    places = _inverse(producer.indices, read.op.indices)
    if product is None or places is None or not set(producer.axes) <= places.keys():
        return None
    fresh = {axis: fresh_axis(axis.extent) for axis in product.axes}
    places |= {axis: as_expr(new) for axis, new in fresh.items()}
    return _Product(
        tuple(substitute(factor, places) for factor in product.outer),
        tuple(fresh.values()),
        tuple(substitute(factor, places) for factor in product.inner),
    )


def _inverse(written: Sequence[Expr], read: Sequence[Expr]) -> dict[Axis, Expr] | None:
    """What each axis of the producer is at the place read."""
    found: dict[Axis, Expr] = {}
    for own, place in zip(written, read, strict=True):
        if own.is_constant:
            continue
        pairs = {c: m[0] for m, c in own.terms if len(m) == 1 and isinstance(m[0], Axis)}
        if len(pairs) != len(own.terms) or own.constant:
            return None
        if len(pairs) == 1 and 1 in pairs:
            found[pairs[1]] = place
            continue
        reads = {c: m[0] for m, c in place.terms if len(m) == 1 and isinstance(m[0], Axis)}
        if reads.keys() != pairs.keys() or len(reads) != len(place.terms) or place.constant:
            return None
        if any(pairs[c].extent != reads[c].extent for c in pairs):
            return None
        found |= {pairs[c]: as_expr(reads[c]) for c in pairs}
    return found


def _varying(factors: Iterable[Term], over: set[Axis]) -> tuple[Term, ...]:
    return tuple(factor for factor in factors if factor.free & over)


def _multiplied(factors: Sequence[Term]) -> Term:
    result = factors[0]
    for factor in factors[1:]:
        result = term(Mul(), (result, factor), result.dtype)
    return result


def _stored(replaced: Tensor, body: Term, axes: Sequence[Axis]) -> tuple[Definition, Term]:
    """A definition of the value under the name of the tensor that it replaces, and the load of it.

    It lies as its reader walks it: the reader's innermost axis last, before it the axes that the reader sums.
    """
    shared = [axis for axis in axes if axis in body.free]
    summed = sorted(body.free - set(axes), key=lambda axis: (len(axis.name), axis.name))
    innermost = shared[-1:] if axes and axes[-1] in body.free else []
    order = (*shared[: len(shared) - len(innermost)], *summed, *innermost)
    named = {axis: Axis(f"i{k}", axis.extent) for k, axis in enumerate(order)}
    tensor = Tensor(replaced.name, tuple(as_size(axis.extent) for axis in order), body.dtype)
    value = canonical(substitute(body, {old: as_expr(new) for old, new in named.items()}))
    own = tuple(named.values())
    definition = Definition(tensor, own, tuple(as_expr(axis) for axis in own), value)
    return definition, load(tensor, tuple(as_expr(axis) for axis in order))


def _replaced(value: Term, old: Term, new: Term) -> Term:
    images: dict[Term, Term] = {}
    for item in walk(value):
        images[item] = new if item is old else rebuilt(item, images, {})
    return images[value]


def _work(axes: Iterable[Axis]) -> float:
    return math.prod(typical_size(axis.extent) for axis in axes)


def _whole(instance: Instance) -> Definition:
    """The instance's definition over the program's tensors."""
    template = instance.template
    return replace(template, tensor=instance.stored, value=over_tensors(template.value, instance.tensors))


def _abstract(definition: Definition) -> Instance:
    """The definition as a template over tensors named by first use, so that equal layers go on sharing one."""
    loaded = dict.fromkeys(t.op.tensor for t in walk(definition.value) if isinstance(t.op, Load))
    names = {tensor: replace(tensor, name=f"t{k}") for k, tensor in enumerate(loaded)}
    out = replace(definition.tensor, name="out")
    template = replace(definition, tensor=out, value=over_tensors(definition.value, names))
    return Instance(template, {**{own: tensor for tensor, own in names.items()}, out: definition.tensor})
