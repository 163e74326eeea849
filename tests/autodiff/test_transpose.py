"""The transpose of a view is its adjoint: ⟨V x, c⟩ = ⟨x, Vᵀ c⟩, for random chains of movements and symbolic sizes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.symbolic.chains import chains, split_shape, through

from snell.autodiff.inverse import inverse
from snell.autodiff.transpose import transposed
from snell.dtypes import f64
from snell.graph.interpret import interpret
from snell.graph.node import Builder, Graph, full_view
from snell.graph.primitives import Input
from snell.symbolic import Axis, Dim, Shape, View, as_expr, as_size, coordinates

Array = np.ndarray[Any, np.dtype[Any]]
RNG = np.random.default_rng(11)
SHAPES = [(1,), (6,), (4, 3), (2, 1, 6), (0, 3), (2, 3, 4)]


def of_transpose(view: View, source: Shape, cotangent: Array, sizes: dict[Any, int]) -> Array:
    builder = Builder()
    given_ = full_view(builder.add(Input("cotangent", view.shape, f64)))
    graph = Graph((("result", transposed(builder, given_, view, source)),))
    return interpret(graph, {"cotangent": cotangent}, sizes)[0]


def assert_adjoint(view: View, source: Shape, sizes: dict[Any, int]) -> None:
    x = RNG.integers(-4, 5, [int(as_expr(n).evaluate(sizes)) for n in source]).astype(np.float64)
    seen = np.asarray(through(view, x, sizes))
    c = RNG.integers(-4, 5, seen.shape).astype(np.float64)
    back = of_transpose(view, source, c, sizes)
    assert back.shape == x.shape
    assert (seen * c).sum() == (x * back).sum()


@given(st.sampled_from(SHAPES).flatmap(lambda shape: st.tuples(st.just(shape), chains(shape))))
@settings(max_examples=150, deadline=None)
def test_a_chain_of_movements_has_its_adjoint(case: tuple) -> None:
    shape, (view, _) = case
    assert_adjoint(view, shape, {})


def wound(view: View, kind: str, axis: int, amount: int) -> View:
    """The view rolled, or with its elements or itself repeated, along an axis: remainders and quotients."""
    size = int(view.shape[axis])
    extent = size if kind == "roll" else size * amount
    shape = (*view.shape[:axis], extent, *view.shape[axis + 1 :])
    places = list(coordinates(shape))
    place = places[axis]
    places[axis] = place // amount if kind == "repeat" else (place + (amount if kind == "roll" else 0)) % size
    return view.then(View(shape, tuple(places)))


@st.composite
def wound_chains(draw: st.DrawFn) -> tuple[Shape, View]:
    """Rolls and repetitions between reshapes, permutations and reversals."""
    shape = draw(st.sampled_from([(6,), (3, 5), (2, 1, 6), (4, 3)]))
    view = View.identity(shape)
    for _ in range(draw(st.integers(1, 4))):
        axis = draw(st.integers(0, len(view.shape) - 1))
        match draw(st.sampled_from(["roll", "repeat", "tile", "flip", "flat", "permute", "reshape"])):
            case "flip":
                n = int(view.shape[axis])
                mirrored = [n - 1 - c if k == axis else c for k, c in enumerate(coordinates(view.shape))]
                view = view.then(View(view.shape, tuple(mirrored)))
            case "flat":
                flat = view.reshape((math.prod(int(n) for n in view.shape),))
                view = wound(flat, "roll", 0, draw(st.integers(-3, 7))).reshape(view.shape)
            case "permute":
                view = view.permute(tuple(draw(st.permutations(range(len(view.shape))))))
            case "reshape":
                view = view.reshape(split_shape(draw, math.prod(int(n) for n in view.shape)))
            case kind if math.prod(int(n) for n in view.shape) <= 60:
                view = wound(view, kind, axis, draw(st.integers(1, 3)))
    return shape, view


@given(wound_chains())
@settings(max_examples=150, deadline=None)
def test_rolls_and_repetitions_between_other_movements_have_their_adjoint(case: tuple[Shape, View]) -> None:
    shape, view = case
    assert_adjoint(view, shape, {})


@pytest.mark.parametrize("n", [1, 2, 5, 16])
def test_symbolic_sizes_have_their_adjoint(n: int) -> None:
    seq = Dim("seq", max=64)
    size = as_size(seq)
    heads = View.identity((size, 12)).reshape((size, 3, 4)).permute((1, 0, 2))
    for view in (heads, heads.pad((0, 2, 1), (0, 0, 0)), View.identity((size, 12)).pad((1, 0), (1, 0)).window(0, 3)):
        assert_adjoint(view, (size, 12), {seq: n})


def test_a_diagonal_is_solved_and_gives_zeros_beside_it() -> None:
    i = as_expr(Axis("i0", 4))
    view = View((4,), (i, i))
    assert inverse(view, (4, 4)) is not None
    np.testing.assert_array_equal(of_transpose(view, (4, 4), np.arange(4.0), {}), np.diag(np.arange(4.0)))


def test_a_product_of_coordinates_is_not_solved_but_summed() -> None:
    i, j = coordinates((3, 3))
    view = View((3, 3), (i * j,))
    assert inverse(view, (5,)) is None
    assert_adjoint(view, (5,), {})


def test_a_reshape_is_inverted_to_a_reshape_without_sums() -> None:
    view = View.identity((4, 6)).reshape((3, 8))
    solved = inverse(view, (4, 6))
    assert solved is not None
    assert solved.free == 0
    assert view.then(solved.view) == View.identity((4, 6))


def test_a_window_is_summed_over_its_places_alone() -> None:
    view = View.identity((2, 32)).window(1, 3)
    solved = inverse(view, (2, 32))
    assert solved is not None
    assert solved.view.shape == (2, 32, 3)
