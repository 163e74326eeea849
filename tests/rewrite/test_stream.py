"""Streams: any split of the positions gives what the definition gives; what has no such form is left alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.rewrite.judge import tensors_of
from tests.rewrite.streams import combined_in_a_tree, combined_in_blocks, stepped_through_blocks

from snell.dtypes import f16, f32, f64, i32
from snell.graph.primitives import Mod, ScalarFunction, Sin, Sqrt
from snell.rewrite import term as t
from snell.rewrite.chain import inlined
from snell.rewrite.definition import Definition
from snell.rewrite.evaluate import evaluate_definition
from snell.rewrite.rules.notation import (
    I,
    J,
    K,
    add,
    apply,
    divide,
    exp2,
    less,
    max_,
    mul,
    negate,
    number,
    otherwise,
    recip,
    select,
    subtract,
    sum_,
    tensor,
)  # fmt: skip
from snell.rewrite.stream import Stream, stream_axes, stream_of
from snell.rewrite.term import Tensor, Term
from snell.symbolic import Axis, Dim, as_expr, as_size

Array = np.ndarray[Any, np.dtype[Any]]
INFINITE = number(-float("inf"))
A, B = Axis("a", 6), Axis("b", 4)


def exp(item: Term) -> Term:
    return apply(ScalarFunction("exp"), item)


def definition(value: Term, name: str = "out") -> Definition:
    axes = tuple(sorted(value.free, key=lambda axis: axis.name))
    held = Tensor(name, tuple(as_size(axis.extent) for axis in axes), value.dtype)
    return Definition(held, axes, tuple(as_expr(axis) for axis in axes), value)


def stream(value: Term, *axes: Axis) -> Stream:
    found = stream_of((definition(value),), axes)
    assert isinstance(found, Stream), found
    return found


def normal(value: Term, seed: int = 0, sizes: Mapping[Dim, int] | None = None) -> dict[str, Array]:
    generator = np.random.default_rng(seed)
    shapes = {n: [int(as_expr(s).evaluate(sizes or {})) for s in held.shape] for n, held in tensors_of(value).items()}
    return {name: 2 * generator.normal(size=shape) for name, shape in shapes.items()}


def assert_same_in_blocks(
    value: Term,
    cuts: Mapping[Axis, list[int]],
    tensors: dict[str, Array],
    tolerance: Array | float = 1e-12,
    sizes: Mapping[Dim, int] | None = None,
) -> None:
    made = stream(value, *cuts)
    whole = definition(value)
    expected = evaluate_definition(whole, tensors, sizes)
    finite = np.isfinite(expected)
    scale = np.broadcast_to(np.asarray(tolerance) + 1e-12 * np.abs(np.where(finite, expected, 0)), expected.shape)
    for run in (stepped_through_blocks, combined_in_blocks, combined_in_a_tree):
        found = run(made, cuts, tensors, sizes)["out"]
        assert np.all(np.abs(found - expected)[finite] <= scale[finite]), (run.__name__, found, expected)


# -- random members of the family


@st.composite
def members(draw: st.DrawFn) -> tuple[Term, Term, tuple[Axis, ...]]:
    """A sum, the same sum of magnitudes with 1 for the powers (what its rounding errors scale with), and its axes."""
    axes = draw(st.sampled_from([(J,), (A, B), (Axis("j", 1),), (Axis("j", 33),)]))
    x, y, v = tensor("x", I, *axes), tensor("y", I, *axes), tensor("v", K, *axes)
    if draw(st.booleans()):
        x = otherwise(less(tensor("c", *axes), number(0)), x, INFINITE)
    if draw(st.booleans()):
        x = mul(x, number(draw(st.sampled_from([0.125, 3, -1]))))
    function = draw(st.sampled_from([exp, exp2]))
    logarithm = ScalarFunction("log" if function is exp else "log2")
    greatest = max_(x, *axes)
    shift = draw(
        st.sampled_from(
            [
                negate(greatest),
                negate(add(greatest, apply(logarithm, sum_(function(subtract(x, greatest)), *axes)))),
                add(negate(greatest), tensor("s", I)),
                None,
            ]
        )
    )
    weight = number(1) if shift is None else function(add(x, shift))
    size = weight
    if draw(st.booleans()):
        weight, size = mul(weight, v), mul(size, _magnitude(v))
    if draw(st.booleans()):
        condition = less(y, number(1))
        weight, size = select(condition, weight), select(condition, size)
    body = weight
    for base, most in ((y, 3), (tensor("u", *axes), 1)):
        power = draw(st.integers(0, most))
        centre = draw(st.sampled_from([mean(base, axes), max_(base, *axes), mean(mul(base, base), axes)]))
        body = mul(body, *([subtract(base, centre)] * power))
    if draw(st.booleans()):
        total = sum_(size, *axes)
        body, size = mul(body, recip(add(total, number(1)))), size
    return sum_(body, *axes), sum_(size, *axes), axes


def mean(item: Term, axes: tuple[Axis, ...]) -> Term:
    count = int(np.prod([int(str(axis.extent)) for axis in axes]))
    return mul(sum_(item, *axes), number(1 / count))


def _magnitude(item: Term) -> Term:
    return apply(t.Maximum(), item, negate(item))


@given(members(), st.integers(0, 1000), st.sampled_from([1.0, 40.0, 1000.0]), st.data())
@settings(max_examples=150, deadline=None)
def test_a_random_member_of_the_family_equals_its_definition_however_it_is_split(
    member: tuple[Term, Term, tuple[Axis, ...]], seed: int, scale: float, data: st.DataObject
) -> None:
    value, size, axes = member
    if not stream_axes((definition(value),)):
        return
    tensors = normal(add(value, size), seed)
    if "x" in tensors:
        tensors["x"] = scale * tensors["x"]  # exponents far beyond what a float holds
    cuts: dict[Axis, list[int]] = {}
    for axis in axes:
        extent = int(str(axis.extent))
        inner = data.draw(st.lists(st.integers(0, extent), max_size=4))
        cuts[axis] = sorted([0, extent, *inner])  # (equal cuts are blocks without positions)
    weights = evaluate_definition(definition(size), tensors)
    widest = max([1.0, *(float(np.max(np.abs(values))) for name, values in tensors.items() if name != "x")])
    # A power of 4 at most of distances up to widest + widest² (a centre is a mean of squares at most), some 10³ roundings
    # of 2⁻⁵³ relative to the sum of magnitudes.
    bound = 1e3 * 2.0**-53 * (widest + widest**2) ** 4 * np.where(np.isfinite(weights), weights, 0.0)
    axes_of = [axis for axis in definition(value).axes if axis in definition(size).axes]
    assert axes_of == list(definition(size).axes)
    shape = [int(str(axis.extent)) if axis in axes_of else 1 for axis in definition(value).axes]
    assert_same_in_blocks(value, cuts, tensors, bound.reshape(shape) + 1e-12)


# -- members by themselves


def weighted(x: Term, v: Term, *axes: Axis) -> Term:
    """`Σ 2^(x − max x) · v / Σ 2^(x − max x)`."""
    weight = exp2(subtract(x, max_(x, *axes)))
    return sum_(mul(mul(weight, recip(sum_(weight, *axes))), v), *axes)


def test_a_cascade_of_four_reductions_is_one_pass() -> None:
    x, v = tensor("x", I, J), tensor("v", J)
    distance = subtract(v, weighted(x, v, J))
    value = weighted(x, mul(distance, distance), J)
    assert stream_axes((definition(value),)) == ((J,),)
    assert_same_in_blocks(value, {J: [0, 2, 5]}, normal(value))


def test_rows_without_a_finite_exponent_give_no_nan_beside_them() -> None:
    x = tensor("x", I, J)
    value = sum_(mul(exp2(subtract(x, max_(x, J))), tensor("v", J)), J)
    tensors = normal(value)
    tensors["x"][0, :3] = -np.inf  # the first block has nothing finite
    tensors["x"][1, 3:] = -np.inf  # the last one has not
    tensors["x"][2, :] = -np.inf
    expected = evaluate_definition(definition(value), tensors)
    assert np.isnan(expected[2])
    for run in (stepped_through_blocks, combined_in_blocks, combined_in_a_tree):
        found = run(stream(value, J), {J: [0, 3, 4, 5]}, tensors)["out"]
        np.testing.assert_allclose(found[:2], expected[:2], rtol=1e-14)
        assert found[2] == 0.0


def test_a_not_a_number_stays_one() -> None:
    x = tensor("x", I, J)
    value = weighted(x, tensor("v", J), J)
    tensors = normal(value)
    tensors["x"][1, 4] = np.nan
    for run in (stepped_through_blocks, combined_in_blocks, combined_in_a_tree):
        found = run(stream(value, J), {J: [0, 2, 4, 5]}, tensors)["out"]
        assert np.isnan(found).tolist() == [False, True, False]


def test_what_a_selection_hides_does_not_count_for_the_reference() -> None:
    x, v = tensor("x", J), tensor("v", J)
    hidden = select(less(v, number(0)), exp2(subtract(x, max_(select(less(v, number(0)), x), J))))
    value = sum_(hidden, J)
    tensors = {"x": np.asarray([5000.0, 1.0, 2.0, np.inf, np.nan]), "v": np.asarray([1.0, -1.0, -1.0, 1.0, 1.0])}
    assert_same_in_blocks(value, {J: [0, 1, 3, 5]}, tensors)


@pytest.mark.parametrize("count", [0, 1, 7])
def test_a_symbolic_number_of_positions_may_be_zero(count: int) -> None:
    n = Dim("n", min=0, max=100)
    j = Axis("j", as_expr(n))
    x = tensor("x", I, j)
    value = sum_(mul(exp2(subtract(x, max_(x, j))), recip(sum_(exp2(subtract(x, max_(x, j))), j))), j)
    made = stream(value, j)
    tensors = {"x": np.random.default_rng(0).normal(size=(3, count))}
    expected = evaluate_definition(definition(value), tensors, {n: count})
    for run in (stepped_through_blocks, combined_in_blocks, combined_in_a_tree):
        found = run(made, {j: [0, count // 2, count]} if count else {j: [0]}, tensors, {n: count})["out"]
        np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_moments_are_taken_about_a_running_mean() -> None:
    v = tensor("v", J)
    distance = subtract(v, mean(v, (J,)))
    value = sum_(mul(distance, distance), J)
    tensors = {"v": 1e8 + np.asarray([0.0, 1.0, 2.0, 3.0, 4.0])}  # in float64 the squares alone would keep no digit
    assert_same_in_blocks(value, {J: [0, 2, 5]}, tensors, 1e-6)


def test_proportional_exponents_share_one_reference() -> None:
    x = tensor("x", I, J)
    value = sum_(exp(mul(subtract(x, max_(x, J)), number(0.125))), J)
    assert len(stream(value, J).state) == 2


def test_the_state_keeps_the_dtype_of_the_definition() -> None:
    x = t.cast(tensor("x", I, J, dtype=f16), f64)
    value = sum_(exp2(subtract(x, max_(x, J))), J)
    assert {held.dtype for held in stream(value, J).state} == {f64}


def test_a_combination_has_no_order() -> None:
    x = tensor("x", I, J)
    value = weighted(x, tensor("v", J), J)
    made, tensors = stream(value, J), normal(value)
    results = [
        combined_in_blocks(made, {J: list(places)}, tensors)["out"]
        for places in itertools.combinations_with_replacement([0, 1, 2, 3, 4, 5], 4)
        if places[0] == 0 and places[-1] == 5
    ]
    np.testing.assert_allclose(results, np.broadcast_to(results[0], np.shape(results)), rtol=1e-14)


# -- chains


def test_stored_values_of_a_chain_are_put_back_where_they_are_read() -> None:
    x, j = tensor("x", I, J), Axis("c", 5)
    greatest = definition(max_(x, J), "m")
    held = t.load(greatest.tensor, (as_expr(I),))
    power = Definition(
        Tensor("p", (3, 5), f32), (I, j), (as_expr(I), as_expr(j)), exp2(subtract(tensor("x", I, j), held))
    )
    total = definition(sum_(t.load(power.tensor, (as_expr(I), as_expr(J))), J))
    found = inlined((greatest, power, total), [total.tensor])
    assert found is not None
    assert [(d.tensor.name, stream_axes((d,))) for d in found] == [("out", ((Axis("r5_0", 5),),))]


def test_a_chain_that_reads_at_places_nobody_can_solve_for_is_left_alone() -> None:
    first = Definition(Tensor("m", (10,), f32), (J,), (as_expr(J) * 2,), tensor("x", J))
    second = definition(sum_(t.load(first.tensor, (as_expr(J) + 1,)), J))
    assert inlined((first, second), [second.tensor]) is None


# -- near-misses: nothing that only looks like it


X, V = tensor("x", I, J), tensor("v", I, J)
MEAN = mean(V, (J,))
NEAR_MISSES: dict[str, Callable[[], Term]] = {
    "the root of a distance": lambda: sum_(apply(Sqrt(), mul(subtract(V, MEAN), subtract(V, MEAN))), J),
    "a positive part": lambda: sum_(select(less(number(0), subtract(V, MEAN)), subtract(V, MEAN)), J),
    "the reciprocal of a distance": lambda: sum_(mul(recip(add(X, MEAN)), V), J),
    "a quotient by a distance": lambda: sum_(divide(V, add(X, MEAN)), J),
    "a square in an exponent": lambda: sum_(exp2(mul(subtract(X, max_(X, J)), subtract(X, max_(X, J)))), J),
    "an exponent times its maximum": lambda: sum_(exp2(mul(X, max_(X, J))), J),
    "an exponent over its maximum": lambda: sum_(exp2(divide(subtract(X, MEAN), max_(X, J))), J),
    "the sine of a distance": lambda: sum_(apply(Sin(), subtract(X, MEAN)), J),
    "a remainder": lambda: sum_(apply(Mod(), X, max_(X, J)), J),
    "the maximum of an exponential of a distance": lambda: max_(exp2(subtract(X, MEAN)), J),
    "a rounded distance": lambda: sum_(t.cast(t.cast(subtract(V, MEAN), f16), f32), J),
    "integers about their maximum": lambda: sum_(
        subtract(tensor("n", I, J, dtype=i32), max_(tensor("n", I, J, dtype=i32), J)), J
    ),
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_a_near_miss_is_refused_with_a_reason(name: str) -> None:
    value = NEAR_MISSES[name]()
    assert stream_axes((definition(value),)) == ((J,),)
    reason = stream_of((definition(value),), (J,))
    assert isinstance(reason, str)
    assert reason


def test_reductions_that_wait_for_nothing_need_no_stream() -> None:
    assert stream_axes((definition(mul(sum_(X, J), recip(sum_(V, J)))),)) == ()
