"""Random nests are right: contractions in any order of axes, row reductions, windows.

How fast they are is measured by the command `python benchmarks/nests.py`, which checks every result as well.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
from benchmarks.nests import Nest, check, contraction, window

import snell as sn


def run(nest: Nest, seed: int) -> None:
    rng = np.random.default_rng(seed)
    arrays = [rng.standard_normal(shape, dtype=np.float32) for shape in nest.shapes]
    check(nest, arrays, sn.compile(nest.function)(*arrays).numpy())


@pytest.mark.parametrize("seed", range(60))
def test_a_contraction_equals_numpy_in_float64(seed: int) -> None:
    run(contraction(random.Random(seed), (1e4, 1e7)), seed)


@pytest.mark.parametrize("seed", range(8))
def test_a_window_equals_numpy_in_float64(seed: int) -> None:
    run(window(random.Random(seed)), seed)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(4096, 200), (333, 1000), (9, 4100), (70_000, 3), (3, 70_000)])
@pytest.mark.parametrize("name", ["sum", "max", "softmax"])
def test_a_reduction_of_rows_or_columns_equals_numpy(name: str, shape: tuple[int, int], axis: int) -> None:
    x = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    result = sn.compile(lambda x: getattr(sn, name)(x, axis=axis))(x).numpy()
    wide = x.astype(np.float64)
    if name == "softmax":
        e = np.exp(wide - wide.max(axis=axis, keepdims=True))
        np.testing.assert_allclose(result, e / e.sum(axis=axis, keepdims=True), rtol=1e-5, atol=0)
    elif name == "max":
        np.testing.assert_array_equal(result, x.max(axis=axis))
    else:
        # Two levels of at most 4,096 terms (DESIGN, section 2): each adds half an epsilon of the magnitudes at most.
        bound = 4096 * np.finfo(np.float32).eps * np.abs(wide).sum(axis=axis)
        assert np.all(np.abs(result - wide.sum(axis=axis)) <= bound)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 300, 5000])
def test_a_sum_of_as_many_rows_as_there_are_is_stored_even_when_there_are_none(count: int) -> None:
    rows = sn.Dim("rows", min=0, max=100_000, typical=(60_000,))
    x = np.random.default_rng(0).standard_normal((count, 64), dtype=np.float32)
    result = sn.compile(lambda x: sn.sum(x, 0) + 1, dims={"x": (rows, None)})(x).numpy()
    bound = (count + 2) * np.finfo(np.float32).eps * (np.abs(x.astype(np.float64)).sum(0) + 1)
    assert np.all(np.abs(result - (x.astype(np.float64).sum(0) + 1)) <= bound)


@pytest.mark.parametrize("count", [0, 1, 3, 400])
def test_a_result_in_another_order_than_its_large_operand_is_right_at_every_size(count: int) -> None:
    terms = sn.Dim("terms", min=0, max=4096, typical=(4096,))
    rng = np.random.default_rng(count)
    a, b = rng.standard_normal((count, 3), np.float32), rng.standard_normal((count, 6, 50, 29), np.float32)
    bias = rng.standard_normal(6, np.float32)
    function = sn.compile(
        lambda a, b, bias: sn.relu(sn.einsum("xa,xdcb->abcd", a, b) + bias),
        dims={"a": (terms, None), "b": (terms, None, None, None)},
    )
    wide = [x.astype(np.float64) for x in (a, b)]
    expected = np.maximum(np.einsum("xa,xdcb->abcd", *wide) + bias, 0)
    bound = (count + 2) * np.finfo(np.float32).eps * (np.einsum("xa,xdcb->abcd", *map(np.abs, wide)) + np.abs(bias))
    assert np.all(np.abs(function(a, b, bias).numpy() - expected) <= bound)


def test_the_greatest_of_a_large_operand_in_another_order_is_right() -> None:
    x = np.random.default_rng(0).standard_normal((400, 6, 50, 29), dtype=np.float32)
    result = sn.compile(lambda x: sn.max(x, axis=0).transpose(2, 1, 0))(x).numpy()
    np.testing.assert_array_equal(result, x.max(axis=0).transpose(2, 1, 0))


@pytest.mark.parametrize(
    "shape", [(4096, 4096), (65_537,), (131_074,), (2, 65_536), (70_000, 2), (100, 7, 1024), (1 << 20,)]
)
@pytest.mark.parametrize("name", ["sum", "max", "mean"])
def test_a_reduction_to_one_number_equals_numpy(name: str, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    result = sn.compile(lambda x: getattr(sn, name)(x * 2))(x).numpy()
    wide = x.astype(np.float64) * 2
    if name == "max":
        assert result == (x * 2).max()
    else:
        bound = 4096 * np.finfo(np.float32).eps * np.abs(wide).sum()
        assert abs(result - getattr(wide, name)()) <= (bound if name == "sum" else bound / x.size)


@pytest.mark.parametrize("count", [0, 1, 9, 500])
def test_pieces_of_a_symbolic_axis_are_right_at_every_size(count: int) -> None:
    rows = sn.Dim("rows", min=0, max=1000, typical=(500,))
    x = np.random.default_rng(count).standard_normal((count, 3, 800), dtype=np.float32)
    result = sn.compile(
        lambda x: (sn.sum(x, (0, 2)), sn.max(x, (0, 2))) if count else sn.sum(x, (0, 2)), dims={"x": (rows, None, None)}
    )(x)
    sums = result[0] if count else result
    bound = 4096 * np.finfo(np.float32).eps * np.abs(x.astype(np.float64)).sum((0, 2))
    assert np.all(np.abs(sums.numpy() - x.astype(np.float64).sum((0, 2))) <= bound)
    if count:
        np.testing.assert_array_equal(result[1].numpy(), x.max((0, 2)))


@pytest.mark.parametrize("count", [0, 1, 255, 2000])
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_a_long_sum_of_narrow_numbers_errs_by_its_roundings(dtype: str, count: int) -> None:
    terms = sn.Dim("terms", min=0, max=4096, typical=(4096,))
    rng = np.random.default_rng(count)
    a, b = rng.standard_normal((9, count), np.float32), rng.standard_normal((count, 40), np.float32)
    narrow = sn.compile(lambda x: x.astype(dtype))
    a, b = narrow(a).numpy(), narrow(b).numpy()
    result = sn.compile(lambda a, b: sn.relu(a @ b + 1), dims={"a": (None, terms), "b": (terms, None)})(a, b).numpy()
    wide = [x.astype(np.float64) for x in (a, b)]
    expected = np.maximum(wide[0] @ wide[1] + 1, 0)
    epsilon = 2.0**-10 if dtype == "f16" else 2.0**-7  # of the sum, of 1 added to it, and of what is stored
    bound = 3 * epsilon * (np.abs(expected) + 1) + 4096 * 2.0**-23 * (np.abs(wide[0]) @ np.abs(wide[1]))
    assert np.all(np.abs(result.astype(np.float64) - expected) <= bound)
