"""Random terms: every extraction, under every policy that promises it, equals the original wherever that is finite."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest
from hypothesis import given, settings
from tests.graph.programs import elementary, programs
from tests.rewrite.judge import assert_equal

from snell.dtypes import DType, bool_, f32, i8, i32, u4
from snell.graph.node import Graph
from snell.graph.primitives import Recip, Sqrt
from snell.rewrite.evaluate import evaluate
from snell.rewrite.index import definitions
from snell.rewrite.policy import Policy
from snell.rewrite.rewrite import equal_terms, rewrite_terms
from snell.rewrite.rules.notation import (
    I,
    J,
    K,
    add,
    apply,
    exp2,
    less,
    max_,
    maximum,
    mul,
    negate,
    number,
    select,
    sum_,
    tensor,
)  # fmt: skip
from snell.rewrite.term import Not, Term, cast, term
from snell.symbolic import Axis

SECONDS = 5.0


class Generator:
    """Draws scalar terms over the axes i, j, k."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def leaf(self, axes: set[Axis], dtype: DType) -> Term:
        if self.random.random() < 0.15:
            return number(self.random.choice([-2, -1, 0, 1, 2, 3]), dtype)
        chosen = [a for a in sorted(axes, key=str) if self.random.random() < 0.7] or sorted(axes, key=str)[:1]
        name = f"{'w' if dtype == f32 else 'n'}{''.join(map(str, chosen))}{self.random.randrange(2)}"
        return tensor(name, *chosen, dtype=dtype)

    def integer(self, axes: set[Axis], depth: int) -> Term:
        """An i32 term."""
        if depth <= 0 or self.random.random() < 0.2:
            return self.leaf(axes, i32)
        a, b = self.integer(axes, depth - 1), self.integer(axes, depth - 1)
        match self.random.choice(["add", "mul", "negate", "select", "sum", "max"]):
            case "add":
                return add(a, b)
            case "mul":
                return mul(a, b)
            case "negate":
                return negate(a)
            case "select":
                return select(less(a, b), self.integer(axes, depth - 1))
            case kind:
                axis = self.random.choice([J, K])
                return (sum_ if kind == "sum" else max_)(self.integer(axes | {axis}, depth - 1), axis)

    def field(self, axes: set[Axis]) -> Term:
        """A quantised value as a float."""
        chosen = sorted(axes, key=str)
        dtype = self.random.choice([u4, i8])
        return cast(tensor(f"q{dtype}{''.join(map(str, chosen))}", *chosen, dtype=dtype), f32)

    def float(self, axes: set[Axis], depth: int) -> Term:
        if depth <= 0 or self.random.random() < 0.12:
            return self.field(axes) if self.random.random() < 0.3 else self.leaf(axes, f32)
        draw = self.random.choice(
            ["add", "subtract", "mul", "mul", "mul", "scale", "unary", "select", "else", "sum", "sum", "max", "block"]
        )
        return self.composed(draw, axes, depth - 1)

    def composed(self, draw: str, axes: set[Axis], depth: int) -> Term:
        match draw:
            case "add":
                return add(self.float(axes, depth), self.float(axes, depth))
            case "subtract":
                return add(self.float(axes, depth), negate(self.float(axes, depth)))
            case "mul":
                return mul(self.float(axes, depth), self.float(axes, depth))
            case "scale":
                return mul(self.float(axes, depth), number(self.random.choice([-2, -1, 3, 0.5])))
            case "unary":
                return self.unary(axes, depth)
            case "select" | "else":
                return self.selection(draw, axes, depth)
            case "block":
                return self.block(axes, depth)
            case _:
                axis = self.random.choice([J, K])
                return (sum_ if draw == "sum" else max_)(self.float(axes | {axis}, depth), axis)

    def unary(self, axes: set[Axis], depth: int) -> Term:
        a = self.float(axes, depth)
        match self.random.choice(["exp2", "recip", "sqrt", "relu"]):
            case "exp2":
                return exp2(mul(maximum(negate(mul(a, a)), number(-4)), number(0.5)))
            case "recip":
                return apply(Recip(), add(mul(a, a), number(1)))
            case "sqrt":
                return apply(Sqrt(), mul(a, a))
            case _:
                return maximum(a, number(0))

    def block(self, axes: set[Axis], depth: int) -> Term:
        """A sum of (scale·code + least)·anything over two axes, of which the scales depend on one."""
        outer = axes | {J}
        weight = add(mul(self.leaf(outer, f32), self.field(outer | {K})), self.leaf(outer, f32))
        factor = self.field(outer | {K}) if self.random.random() < 0.4 else self.float(outer | {K}, depth - 1)
        return sum_(mul(weight, factor), J, K)

    def selection(self, draw: str, axes: set[Axis], depth: int) -> Term:
        condition = less(self.float(axes, depth), self.float(axes, depth))
        first = select(condition, self.float(axes, depth))
        if draw == "select":
            return first
        return add(first, select(term(Not(), (condition,), bool_), self.float(axes, depth)))


@pytest.mark.parametrize("kind", ["float", "integer"])
@pytest.mark.parametrize("policy", [Policy.STRICT, Policy.DEFAULT])
def test_random_terms_keep_their_value_in_every_extraction(kind: str, policy: Policy) -> None:
    deadline = time.perf_counter() + SECONDS
    done = 0
    for seed in range(2_000):
        generator = Generator(seed)
        draw = generator.integer if kind == "integer" else generator.float
        root = draw({I}, generator.random.choice([3, 4, 5]))
        for (other,) in equal_terms([root], 4, seed, policy):
            # Cancellation may lose digits that neither form has; float64 leaves room for that.
            assert_equal(root, other, seed, tolerance=1e-5)
        done += 1
        if time.perf_counter() > deadline:
            break
    assert done >= 10


@given(programs())
@settings(max_examples=40, deadline=None)
def test_the_definitions_of_a_random_graph_keep_their_value(case: tuple[Graph, object]) -> None:
    for definition in definitions(case[0], elementary(case[0])[-1:]):
        result = rewrite_terms([definition.value])
        assert result.report.failure == ""
        assert_equal(definition.value, result.roots[0], tolerance=1e-4)


def test_infinite_and_missing_values_stay_where_selections_hide_them() -> None:
    hidden = select(less(tensor("c", J), number(0)), mul(tensor("s", I), tensor("v", J)))
    root = sum_(hidden, J)
    values = {"c": np.ones(5), "s": np.asarray([np.inf, np.nan, 1.0]), "v": np.ones(5)}
    for (other,) in equal_terms([root], 6):
        assert _evaluated(other, values) == [0.0, 0.0, 0.0]


def _evaluated(root: Term, values: dict[str, np.ndarray]) -> list[float]:
    return [float(value) for value in evaluate(root, (I,), values)]
