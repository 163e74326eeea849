"""Streams: several reductions over the same axes, some depending on others, computed in one pass over the positions.

`stream_of(definitions, axes)` takes definitions whose values hold reductions over `axes` (the chain between them already
put back in place, `rewrite.chain`) and gives a `Stream`: a state with its identity, a step that takes in the positions
of a block, the combination of the states of parts, and the definitions worked out from the final state.  Every part is a
sequence of definitions, so whatever runs definitions runs a stream.  Where there is no such form, the reason is given.

A result equals the definition's wherever that is finite; where a row has nothing finite, a NaN may become 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from snell.graph.primitives import Mul
from snell.rewrite.arithmetic import (
    add,
    applied,
    both,
    choose,
    constant_of,
    finite_or_zero,
    less,
    multiply,
    negative_infinity,
    replaced,
    scale,
    select,
)  # fmt: skip
from snell.rewrite.definition import Definition
from snell.rewrite.moments import (
    Component,
    Greatest,
    Mean,
    Moment,
    Powers,
    Reference,
    Total,
    Weights,
    components_of,
    polynomial,
)  # fmt: skip
from snell.rewrite.separate import Addend, Separated, holds_finished, separate
from snell.rewrite.state import State
from snell.rewrite.term import Max, Reduction, Tensor, Term, index, number, walk
from snell.symbolic import Axis, as_expr

__all__ = ["Stream", "stream_axes", "stream_of"]


@dataclass(frozen=True, slots=True)
class Stream:
    """Reductions over `axes` in one pass; the parts are definitions in the order in which they are worked out.

    `init` gives every tensor of `state`; `step` gives `m'` from `m` and the positions of `axes`, `finish` gives the
    results from `m`.  Where the positions are taken in parts, `part` keeps the states `m.parts` of all of them and
    `combine` gives `m'` from those.
    """

    axes: tuple[Axis, ...]
    components: State
    init: tuple[Definition, ...]
    step: tuple[Definition, ...]
    finish: tuple[Definition, ...]

    @property
    def state(self) -> tuple[Tensor, ...]:
        """What is kept of the positions so far."""
        return tuple(self.components.tensor(component) for component in self.components.components)

    def part(self, parts: Axis) -> tuple[Definition, ...]:
        """The state of one part among those of all, which lie along `parts`."""
        return tuple(self.components.part(component, parts) for component in self.components.components)

    def combine(self, parts: Axis) -> tuple[Definition, ...]:
        """The state of all positions from those of the parts."""
        return self.components.combine(parts)

    def __str__(self) -> str:
        parts = [("init", self.init), ("step", self.step), ("finish", self.finish)]
        lines = [f"stream over {', '.join(map(str, self.axes))}"]
        for name, definitions in parts:
            lines += [f"  {name}", *(f"    {definition}" for definition in definitions)]
        return "\n".join(lines)


def stream_axes(definitions: Sequence[Definition]) -> tuple[tuple[Axis, ...], ...]:
    """Axis sets over which a reduction depends on a finished one: where a stream would save a pass."""
    found: dict[frozenset[Axis], tuple[Axis, ...]] = {}
    for item in walk(*(definition.value for definition in definitions)):
        if isinstance(item.op, Reduction) and holds_finished(item.args[0], frozenset(item.op.axes)):
            found.setdefault(frozenset(item.op.axes), item.op.axes)
    return tuple(found.values())


def stream_of(definitions: Sequence[Definition], axes: tuple[Axis, ...]) -> Stream | str:
    """The stream that computes the definitions in one pass over `axes`, or why there is none."""
    forms: dict[Term, _Form] = {}
    for item in _finished(definitions, frozenset(axes)):
        separated = separate(item, frozenset(axes))
        if isinstance(separated, str):
            return separated
        form = _form(item, separated, frozenset(axes))
        if isinstance(form, str):
            return form
        forms[item] = form
    order = list(dict.fromkeys(axis for definition in definitions for axis in definition.axes))
    state = State.of(axes, order, (c for form in forms.values() for c in form.components()))
    finishing = _Finishing(state, forms)
    finish = tuple(replace(d, value=finishing.value(d.value)) for d in definitions)
    return Stream(axes, state, state.init(), state.step(), finish)


def _finished(definitions: Sequence[Definition], axes: frozenset[Axis]) -> Iterator[Term]:
    """The reductions over exactly `axes` that do not depend on them, those inside others first."""
    for item in walk(*(definition.value for definition in definitions)):
        if isinstance(item.op, Reduction) and frozenset(item.op.axes) == axes and not item.free & axes:
            yield item


@dataclass(frozen=True, slots=True)
class _Form:
    """A reduction by its components: a maximum or a total as it is, else a polynomial in moments."""

    separated: Separated
    whole: Greatest | Total | None
    factor: Fraction = Fraction(1)
    weights: Weights | None = None
    powers: Powers = ()

    def components(self) -> Iterator[Component]:
        if self.whole is not None:
            yield self.whole
        elif self.weights is not None:
            yield from components_of(self.weights, self.powers)


def _form(item: Term, separated: Separated, axes: frozenset[Axis]) -> _Form | str:
    parts = [separated.condition, separated.weight, separated.exponent, *(base.value for base in separated.bases)]
    for part in parts:
        if part is not None and holds_finished(part, axes):
            return f"it is not known what depends on a finished reduction: {part}"
    if isinstance(item.op, Max):
        assert separated.exponent is not None
        factor, exponent = _stripped(separated.exponent)
        return _Form(separated, Greatest(exponent), factor)
    one = number(1, item.dtype)
    waits = any(holds_finished(addend.value, axes) for addend in separated.shift)
    if not waits and not separated.bases:
        return _Form(separated, Total(_body(separated, one)))
    weights = Weights(one, _reference(separated), separated.condition, separated.weight)
    powers: dict[Term, int] = {}
    for base in separated.bases:
        powers[base.value] = powers.get(base.value, 0) + base.power
    return _Form(separated, None, weights=weights, powers=tuple(powers.items()))


def _body(separated: Separated, one: Term) -> Term:
    """What a sum adds up that waits for nothing."""
    value = one if separated.weight is None else separated.weight
    if separated.exponent is not None:
        assert separated.function is not None
        exponent = separated.exponent
        for addend in separated.shift:
            exponent = add(exponent, addend.term)
        value = multiply(value, applied(separated.function, exponent))
    return select(separated.condition, value)


def _reference(separated: Separated) -> Reference | None:
    """The running reference of an exponent: only positions under the condition count."""
    if separated.exponent is None:
        return None
    assert separated.function is not None
    factor, exponent = _stripped(separated.exponent)
    if separated.condition is not None:
        exponent = choose(separated.condition, exponent, negative_infinity(exponent))
    return Reference(separated.function, factor, exponent)


def _stripped(item: Term) -> tuple[Fraction, Term]:
    """`k · x` with k a positive constant, as (k, x): references of proportional terms are one."""
    factor = Fraction(1)
    while isinstance(item.op, Mul):
        constant = next((c for argument in item.args if (c := constant_of(argument)) is not None), None)
        if constant is None or constant <= 0:
            break
        item = next(argument for argument in item.args if constant_of(argument) != constant)
        factor *= constant
    return factor, item


@dataclass(slots=True)
class _Finishing:
    """Reductions worked out from the final state, each once."""

    state: State
    forms: dict[Term, _Form]
    values: dict[Term, Term] = field(default_factory=dict[Term, Term])

    def value(self, root: Term) -> Term:
        """The term with every finished reduction replaced."""
        for item in [part for part in walk(root) if part in self.forms]:
            if item not in self.values:
                self.values[item] = self._reduced(item, self.forms[item])
        return replaced(root, self.values)

    def _reduced(self, item: Term, form: _Form) -> Term:
        separated = form.separated
        if isinstance(form.whole, Greatest):
            result = scale(form.factor, self.state.value(form.whole))
            for addend in separated.shift:
                result = add(result, self._addend(addend))
            return result
        if form.whole is not None:
            result = self.state.value(form.whole)
        else:
            result = self._moments(form)
        outside = self.value(separated.outside)
        result = multiply(outside, result)
        if constant_of(outside) is None and isinstance(item.op, Reduction):
            result = select(_is_not_empty(item.op.axes), result)
        return result

    def _addend(self, addend: Addend) -> Term:
        return scale(addend.coefficient, self.value(addend.value))

    def _moments(self, form: _Form) -> Term:
        assert form.weights is not None
        rows = {value: [number(1, value.dtype)] for value, _ in form.powers}
        for base in form.separated.bases:
            distance = self.state.value(Mean(form.weights, base.value))
            for addend in base.centre:
                distance = add(distance, self._addend(addend))
            for _ in range(base.power):
                rows[base.value] = _times(rows[base.value], distance)
        known = {
            c: self.state.value(c) for c in self.state.components if isinstance(c, Moment) and c.weights == form.weights
        }
        result = polynomial(form.weights, list(rows), list(rows.values()), known)
        factor = self._factor(form.weights.reference, form.separated.shift)
        return result if factor is None else multiply(factor, result)

    def _factor(self, reference: Reference | None, shift: Sequence[Addend]) -> Term | None:
        """`f(k·E + shift)`, None where the shift takes back exactly what the reference was."""
        if reference is None:
            return None
        greatest = Greatest(reference.exponent)
        left = list(shift)
        for addend in shift:
            form = self.forms.get(addend.value)
            if form is None or form.whole != greatest or form.separated.shift:
                continue
            if addend.coefficient * form.factor == -reference.factor:
                left.remove(addend)
                return None if not left else applied(reference.function, self._total(left))
        origin = scale(reference.factor, finite_or_zero(self.state.value(greatest)))
        return applied(reference.function, add(origin, self._total(left)) if left else origin)

    def _total(self, addends: Sequence[Addend]) -> Term:
        result = self._addend(addends[0])
        for addend in addends[1:]:
            result = add(result, self._addend(addend))
        return result


def _times(row: Sequence[Term], distance: Term) -> list[Term]:
    """Coefficients of a polynomial times `(z + distance)`."""
    result = [multiply(row[0], distance)]
    for k in range(1, len(row)):
        result.append(add(row[k - 1], multiply(row[k], distance)))
    return [*result, row[-1]]


def _is_not_empty(axes: Sequence[Axis]) -> Term | None:
    """Whether there is a position, None where there always is."""
    open_ = [axis for axis in axes if as_expr(axis.extent).bounds()[0] < 1]
    conditions = [less(index(as_expr(0)), index(as_expr(axis.extent))) for axis in open_]
    result: Term | None = None
    for condition in conditions:
        result = both(result, condition)
    return result
