"""The state of a stream as tensors: a component each, and the definitions that begin, advance and combine them.

Values before a step (or of the two sides of a combination) and after it are different tensors, so that the definitions
of one step may be evaluated one after the other: `%m0` becomes `%m0'`, and `%m0.left` and `%m0.right` become `%m0'`.
No tensor of a program has a name that begins so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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

__all__ = ["LEFT", "NEXT", "RIGHT", "State", "renamed"]

LEFT, RIGHT, NEXT = ".left", ".right", "'"


def renamed(tensor: Tensor, suffix: str) -> Tensor:
    """The state's tensor on one side of a step or a combination."""
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

    def init(self) -> tuple[Definition, ...]:
        """The state before any position."""
        return tuple(self.stored(c, identity(c), "") for c in self.components)

    def step(self) -> tuple[Definition, ...]:
        """The state after the positions of the reduced axes, from the one before."""
        return _Joining(self, ("",), takes_block=True).lines()

    def combine(self) -> tuple[Definition, ...]:
        """The state of all positions from those of two parts."""
        return _Joining(self, (LEFT, RIGHT), takes_block=False).lines()

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
    """One step under construction: states of `sides` join, and the positions of a block where `takes_block`."""

    state: State
    sides: tuple[str, ...]
    takes_block: bool
    made: list[Definition] = field(default_factory=list[Definition])
    stored: dict[Term, Term] = field(default_factory=dict[Term, Term])
    after: dict[Component, Term] = field(default_factory=dict[Component, Term])
    origins: dict[Term, Term] = field(default_factory=dict[Term, Term])
    rescales: dict[tuple[Reference, str], Term] = field(default_factory=dict[tuple[Reference, str], Term])
    exponentials: dict[Reference, Term] = field(default_factory=dict[Reference, Term])

    def lines(self) -> tuple[Definition, ...]:
        if self.takes_block:
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

    def _sum(self, body: Term) -> Term:
        return reduction(Sum(self.state.axes), body)

    # -- references

    def _origin(self, exponent: Term) -> Term:
        """What is subtracted from an exponent: the greatest so far, 0 where it is not finite."""
        if exponent not in self.origins:
            greatest = Greatest(exponent)
            name = f"{self.state.tensor(greatest).name}.origin"
            self.origins[exponent] = self._define(name, finite_or_zero(self.after[greatest]))
        return self.origins[exponent]

    def _rescale(self, weights: Weights, side: str) -> Term | None:
        reference = weights.reference
        if reference is None:
            return None
        if (reference, side) not in self.rescales:
            before = self.state.value(Greatest(reference.exponent), side)
            value = exponential(reference, subtract(before, self._origin(reference.exponent)))
            self.rescales[reference, side] = self._define(f"%s{len(self.rescales)}", value)
        return self.rescales[reference, side]

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
                values = [self.state.value(component, side) for side in self.sides]
                block = [reduction(Max(self.state.axes), self._seen(body))] if self.takes_block else []
                return _folded(maximum, [*values, *block])
            case Total(body):
                values = [self.state.value(component, side) for side in self.sides]
                block = [self._sum(self._seen(body))] if self.takes_block else []
                return _folded(add, [*values, *block])
            case Mass(weights):
                values = [
                    _scaled(self._rescale(weights, side), self.state.value(component, side)) for side in self.sides
                ]
                return self._with_block(values, weights, number(1, weights.like.dtype), sized=True)
            case Mean(weights, value):
                return self._mean(component, weights, value)
            case Moment(weights, _):
                return self._moment(component, weights)

    def _with_block(self, values: list[Term], weights: Weights, rest: Term, *, sized: bool = False) -> Term:
        if self.takes_block:
            each = self._exponential(weights)
            body = (weights.size if sized else weights.at)(each, self._seen(rest))
            values = [*values, self._sum(self._seen(body))]
        return _folded(add, values)

    def _mean(self, component: Mean, weights: Weights, value: Term) -> Term:
        mass = mass_of(weights)
        values: list[Term] = []
        for side in self.sides:
            held = _scaled(self._rescale(weights, side), self.state.value(mass, side))
            values.append(multiply(held, self.state.value(component, side)))
        total = self._with_block(values, weights, value, sized=True)
        whole = self.after[mass]
        return choose(less(number(0, whole.dtype), whole), divide(total, whole), number(0, whole.dtype))

    def _moment(self, moment: Moment, weights: Weights) -> Term:
        means = {value: Mean(weights, value) for value, _ in moment.powers}
        values: list[Term] = []
        for side in self.sides:
            distances = {
                value: subtract(self.state.value(mean, side), self.after[mean]) for value, mean in means.items()
            }
            known = {
                c: self.state.value(c, side)
                for c in self.state.components
                if isinstance(c, Moment) and c.weights == weights
            }
            values.append(moved(moment, distances, known, self._rescale(weights, side)))
        return self._with_block(values, weights, central(moment, {v: self.after[m] for v, m in means.items()}))


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


def _folded(function: Callable[[Term, Term], Term], values: Sequence[Term]) -> Term:
    result = values[0]
    for value in values[1:]:
        result = function(result, value)
    return result
