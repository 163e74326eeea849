"""The state of a stream as tensors: a component each, and the definitions that begin, advance and combine them.

Values before a step (or of the parts of a combination) and after it are different tensors, so that the definitions of
one step may be evaluated one after the other: `%m0` becomes `%m0'`, and the states `%m0.parts`, one for each position of
an axis of parts, become `%m0'`.  No tensor of a program has a name that begins so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from snell.dtypes import DType
from snell.rewrite.arithmetic import (
    add,
    choose,
    divide,
    finite_or_zero,
    less,
    maximum,
    multiply,
    replaced,
    subtract,
)  # fmt: skip
from snell.rewrite.definition import Definition
from snell.rewrite.moments import (
    Component,
    Greatest,
    Mass,
    Mean,
    Moment,
    Reference,
    Total,
    Weights,
    central,
    exponential,
    free_axes,
    identity,
    mass_of,
    moved,
)  # fmt: skip
from snell.rewrite.term import Max, Reduction, Sum, Tensor, Term, children, load, number, reduction
from snell.symbolic import Axis, as_expr, as_size

__all__ = ["NEXT", "PARTS", "State", "renamed"]

PARTS, NEXT = ".parts", "'"


def renamed(tensor: Tensor, suffix: str) -> Tensor:
    """The state's tensor after a step or a combination."""
    return replace(tensor, name=tensor.name + suffix)


@dataclass(frozen=True, slots=True)
class State:
    """Components in an order in which each needs only earlier ones; `order` sorts the axes of their tensors."""

    axes: tuple[Axis, ...]
    order: tuple[Axis, ...]
    components: tuple[Component, ...]

    @staticmethod
    def of(axes: tuple[Axis, ...], order: Sequence[Axis], components: Iterable[Component]) -> State:
        """A state of the distinct components."""
        distinct = tuple(sorted(dict.fromkeys(components), key=_rank))
        return State(axes, tuple(order), distinct)

    def axes_of(self, component: Component) -> tuple[Axis, ...]:
        """The axes of a component's tensor."""
        return self.sorted(free_axes(component) - set(self.axes))

    def sorted(self, axes: frozenset[Axis]) -> tuple[Axis, ...]:
        """Known axes in their order, the reduced ones before those that nothing names."""
        known = {axis: k for k, axis in enumerate((*self.order, *self.axes))}
        return tuple(sorted(axes, key=lambda axis: (known.get(axis, len(known)), axis.name)))

    def tensor(self, component: Component) -> Tensor:
        """Where a component is kept."""
        axes = self.axes_of(component)
        name = f"%m{self.components.index(component)}"
        return Tensor(name, tuple(as_size(axis.extent) for axis in axes), _dtype(component))

    def value(self, component: Component, suffix: str = "") -> Term:
        """The component as a term of its axes."""
        axes = self.axes_of(component)
        return load(renamed(self.tensor(component), suffix), tuple(as_expr(axis) for axis in axes))

    def part(self, component: Component, parts: Axis) -> Definition:
        """The component of one part, where all parts are kept: the parts' axis comes first."""
        tensor, axes = self.tensor(component), (parts, *self.axes_of(component))
        held = Tensor(tensor.name + PARTS, (as_size(parts.extent), *tensor.shape), tensor.dtype)
        return Definition(held, axes, tuple(as_expr(axis) for axis in axes), self.value(component))

    def init(self) -> tuple[Definition, ...]:
        """The state before any position."""
        return tuple(self.stored(c, identity(c), "") for c in self.components)

    def step(self) -> tuple[Definition, ...]:
        """The state after the positions of the reduced axes, from the one before."""
        return _Joining(self, None).lines()

    def combine(self, parts: Axis) -> tuple[Definition, ...]:
        """The state of all positions from those of parts of them, one at each position of an axis."""
        return _Joining(self, parts).lines()

    def stored(self, component: Component, value: Term, suffix: str) -> Definition:
        """The definition of a component's tensor."""
        axes = self.axes_of(component)
        return Definition(renamed(self.tensor(component), suffix), axes, tuple(as_expr(axis) for axis in axes), value)


def _rank(component: Component) -> tuple[int, int]:
    match component:
        case Greatest():
            return 0, 0
        case Mass():
            return 1, 0
        case Moment(_, powers):
            return (3, sum(n for _, n in powers)) if powers else (1, 1)
        case Mean():
            return 2, 0
        case Total():
            return 4, 0


def _dtype(component: Component) -> DType:
    return identity(component).dtype


