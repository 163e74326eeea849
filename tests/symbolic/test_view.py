"""Views equal NumPy's movements, whatever their order, with masks, empty shapes and symbolic sizes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.symbolic.chains import apply_to_array, chains, through

from snell.errors import ShapeError, SymbolicError
from snell.symbolic import Axis, Dim, View, as_expr, as_size

SHAPES = [(1,), (6,), (4, 3), (2, 1, 6), (0, 3), (2, 3, 4)]


@given(st.sampled_from(SHAPES).flatmap(lambda shape: st.tuples(st.just(shape), chains(shape))))
@settings(max_examples=300, deadline=None)
def test_a_chain_of_movements_reads_what_numpy_reads(case: tuple) -> None:
    shape, (view, moves) = case
    array = np.arange(1, 1 + int(np.prod(shape))).reshape(shape)
    expected = array
    for move in moves:
        expected = apply_to_array(expected, move)
    assert tuple(view.shape) == expected.shape
    np.testing.assert_array_equal(through(view, array, {}), expected)


@pytest.mark.parametrize("n", [1, 2, 5, 16])
def test_attention_head_split_is_affine_for_every_sequence_length(n: int) -> None:
    seq = Dim("seq", max=64)
    view = View.identity((as_size(seq), 12)).reshape((as_size(seq), 3, 4)).permute((1, 0, 2))
    assert not any("//" in str(i) or "%" in str(i) for i in view.indices)
    array = np.arange(n * 12).reshape(n, 12)
    np.testing.assert_array_equal(through(view, array, {seq: n}), array.reshape(n, 3, 4).transpose(1, 0, 2))


@pytest.mark.parametrize(("b", "s"), [(1, 1), (2, 3), (4, 7)])
def test_merging_and_splitting_symbolic_dims_comes_back_to_the_identity(b: int, s: int) -> None:
    batch, seq = Dim("batch", max=8), Dim("seq", max=64)
    shape = (as_size(batch), as_size(seq), 6)
    flat = View.identity(shape).reshape((as_size(batch * seq), 6))
    array = np.arange(b * s * 6).reshape(b, s, 6)
    np.testing.assert_array_equal(through(flat, array, {batch: b, seq: s}), array.reshape(b * s, 6))
    assert flat.reshape(shape).is_identity


def test_a_dim_that_may_be_zero_reshapes_like_any_other() -> None:
    past = Dim("past", min=0, max=16)
    view = View.identity((as_size(past), 8)).reshape((as_size(past), 2, 4)).reshape((as_size(past), 8))
    assert view.is_identity


def test_a_reshape_that_changes_the_number_of_elements_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"cannot reshape \(2, 3\)"):
        View.identity((2, 3)).reshape((7,))
    with pytest.raises(SymbolicError, match="for every value of the dims"):
        View.identity((as_size(Dim("seq")), 2)).reshape((4,))


def test_a_guard_that_never_holds_stands_alone() -> None:
    view = View.identity((2,)).pad((4,), (0,)).slice((0,), (2,), (1,))
    assert [str(g) for g in view.guards] == ["-1"]


def test_a_multiple_of_a_block_splits_and_flattens() -> None:
    n = Dim("n", multiple=8)
    blocks = n // 8
    for source, target in [
        ((as_expr(n),), (blocks, 8)),
        ((blocks, 8), (as_expr(n),)),
        ((3, as_expr(n)), (3, blocks, 8)),
        ((3, blocks, 2, 4), (3, as_expr(n))),
        ((3, 8, blocks), (3, as_expr(n))),
        ((as_expr(n), 5), (blocks, 40)),
        ((3, as_expr(n)), (3 * blocks, 8)),
        ((2, n // 2), (as_expr(n),)),
    ]:
        view = View.identity(source).reshape(target)
        for value in (8, 24):
            values = {n: value}
            shape, wanted = ([int(as_expr(s).evaluate(values)) for s in sizes] for sizes in (source, target))
            array = np.arange(np.prod(shape)).reshape(shape)
            places = {Axis(f"i{k}", s): p for (k, s), p in zip(enumerate(target), np.indices(wanted), strict=True)}
            found = array[tuple(index.evaluate({**values, **places}) for index in view.indices)]
            np.testing.assert_array_equal(found, array.reshape(wanted))
            assert not any("%" in str(index) and "n" in str(index) for index in view.indices[:1])
    with pytest.raises(SymbolicError, match="n"):
        View.identity((as_expr(n),)).reshape((n // 16, 16))
