"""Running a stream in NumPy: the positions in blocks, each block from the state before or from nothing and combined."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from snell.rewrite.definition import Definition
from snell.rewrite.evaluate import evaluate_definition
from snell.rewrite.state import NEXT, PARTS
from snell.rewrite.stream import Stream
from snell.rewrite.substitution import rebuilt
from snell.rewrite.term import Load, Reduction, Tensor, Term, load, reduction, walk
from snell.symbolic import Axis, Dim, Integer, as_expr
from snell.symbolic.expression import Atom

__all__ = ["combined_in_a_tree", "combined_in_blocks", "stepped_through_blocks"]

Array = np.ndarray[Any, np.dtype[Any]]
Values = dict[str, Array]
Bounds = dict[Axis, tuple[int, int]]


def stepped_through_blocks(
    stream: Stream, cuts: Mapping[Axis, Sequence[int]], tensors: Values, sizes: Mapping[Dim, int] | None = None
) -> Values:
    """The results when one state takes in the blocks between the cuts of every axis, one after the other."""
    state = _run(stream.init, tensors, sizes)
    for block in _blocks(cuts):
        state = _step(stream, block, state, tensors, sizes)
    return _finished(stream, state, tensors, sizes)


def combined_in_blocks(
    stream: Stream, cuts: Mapping[Axis, Sequence[int]], tensors: Values, sizes: Mapping[Dim, int] | None = None
) -> Values:
    """The results when every block begins with nothing and the states of all blocks are combined at once."""
    empty = _run(stream.init, tensors, sizes)
    states = [_step(stream, block, empty, tensors, sizes) for block in _blocks(cuts)]
    return _finished(stream, _combined(stream, states or [empty], tensors, sizes), tensors, sizes)


def combined_in_a_tree(
    stream: Stream, cuts: Mapping[Axis, Sequence[int]], tensors: Values, sizes: Mapping[Dim, int] | None = None
) -> Values:
    """The results when every block begins with nothing and neighbouring states are combined in a tree."""
    empty = _run(stream.init, tensors, sizes)
    states = [_step(stream, block, empty, tensors, sizes) for block in _blocks(cuts)] or [empty]
    while len(states) > 1:
        joined = [_combined(stream, states[k : k + 2], tensors, sizes) for k in range(0, len(states) - 1, 2)]
        states = joined + states[2 * len(joined) :]
    return _finished(stream, states[0], tensors, sizes)


def _blocks(cuts: Mapping[Axis, Sequence[int]]) -> list[Bounds]:
    ranges = [list(itertools.pairwise(places)) for places in cuts.values()]
    return [dict(zip(cuts, chosen, strict=True)) for chosen in itertools.product(*ranges)]


def _step(stream: Stream, block: Bounds, state: Values, tensors: Values, sizes: Mapping[Dim, int] | None) -> Values:
    inner = {axis: Axis(f"{axis.name}_block", high - low) for axis, (low, high) in block.items()}
    own = {definition.tensor for definition in stream.step}
    lines = [_within(definition, inner, block, own) for definition in stream.step]
    return _after(stream, _run(lines, {**tensors, **state}, sizes))


def _combined(stream: Stream, states: Sequence[Values], tensors: Values, sizes: Mapping[Dim, int] | None) -> Values:
    held = {name + PARTS: np.stack([state[name] for state in states]) for name in states[0]}
    return _after(stream, _run(stream.combine(Axis("%parts", len(states))), {**tensors, **held}, sizes))


def _after(stream: Stream, values: Values) -> Values:
    return {tensor.name: values[tensor.name + NEXT] for tensor in stream.state}


def _finished(stream: Stream, state: Values, tensors: Values, sizes: Mapping[Dim, int] | None) -> Values:
    return _run(stream.finish, {**tensors, **state}, sizes)


def _run(lines: Sequence[Definition], tensors: Values, sizes: Mapping[Dim, int] | None) -> Values:
    values = dict(tensors)
    made: Values = {}
    for definition in lines:
        made[definition.tensor.name] = evaluate_definition(definition, values, sizes)
        values[definition.tensor.name] = made[definition.tensor.name]
    return made


def _within(definition: Definition, inner: Mapping[Axis, Axis], block: Bounds, own: set[Tensor]) -> Definition:
    """The definition over a block: reduced axes are the block's own, and what the step makes is as large as the block."""
    moved = {axis: as_expr(inner[axis]) + block[axis][0] for axis in inner}
    placed: dict[Atom, Integer] = {axis: as_expr(inner[axis]) for axis in inner}
    images: dict[Term, Term] = {}
    for item in walk(definition.value):
        match item.op:
            case Reduction(axes):
                op = type(item.op)(tuple(inner.get(axis, axis) for axis in axes))
                images[item] = reduction(op, images[item.args[0]])
            case Load(tensor, indices, guards) if tensor in own:
                images[item] = load(tensor, tuple(e.substitute(placed) for e in indices), guards)
            case _:
                images[item] = rebuilt(item, images, moved)
    axes = tuple(inner.get(axis, axis) for axis in definition.axes)
    places = tuple(e.substitute(placed) for e in definition.indices)
    return Definition(_shaped(definition, inner), axes, places, images[definition.value])


def _shaped(definition: Definition, inner: Mapping[Axis, Axis]) -> Tensor:
    sizes = tuple(
        as_expr(inner[axis].extent) if axis in inner else as_expr(size)
        for axis, size in zip(definition.axes, definition.tensor.shape, strict=True)
    )
    tensor = definition.tensor
    return Tensor(tensor.name, sizes, tensor.dtype)