@dataclass(slots=True)
class _Joining:
    """One step under construction: the positions of a block join the state before, or the states of `parts` join."""

    state: State
    parts: Axis | None
    made: list[Definition] = field(default_factory=list[Definition])
    stored: dict[Term, Term] = field(default_factory=dict[Term, Term])
    after: dict[Component, Term] = field(default_factory=dict[Component, Term])
    origins: dict[Term, Term] = field(default_factory=dict[Term, Term])
    rescales: dict[Reference, Term] = field(default_factory=dict[Reference, Term])
    exponentials: dict[Reference, Term] = field(default_factory=dict[Reference, Term])

    def lines(self) -> tuple[Definition, ...]:
        if self.parts is None:
            self._store_elements()
        for component in self.state.components:
            value = self._joined(component)
            self.made.append(self.state.stored(component, value, NEXT))
            self.after[component] = self.state.value(component, NEXT)
        return tuple(self.made)

    def _define(self, name: str, value: Term) -> Term:
        """A value of its own inside the step, over what it depends on."""
        axes = self.state.sorted(value.free)
        places = tuple(as_expr(axis) for axis in axes)
        tensor = Tensor(name, tuple(as_size(axis.extent) for axis in axes), value.dtype)
        self.made.append(Definition(tensor, axes, places, value))
        return load(tensor, places)

    # -- what a block's positions are made of

    def _store_elements(self) -> None:
        """Reductions at each position are stored once a block, as part of the exponent where they are one."""
        roots = [part for component in self.state.components for part in _parts(component)]
        exponents = [c.body for c in self.state.components if isinstance(c, Greatest)]
        for body in exponents:
            if self._reductions(body):
                self.stored[body] = self._define(f"%x{len(self.stored)}", body)
        for root in roots:
            for inner in self._reductions(self._seen(root)):
                self.stored[inner] = self._define(f"%x{len(self.stored)}", inner)

    def _reductions(self, root: Term) -> list[Term]:
        """The outermost reductions below a term that differ from position to position."""
        found: dict[Term, None] = {}
        stack, seen = [root], {root}
        while stack:
            item = stack.pop()
            if isinstance(item.op, Reduction) and item.free & set(self.state.axes):
                found[item] = None
                continue
            below = [child for child in children(item) if child not in seen]
            seen.update(below)
            stack.extend(below)
        return list(found)

    def _seen(self, item: Term) -> Term:
        return replaced(item, self.stored) if self.stored else item

    # -- what there was before

    def _held(self, component: Component) -> Term:
        """A component before the step, or that of one part."""
        if self.parts is None:
            return self.state.value(component)
        part = self.state.part(component, self.parts)
        return load(part.tensor, part.indices)

    def _joins(self, held: Term, block: Term | None) -> Term:
        """A sum with what the block's positions add, or the sum over all parts."""
        if self.parts is not None:
            return reduction(Sum((self.parts,)), held)
        assert block is not None
        return add(held, reduction(Sum(self.state.axes), block))

    # -- references

    def _origin(self, exponent: Term) -> Term:
        """What is subtracted from an exponent: the greatest so far, 0 where it is not finite."""
        if exponent not in self.origins:
            greatest = Greatest(exponent)
            name = f"{self.state.tensor(greatest).name}.origin"
            self.origins[exponent] = self._define(name, finite_or_zero(self.after[greatest]))
        return self.origins[exponent]

    def _rescale(self, weights: Weights) -> Term | None:
        reference = weights.reference
        if reference is None:
            return None
        if reference not in self.rescales:
            before = self._held(Greatest(reference.exponent))
            value = exponential(reference, subtract(before, self._origin(reference.exponent)))
            self.rescales[reference] = self._define(f"%s{len(self.rescales)}", value)
        return self.rescales[reference]

    def _exponential(self, weights: Weights) -> Term | None:
        """The exponential at each position, stored where several sums use it or one uses it many times."""
        reference = weights.reference
        if reference is None:
            return None
        if reference not in self.exponentials:
            origin = self._origin(reference.exponent)
            value = exponential(reference, subtract(self._seen(reference.exponent), origin))
            used = [c for c in self.state.components if _reference(c) == reference]
            wide = any(free_axes(c) - reference.exponent.free for c in used)
            self.exponentials[reference] = (
                self._define(f"%p{len(self.exponentials)}", value) if wide or len(used) > 1 else value
            )
        return self.exponentials[reference]

    # -- components

    def _joined(self, component: Component) -> Term:
        match component:
            case Greatest(body):
                held = self._held(component)
                if self.parts is not None:
                    return reduction(Max((self.parts,)), held)
                return maximum(held, reduction(Max(self.state.axes), self._seen(body)))
            case Total(body):
                return self._joins(self._held(component), self._seen(body))
            case Mass(weights):
                held = _scaled(self._rescale(weights), self._held(component))
                return self._with_block(held, weights, number(1, weights.like.dtype), sized=True)
            case Mean(weights, value):
                return self._mean(component, weights, value)
            case Moment(weights, _):
                return self._moment(component, weights)

    def _with_block(self, held: Term, weights: Weights, rest: Term, *, sized: bool = False) -> Term:
        if self.parts is not None:
            return self._joins(held, None)
        each = self._exponential(weights)
        body = (weights.size if sized else weights.at)(each, self._seen(rest))
        return self._joins(held, self._seen(body))

    def _mean(self, component: Mean, weights: Weights, value: Term) -> Term:
        mass = mass_of(weights)
        held = multiply(_scaled(self._rescale(weights), self._held(mass)), self._held(component))
        total = self._with_block(held, weights, value, sized=True)
        whole = self.after[mass]
        return choose(less(number(0, whole.dtype), whole), divide(total, whole), number(0, whole.dtype))

    def _moment(self, moment: Moment, weights: Weights) -> Term:
        means = {value: Mean(weights, value) for value, _ in moment.powers}
        distances = {value: subtract(self._held(mean), self.after[mean]) for value, mean in means.items()}
        known = {c: self._held(c) for c in self.state.components if isinstance(c, Moment) and c.weights == weights}
        held = moved(moment, distances, known, self._rescale(weights))
        return self._with_block(held, weights, central(moment, {v: self.after[m] for v, m in means.items()}))


def _parts(component: Component) -> tuple[Term, ...]:
    """The terms a component evaluates at each position."""
    match component:
        case Greatest(body) | Total(body):
            return (body,)
        case Mean(weights, value):
            return (*_weight_parts(weights), value)
        case Mass(weights):
            return _weight_parts(weights)
        case Moment(weights, powers):
            return (*_weight_parts(weights), *(value for value, _ in powers))


def _weight_parts(weights: Weights) -> tuple[Term, ...]:
    return tuple(part for part in (weights.condition, weights.weight) if part is not None)


def _reference(component: Component) -> Reference | None:
    return component.weights.reference if isinstance(component, Mass | Mean | Moment) else None


def _scaled(rescale: Term | None, value: Term) -> Term:
    return value if rescale is None else multiply(rescale, value)
