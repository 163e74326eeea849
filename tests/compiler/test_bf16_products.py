"""Products of bf16 operands are right for every shape, layout and size, with the target's instruction and without.

The tolerance is derived: a product of two bf16 numbers is exact in f32, so what is rounded are the sums, each by half an
epsilon of the magnitudes it adds up (an instruction that adds pairs rounds no more often), and the result.
"""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import snell as sn
from snell.dtypes import bf16

SUM_EPSILON = float(np.finfo(np.float32).eps)
RESULT_EPSILON = 2.0**-8


def operand(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32).astype(ml_dtypes.bfloat16)


def assert_product(result: np.ndarray, subscripts: str, a: np.ndarray, b: np.ndarray, length: int) -> None:
    wide = [x.astype(np.float64) for x in (a, b)]
    expected = np.einsum(subscripts, *wide)
    sums = (length + 2) * SUM_EPSILON * np.einsum(subscripts, *map(np.abs, wide))
    result_epsilon = 0.0 if result.dtype == np.float32 else RESULT_EPSILON
    assert np.all(np.abs(result.astype(np.float64) - expected) <= sums + result_epsilon * (np.abs(expected) + sums))


@pytest.mark.parametrize("rows", [1, 2, 7, 33, 300])
@pytest.mark.parametrize("length", [1, 2, 3, 17, 64, 255, 513, 1025])
@pytest.mark.parametrize("columns", [1, 15, 16, 50, 129])
def test_a_product_of_any_shape_equals_numpy(rows: int, length: int, columns: int) -> None:
    a, b = operand(0, rows, length), operand(1, length, columns)
    assert_product(sn.compile(lambda a, b: a @ b)(a, b).numpy(), "ik,kj->ij", a, b, length)


@pytest.mark.parametrize(
    "subscripts", ["ik,jk->ij", "ki,kj->ij", "ki,jk->ij", "bik,bkj->bij", "bik,bjk->ibj", "ikl,lkj->ji"]
)
@pytest.mark.parametrize("sizes", [(3, 21, 33, 50, 5), (2, 96, 128, 64, 3), (1, 300, 600, 70, 2)])
def test_operands_may_lie_in_any_order(subscripts: str, sizes: tuple[int, ...]) -> None:
    extent = dict(zip("bikjl", sizes, strict=True))
    left, right = subscripts.split("->")[0].split(",")
    a, b = operand(2, *(extent[k] for k in left)), operand(3, *(extent[k] for k in right))
    result = sn.compile(lambda a, b: sn.einsum(subscripts, a, b))(a, b).numpy()
    assert_product(result, subscripts, a, b, extent["k"] * extent["l"])


@pytest.mark.parametrize("length", [0, 1, 2, 5, 31, 32, 400, 777])
def test_a_length_known_at_run_time_may_be_odd(length: int) -> None:
    terms = sn.Dim("terms", min=0, max=4096, typical=(512,))
    a, b = operand(4, 40, length), operand(5, length, 70)
    function = sn.compile(lambda a, b: a @ b, dims={"a": (None, terms), "b": (terms, None)})
    assert_product(function(a, b).numpy(), "ik,kj->ij", a, b, length)


def narrowed(x: sn.Tensor) -> sn.Tensor:
    return x.astype(bf16)


@pytest.mark.parametrize("shape", [(5, 33, 40), (64, 256, 96), (200, 700, 130)])
def test_operands_that_the_program_rounds_are_products_of_the_same_kind(shape: tuple[int, int, int]) -> None:
    rows, length, columns = shape
    rng = np.random.default_rng(6)
    a, b = rng.standard_normal((rows, length), np.float32), rng.standard_normal((length, columns), np.float32)
    result = sn.compile(lambda a, b: narrowed(a) @ narrowed(b))(a, b).numpy()
    rounded = [x.astype(ml_dtypes.bfloat16) for x in (a, b)]
    assert_product(result, "ik,kj->ij", *rounded, length)


@pytest.mark.parametrize("length", [64, 701])
def test_a_frozen_operand_is_packed_as_it_is(length: int) -> None:
    a, b = operand(7, 50, length), operand(8, 96, length)
    function: Callable[..., sn.Tensor] = sn.compile(lambda a: sn.einsum("ik,jk->ij", a, b))
    assert_product(function(a).numpy(), "ik,jk->ij", a, b, length)


def test_infinities_and_nans_come_out_as_in_numpy() -> None:
    a, b = operand(9, 16, 64), operand(10, 64, 32)
    a[3, 5], a[4, 6], b[7, 2] = np.inf, np.nan, -np.inf
    result = sn.compile(lambda a, b: a @ b)(a, b).numpy().astype(np.float32)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(result), np.isnan(expected))
    np.testing.assert_array_equal(np.isinf(result), np.isinf(expected))


def test_strict_precision_keeps_subnormal_products() -> None:
    tiny = np.full((4, 32), 2.0**-130, np.float32).astype(ml_dtypes.bfloat16)
    ones = np.ones((32, 32), ml_dtypes.bfloat16)
    result = sn.compile(lambda a, b: a @ b, precision="strict")(tiny, ones).numpy().astype(np.float64)
    np.testing.assert_array_equal(result, 32 * 2.0**-130)
