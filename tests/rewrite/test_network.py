"""Products of sums are put into the cheapest order: equal values, fewer multiplications."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.rewrite.judge import assert_equal

from snell.dtypes import f32, i32
from snell.graph.primitives import Add, Mul
from snell.rewrite.cut import typical_volume
from snell.rewrite.network import STORED, network_of, reordered, written_cost
from snell.rewrite.term import Reduction, Sum, Tensor, Term, load, number, reduction, term, walk
from snell.symbolic import Axis, Dim, as_expr

A, B, C, D = (Axis(name, size) for name, size in (("a", 3), ("b", 40), ("c", 50), ("d", 4)))


def read(name: str, *axes: Axis, dtype=f32) -> Term:
    return load(Tensor(name, tuple(axis.extent for axis in axes), dtype), tuple(map(as_expr, axes)))


def times(*factors: Term) -> Term:
    first, *rest = factors
    for factor in rest:
        first = term(Mul(), (first, factor), first.dtype)
    return first


def total(body: Term, *axes: Axis) -> Term:
    return reduction(Sum(axes), body)


def bound_together(root: Term) -> list[frozenset[int]]:
    """Extents of the axes that each sum of the term depends on or adds up."""
    sums = (item for item in walk(root) if isinstance(item.op, Reduction))
    return [frozenset(int(str(a.extent)) for a in item.free | set(item.op.axes)) for item in sums]  # type: ignore[union-attr]


def test_a_product_of_few_rows_is_taken_from_the_left():
    product = total(times(read("x", A, C), total(times(read("a", C, D), read("b", D, B)), D)), C)
    found = reordered(product)
    assert sorted(map(sorted, bound_together(found))) == [[3, 4, 40], [3, 4, 50]]
    assert written_cost(found, (A, B)) < written_cost(product, (A, B)) / 4
    assert_equal(product, found)


def test_a_product_of_few_columns_is_taken_from_the_right():
    product = total(times(total(times(read("a", B, C), read("b", C, D)), C), read("x", D)), D)
    found = reordered(product)
    assert sorted(map(sorted, bound_together(found))) == [[4, 50], [40, 50]]
    assert_equal(product, found)


def test_a_sum_over_one_factor_alone_is_taken_first():
    scores = total(times(read("q", B, D), read("k", C, D)), D)
    found = reordered(total(scores, C))
    assert sorted(map(sorted, bound_together(found))) == [[4, 40], [4, 50]]
    assert_equal(total(scores, C), found)


def test_a_factor_outside_of_the_sum_is_multiplied_last():
    outer = times(read("b", C), read("c", D))
    found = reordered(total(times(read("a", B, C), outer), C))
    assert isinstance(found.op, Mul)
    assert sorted(map(sorted, bound_together(found))) == [[40, 50]]
    assert_equal(total(times(read("a", B, C), outer), C), found)


def test_a_sum_inside_of_something_else_stays_where_it_is():
    inner = total(times(read("q", A, D), read("k", B, D)), D)
    shifted = total(times(term(Add(), (inner, number(1, f32)), f32), read("v", B, C)), B)
    assert len(bound_together(reordered(shifted))) == 2
    assert_equal(shifted, reordered(shifted))


def test_a_sum_that_may_be_empty_is_no_network():
    time = Axis("t", as_expr(Dim("t", min=0, max=64)))
    assert network_of(total(times(read("x", A), read("y", time)), time)) is None
    assert network_of(total(times(read("x", A), read("y", B)), B)) is not None


def test_a_sum_of_what_does_not_depend_on_its_axis_is_no_network():
    assert network_of(total(read("x", A), B)) is None


def test_factors_of_another_dtype_are_left_as_they_are():
    """A bool times a number selects: it is no product."""
    mask = read("m", B, dtype=i32)
    wide = term(Mul(), (mask, read("x", B, dtype=i32)), f32)
    network = network_of(total(wide, B))
    assert network is not None
    assert len(network.factors) == 1


@st.composite
def products(draw: st.DrawFn) -> Term:
    """A product of two to five factors over some of four axes, some of them added up, sums nested or not."""
    axes = [Axis(name, draw(st.integers(1, 4))) for name in "abcd"]
    result = read("f0", *draw(st.lists(st.sampled_from(axes), min_size=1, unique=True)))
    for k in range(1, draw(st.integers(2, 5))):
        result = times(result, read(f"f{k}", *draw(st.lists(st.sampled_from(axes), min_size=1, unique=True))))
        ended = draw(st.lists(st.sampled_from(sorted(result.free, key=str)), unique=True)) if result.free else []
        result = total(result, *ended) if ended else result
    return result


@settings(max_examples=150, deadline=None)
@given(products(), st.integers(0, 1000))
def test_every_order_has_the_same_value(product: Term, seed: int):
    found = reordered(product)
    assert found.free == product.free
    assert_equal(product, found, seed, tolerance=1e-5)


@pytest.mark.parametrize("sizes", [(2, 30, 3, 40, 5), (50, 2, 40, 3, 30), (7, 7, 7, 7, 7)])
def test_a_chain_of_matrices_is_as_cheap_as_the_best_of_all_its_orders(sizes: tuple[int, ...]):
    axes = [Axis(f"n{k}", size) for k, size in enumerate(sizes)]
    factors = [read(f"m{k}", axes[k], axes[k + 1]) for k in range(4)]
    found = reordered(total(times(*factors), *axes[1:-1]))

    def best(first: int, last: int) -> float:
        if last - first == 1:
            return 0.0
        ends = sizes[first] * sizes[last]
        stored = STORED * ends * ((first, last) != (0, 4))
        return min(best(first, k) + best(k, last) + ends * sizes[k] + stored for k in range(first + 1, last))

    sums = [item for item in walk(found) if isinstance(item.op, Sum)]
    work = sum(typical_volume(item.free | set(item.op.axes)) for item in sums if isinstance(item.op, Sum))
    traffic = STORED * (sum(typical_volume(item.free) for item in sums) - sizes[0] * sizes[-1])
    assert work + traffic == best(0, 4)
