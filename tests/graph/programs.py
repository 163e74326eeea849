"""Random graphs over a few inputs, for the tests of the interpreter, the text form and the lowering."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st
from tests.symbolic.chains import apply_to_view, chains

from snell.dtypes import DType, bool_, f32, i32, i64
from snell.graph.node import Builder, Graph, Node, Operand, full_view
from snell.graph.primitives import (
    Add,
    Constant,
    Contiguous,
    Exp2,
    Input,
    Iota,
    LessThan,
    MaxReduce,
    Mul,
    ScalarFunction,
    Sin,
    SumReduce,
)
from snell.symbolic import Shape, View

Array = np.ndarray[Any, np.dtype[Any]]


class Sketch:
    """A Builder with the few shorthands tests need."""

    def __init__(self) -> None:
        self.builder = Builder()

    def input(self, name: str, shape: Shape, dtype: DType = f32, **options: Any) -> Operand:
        return full_view(self.builder.add(Input(name, shape, dtype, **options)))

    def constant(self, value: int | Fraction | float, dtype: DType = f32, shape: Shape = ()) -> Operand:
        scalar = full_view(self.builder.add(Constant(value, dtype)))
        return Operand(scalar.node, scalar.view.expand(shape))

    def iota(self, extent: Any, dtype: DType = i64) -> Operand:
        return full_view(self.builder.add(Iota(extent, dtype)))

    def apply(self, op: Any, *operands: Operand) -> Operand:
        return full_view(self.builder.add(op, operands))

    def move(self, operand: Operand, kind: str, *arguments: Any) -> Operand:
        return Operand(operand.node, apply_to_view(operand.view, (kind, *arguments)))

    def equal(self, a: Operand, b: Operand) -> Operand:
        return self.apply(Mul(), self.negate(self.apply(LessThan(), a, b)), self.negate(self.apply(LessThan(), b, a)))

    def negate(self, condition: Operand) -> Operand:
        return self.apply(LessThan(), condition, self.constant(1, bool_, condition.shape))


@st.composite
def programs(draw: st.DrawFn, steps: int = 7) -> tuple[Graph, dict[str, Array]]:
    """A graph of f32, i32 and bool nodes with static shapes, and values for its inputs."""
    sketch = Sketch()
    values: dict[str, Array] = {}
    generator = np.random.default_rng(draw(st.integers(0, 1 << 16)))
    pool: list[Operand] = []
    for name, dtype in (("x", f32), ("y", f32), ("n", i32)):
        shape = draw(st.sampled_from([(6,), (4, 3), (2, 6), (12,), (2, 3, 4)]))
        data = generator.integers(-4, 5, shape) if dtype == i32 else generator.normal(size=shape)
        values[name] = data.astype(dtype.numpy)
        pool.append(sketch.input(name, shape, dtype))
    for _ in range(draw(st.integers(1, steps))):
        pool.append(_step(draw, sketch, draw(st.sampled_from(pool))))
    chosen = draw(st.lists(st.sampled_from(pool), min_size=1, max_size=2))
    outputs = tuple((f"out{k}", _moved(draw, operand)) for k, operand in enumerate([*chosen, pool[-1]]))
    return Graph(outputs), values


def _moved(draw: st.DrawFn, operand: Operand) -> Operand:
    shape = tuple(int(n) for n in operand.shape)
    if not shape or math.prod(shape) > 1000:
        return operand
    view, _ = draw(chains(shape, longest=2))
    return Operand(operand.node, operand.view.then(view)) if math.prod(map(int, view.shape)) < 3000 else operand


def _step(draw: st.DrawFn, sketch: Sketch, operand: Operand) -> Operand:
    operand = _moved(draw, operand)
    kind = draw(st.sampled_from(["reduce", "reduce", "binary", "unary", "select", "cast", "position"]))
    if kind == "reduce" and operand.shape and operand.dtype != bool_:
        axes = tuple(sorted(draw(st.sets(st.integers(0, len(operand.shape) - 1), min_size=1))))
        empty = any(operand.shape[k] == 0 for k in axes)
        return sketch.apply(SumReduce(axes) if empty or draw(st.booleans()) else MaxReduce(axes), operand)
    if kind == "unary" and operand.dtype == f32:
        bounded = sketch.apply(ScalarFunction("tanh"), operand)
        return sketch.apply(draw(st.sampled_from([Sin(), Exp2(), ScalarFunction("erf")])), bounded)
    if kind == "cast" and operand.dtype != bool_:
        return sketch.apply(Contiguous(draw(st.sampled_from([f32, i32]))), sketch.apply(Contiguous(i32), operand))
    if kind == "position" and operand.shape and operand.dtype != bool_:
        return _masked_by_position(draw, sketch, operand)
    return _binary(draw, sketch, operand, kind == "select")


def _binary(draw: st.DrawFn, sketch: Sketch, operand: Operand, selects: bool) -> Operand:
    other = operand
    if operand.shape and draw(st.booleans()):
        flipped = tuple(n - 1 for n in map(int, operand.shape))
        if min(flipped) >= 0:
            other = sketch.move(operand, "slice", flipped, operand.shape, (-1,) * len(flipped))
    if operand.dtype == bool_:
        return sketch.apply(Mul(), operand, sketch.negate(other))
    if selects:
        one = sketch.constant(1, operand.dtype, operand.shape)
        return sketch.apply(Mul(), sketch.apply(LessThan(), other, one), operand)
    return sketch.apply(draw(st.sampled_from([Add(), Mul()])), operand, other)


def _masked_by_position(draw: st.DrawFn, sketch: Sketch, operand: Operand) -> Operand:
    axis = draw(st.integers(0, len(operand.shape) - 1))
    lead = (1,) * (len(operand.shape) - 1 - axis)
    places = sketch.move(sketch.iota(operand.shape[axis]), "reshape", (operand.shape[axis], *lead))
    wide = sketch.move(places, "expand", operand.shape)
    target = sketch.constant(draw(st.integers(-1, 5)), i64, operand.shape)
    mask = draw(st.sampled_from([sketch.equal(wide, target), sketch.apply(LessThan(), wide, target)]))
    return sketch.apply(Mul(), mask, operand)


def elementary(graph: Graph) -> tuple[Node, ...]:
    """Nodes that are not sources, producers first: what a definition may store."""
    return tuple(n for n in graph.nodes() if n.operands)


def identity_view(node: Node) -> View:
    return View.identity(node.shape)
