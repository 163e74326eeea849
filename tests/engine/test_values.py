"""Values of compiled programs that the grid (tests/grid) once found wrong, each at its smallest."""

from __future__ import annotations

import numpy as np
import pytest

import snell as sn
from snell.errors import OutOfRangeError
from snell.graph.philox import philox_bits
from snell.symbolic import Dim


def test_a_check_over_a_symbolic_axis_of_no_elements_passes() -> None:
    columns = Dim("columns", min=0, max=64, typical=(8,))
    f = sn.compile(lambda x, y: x % y, dims={"x": (None, columns), "y": (None, columns)})
    assert f(np.zeros((3, 0), np.int32), np.zeros((3, 0), np.int32)).shape == (3, 0)
    with pytest.raises(OutOfRangeError):
        f(np.ones((3, 4), np.int32), np.zeros((3, 4), np.int32))


def test_index_arrays_find_their_place_in_symbolic_axes() -> None:
    f = sn.compile(lambda x, i: x[i, -i - 1], dims={"x": ("rows", "columns"), "i": (None,)})
    x, i = np.arange(35, dtype=np.int32).reshape(5, 7), np.array([0, 3, 4, 1])
    np.testing.assert_array_equal(f(x, i).numpy(), x[i, -i - 1])


@pytest.mark.parametrize("shape", [(0, 5), (3, 0)])
def test_an_array_without_elements_may_be_transposed(shape: tuple[int, int]) -> None:
    assert sn.compile(lambda x: x.T + 1)(np.zeros(shape, np.float32)).shape == shape[::-1]


@pytest.mark.parametrize("dtype", [np.uint8, np.uint64, np.int8, np.int64])
def test_the_least_of_extreme_integers_is_found(dtype: type) -> None:
    info = np.iinfo(dtype)
    x = np.array([[info.max, info.min, 3], [2, info.max, 5]], dtype)
    np.testing.assert_array_equal(sn.compile(lambda x: sn.min(x, 1))(x).numpy(), x.min(1))
    np.testing.assert_array_equal(sn.compile(lambda x: sn.argmin(x, 1))(x).numpy(), x.argmin(1))


@pytest.mark.parametrize("function", [sn.mean, sn.var, sn.std])
def test_statistics_of_nothing_are_nan(function: object) -> None:
    result = sn.compile(lambda x: function(x, 0))(np.zeros((0, 3), np.float16)).numpy()  # type: ignore[operator]
    assert np.isnan(result).all()


def test_nonzero_of_nothing_is_its_filling() -> None:
    rows, columns = sn.compile(lambda x: sn.nonzero(x, 2))(np.zeros((4, 0), bool))
    assert rows.numpy().tolist() == columns.numpy().tolist() == [0, 0]


def test_attention_of_a_symbolic_width_scales_in_its_own_dtype() -> None:
    x = np.random.default_rng(0).random((1, 4, 3))
    f = sn.compile(lambda x: sn.scaled_dot_product_attention(x, x, x), dims={"x": (None, None, "width")})
    scores = np.exp(x @ x.transpose(0, 2, 1) / np.sqrt(3))
    np.testing.assert_allclose(f(x).numpy(), scores / scores.sum(-1, keepdims=True) @ x, rtol=1e-13)


def test_gelu_of_minus_infinity_is_nan_as_in_pytorch() -> None:
    x = np.full(9, -np.inf, np.float32)
    assert np.isnan(sn.compile(lambda x: sn.gelu(x))(x).numpy()).all()


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint8, np.uint64])
def test_shifts_reach_every_place(dtype: type) -> None:
    bits = np.iinfo(dtype).bits
    values = np.array([1, 5, np.iinfo(dtype).max, np.iinfo(dtype).min], dtype)
    x, count = np.meshgrid(values, np.array([0, 1, bits - 2, bits - 1], dtype))
    left, right = sn.compile(lambda x, c: (sn.left_shift(x, c), sn.right_shift(x, c)))(x, count)
    np.testing.assert_array_equal(left.numpy(), np.left_shift(x, count))
    np.testing.assert_array_equal(right.numpy(), np.right_shift(x, count))


def test_random_words_are_those_of_the_interpreter() -> None:
    key = np.array([7, 1 << 31], np.uint32)
    words = sn.compile(lambda key: sn.random.bits(key, (3, 5)))(key).numpy()
    np.testing.assert_array_equal(words, philox_bits(15, (7, 1 << 31)).reshape(3, 5))


@pytest.mark.parametrize("dtype", [np.uint64, np.int64, np.float64])
def test_masked_loads_wider_than_a_register_read_nothing_outside(dtype: type) -> None:
    """Two loads of one address whose first halves are masked out made LLVM 22.1 read them."""
    x = np.arange(1, 92).reshape(7, 13).astype(dtype)
    condition = np.random.default_rng(0).random((7, 13)) < 0.5

    def shifted(x: sn.Tensor, places: int) -> sn.Tensor:
        return sn.pad(x, [(0, 0), (places, -places)])

    f = sn.compile(lambda x, c: sn.where(c, shifted(sn.maximum(x, shifted(x, 4)), 8), sn.maximum(x, shifted(x, 4))))
    near = np.maximum(x, np.pad(x, [(0, 0), (4, 0)])[:, :13])
    np.testing.assert_array_equal(
        f(x, condition).numpy(), np.where(condition, np.pad(near, [(0, 0), (8, 0)])[:, :13], near)
    )


def test_a_float_to_a_float_is_within_one_unit_in_the_last_place_at_any_exponent() -> None:
    rng = np.random.default_rng(0)
    a = np.exp(rng.uniform(-80, 80, 20_000)).astype(np.float32)
    b = (rng.uniform(-1, 1, 20_000) * 120 / np.maximum(1, np.abs(np.log2(a)))).astype(np.float32)
    exact = np.power(a.astype(np.float64), b.astype(np.float64))
    result = sn.compile(lambda a, b: a**b)(a, b).numpy()
    assert np.all(np.abs(result - exact) <= np.spacing(exact.astype(np.float32)))


def test_remainders_by_one_and_what_is_made_of_them_equal_numpy() -> None:
    edges = [0.0, -0.0, 0.5, -0.5, 1, -1, -1e-30, 2**23 - 0.5, -(2**23) + 0.5, np.inf, -np.inf, np.nan]
    x = np.concatenate([np.random.default_rng(0).standard_normal(5000) * 100, edges])
    for dtype in (np.float16, np.float32, np.float64):
        with np.errstate(invalid="ignore", over="ignore"):
            values = x.astype(dtype)
            expected = np.mod(values, dtype(1)), np.floor(values), np.ceil(values)
        for found, wanted in zip(
            sn.compile(lambda x: (x % 1.0, sn.floor(x), sn.ceil(x)))(values), expected, strict=True
        ):
            np.testing.assert_array_equal(found.numpy(), wanted)
