"""Element-wise operations agree with PyTorch, at NaN, ±inf and ±0 too."""

import itertools
import math

import numpy as np
import pytest
import torch
from tests.frontend.judge import SPECIAL, assert_same, random, tensor

import snell.frontend as sn
from snell import dtypes
from snell.errors import DTypeError, ShapeError

UNARY = {
    sn.exp: torch.exp, sn.exp2: torch.exp2, sn.log: torch.log, sn.log2: torch.log2, sn.log10: torch.log10,
    sn.expm1: torch.expm1, sn.log1p: torch.log1p, sn.sqrt: torch.sqrt, sn.rsqrt: torch.rsqrt, sn.sin: torch.sin,
    sn.cos: torch.cos, sn.tan: torch.tan, sn.asin: torch.asin, sn.acos: torch.acos, sn.atan: torch.atan,
    sn.sinh: torch.sinh, sn.cosh: torch.cosh, sn.tanh: torch.tanh, sn.asinh: torch.asinh, sn.acosh: torch.acosh,
    sn.atanh: torch.atanh, sn.erf: torch.erf, sn.sigmoid: torch.sigmoid, sn.reciprocal: torch.reciprocal,
    sn.negative: torch.neg, sn.absolute: torch.abs, sn.sign: torch.sign, sn.floor: torch.floor, sn.ceil: torch.ceil,
    sn.round: torch.round, sn.trunc: torch.trunc, sn.isnan: torch.isnan, sn.isinf: torch.isinf,
    sn.isfinite: torch.isfinite, sn.relu: torch.relu, sn.silu: torch.nn.functional.silu,
    sn.gelu: torch.nn.functional.gelu, sn.softplus: lambda x: torch.nn.functional.softplus(x, threshold=1e9),
    sn.elu: torch.nn.functional.elu, sn.leaky_relu: torch.nn.functional.leaky_relu, sn.selu: torch.selu,
    sn.celu: torch.nn.functional.celu, sn.relu6: torch.nn.functional.relu6, sn.mish: torch.nn.functional.mish,
    sn.hardsigmoid: torch.nn.functional.hardsigmoid, sn.hardswish: torch.nn.functional.hardswish,
    sn.softsign: torch.nn.functional.softsign, sn.log_sigmoid: torch.nn.functional.logsigmoid, sn.square: torch.square,
}  # fmt: skip
# PyTorch's own limits at infinity differ from the formula's: x·0 at -inf, and inf/inf.
UNDEFINED_AT_INFINITY = {sn.silu, sn.gelu, sn.mish, sn.hardswish, sn.softsign}


@pytest.mark.parametrize("ours", UNARY, ids=lambda f: f.__name__)
def test_a_function_of_one_variable_agrees_with_pytorch(ours) -> None:
    values = np.concatenate(
        [SPECIAL[:3] if ours not in UNDEFINED_AT_INFINITY else SPECIAL[:1], SPECIAL[3:-1], random(50)]
    )
    assert_same(ours(tensor(values)), UNARY[ours](torch.from_numpy(values)), rtol=2e-6, atol=1e-7)


def test_gelu_by_tanh_agrees_with_pytorch() -> None:
    x = random(64)
    assert_same(sn.gelu(tensor(x), "tanh"), torch.nn.functional.gelu(torch.from_numpy(x), approximate="tanh"))


BINARY = {
    sn.add: torch.add, sn.subtract: torch.sub, sn.multiply: torch.mul, sn.divide: torch.div, sn.maximum: torch.maximum,
    sn.minimum: torch.minimum, sn.less: torch.lt, sn.less_equal: torch.le, sn.greater: torch.gt,
    sn.greater_equal: torch.ge,
    sn.equal: torch.eq, sn.not_equal: torch.ne, sn.modulo: torch.remainder, sn.fmod: torch.fmod,
    sn.floor_divide: torch.floor_divide, sn.power: torch.pow,
}  # fmt: skip


@pytest.mark.parametrize("ours", BINARY, ids=lambda f: f.__name__)
def test_a_function_of_two_variables_agrees_with_pytorch_at_every_special_pair(ours) -> None:
    finite = SPECIAL[np.abs(SPECIAL) < 1e30] if ours in (sn.floor_divide,) else SPECIAL[:-1]
    a, b = (np.array(side, np.float32) for side in zip(*itertools.product(finite, SPECIAL[:-1]), strict=True))
    expected = BINARY[ours](torch.from_numpy(a), torch.from_numpy(b)).numpy()
    actual = ours(tensor(a), tensor(b)).numpy()

    np.testing.assert_allclose(actual, expected, rtol=2e-6, atol=1e-30)


def test_the_sign_of_zero_survives_negation_and_multiplication() -> None:
    zeros = tensor([0.0, -0.0])
    assert np.signbit((-zeros).numpy()).tolist() == [True, False]
    assert np.signbit((zeros * 2.0).numpy()).tolist() == [False, True]
    assert np.signbit(sn.absolute(zeros).numpy()).tolist() == [False, False]
    assert np.signbit(sn.floor(zeros).numpy()).tolist() == [False, True]
    assert np.signbit((tensor([1.0]) * -0.0).numpy()).tolist() == [True]


def test_rounding_leaves_huge_values_infinities_and_nan_alone() -> None:
    x = np.array([2.0**23, 2.0**24 + 2, -(2.0**31), 3e38, -np.inf, np.inf, np.nan], np.float32)
    for function in (sn.floor, sn.ceil, sn.round, sn.trunc):
        np.testing.assert_array_equal(function(tensor(x)).numpy(), x)


def test_round_goes_to_the_even_neighbour() -> None:
    x = np.arange(-4.5, 5.0, 0.5).astype(np.float32)
    np.testing.assert_array_equal(sn.round(tensor(x)).numpy(), np.round(x))


def test_where_never_lets_the_other_branch_through() -> None:
    chosen = sn.where(tensor([True, False, True]), tensor([1.0, np.nan, np.inf]), tensor([np.nan, 2.0, np.inf]))
    np.testing.assert_array_equal(chosen.numpy(), np.array([1, 2, np.inf], np.float32))


def test_a_bool_product_selects() -> None:
    np.testing.assert_array_equal((tensor([True, False]) * tensor([2.0, np.inf])).numpy(), [2, 0])


def test_clip_propagates_nan_and_prefers_the_upper_bound() -> None:
    x = np.array([-3, 0.5, 9, np.nan], np.float32)
    assert_same(sn.clip(tensor(x), -1, 2), torch.clamp(torch.from_numpy(x), -1, 2))
    assert sn.clip(tensor([0.0]), 2, 1).numpy().tolist() == [1]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_integer_floor_division_and_modulo_are_exact_for_every_pair(dtype: str) -> None:
    info = np.iinfo(dtype)
    edges = [
        info.min,
        info.min + 1,
        -7,
        -3,
        -2,
        -1,
        0,
        1,
        2,
        3,
        7,
        10,
        127,
        info.max // 3,
        info.max // 2 + 1,
        info.max - 1,
        info.max,
    ]
    drawn = np.random.default_rng(0).integers(info.min, info.max, 40, dtype, endpoint=True).tolist()
    values = [v for v in [*edges, *drawn] if info.min <= v <= info.max]
    a, b = (np.array(side, dtype) for side in zip(*[p for p in itertools.product(values, values) if p[1]], strict=True))
    exact = [int(x) // int(y) for x, y in zip(a, b, strict=True)]
    wrapped = np.array([q if q <= info.max else info.min for q in exact], dtype)
    np.testing.assert_array_equal((tensor(a) // tensor(b)).numpy(), wrapped)
    pairs = [(int(x), int(y)) for x, y in zip(a, b, strict=True)]
    c_remainders = [int(math.copysign(1, x)) * (abs(x) % abs(y)) for x, y in pairs]
    np.testing.assert_array_equal(sn.fmod(tensor(a), tensor(b)).numpy(), c_remainders)
    np.testing.assert_array_equal((tensor(a) % tensor(b)).numpy(), [x % y for x, y in pairs])


def test_floor_division_of_the_case_list() -> None:
    a, b = tensor([-7, 7, -7, 7, -1, 1, -5, 5]), tensor([2, 2, -2, -2, 3, -3, 3, -3])
    assert (a // b).numpy().tolist() == [-4, 3, 3, -4, -1, -1, -2, -2]


def test_integer_division_by_zero_fails_a_check_where_it_happens() -> None:
    with pytest.raises(IndexError, match="division by zero"):
        (tensor([1, 2]) // tensor([1, 0])).numpy()
    assert (tensor([1, 2]) // tensor([1, 1])).numpy().tolist() == [1, 2]


def test_integer_powers_wrap_and_known_powers_are_products() -> None:
    a = np.array([3, -2, 0, 7], np.int32)
    np.testing.assert_array_equal((tensor(a) ** 5).numpy(), a**5)
    np.testing.assert_array_equal(
        (tensor(a) ** tensor(np.array([40, 3, 0, 2], np.int32))).numpy(), a ** np.array([40, 3, 0, 2], np.int32)
    )
    np.testing.assert_allclose((tensor([3.0]) ** -2).numpy(), [1 / 9], rtol=1e-6)
    np.testing.assert_allclose((tensor([9.0]) ** 0.5).numpy(), [3])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64"])
def test_bitwise_operations_agree_with_numpy(dtype: str) -> None:
    info = np.iinfo(dtype)
    a, b = (np.random.default_rng(s).integers(info.min, info.max, 50, dtype, endpoint=True) for s in (1, 2))
    a[:2], b[:2] = (info.min, info.max), (info.max, info.max)
    x, y = tensor(a), tensor(b)
    np.testing.assert_array_equal((x & y).numpy(), a & b)
    np.testing.assert_array_equal((x | y).numpy(), a | b)
    np.testing.assert_array_equal((x ^ y).numpy(), a ^ b)
    np.testing.assert_array_equal((~x).numpy(), ~a)
    np.testing.assert_array_equal((x >> 3).numpy(), a >> 3)
    np.testing.assert_array_equal((x << 3).numpy(), a << 3)


PROMOTIONS = [
    ("f16", 2.5, "f16"), ("i32", 1, "i32"), ("i32", 1.5, "f32"), ("bool", 1, "i64"), ("u8", 7, "u8"),
    ("bf16", 1, "bf16"),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "number", "result"), PROMOTIONS)
def test_a_python_number_takes_the_dtype_it_meets(dtype: str, number: float, result: str) -> None:
    assert (sn.ones((2,), dtype) * number).dtype == dtypes.from_name(result)
    assert (number * sn.ones((2,), dtype)).dtype == dtypes.from_name(result)


def test_tensors_promote_as_the_array_api_says() -> None:
    pairs = {
        ("i32", "f16"): "f16",
        ("f16", "bf16"): "f32",
        ("u8", "i8"): "i16",
        ("bool", "f32"): "f32",
        ("i64", "f32"): "f32",
    }
    for (a, b), expected in pairs.items():
        assert (sn.ones((1,), a) - sn.ones((1,), b)).dtype.name == expected


def test_adding_two_bools_is_an_error_that_names_the_remedy() -> None:
    with pytest.raises(DTypeError, match="logical_or"):
        tensor([True]) + tensor([False])


def test_a_number_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(DTypeError, match="does not fit u8"):
        tensor([1], np.uint8) + 300


def test_shapes_that_do_not_broadcast_name_the_axis_and_sizes() -> None:
    with pytest.raises(ShapeError, match=r"axis -1 has extents 3 and 4"):
        tensor(random(2, 3)) + tensor(random(4))


def test_casts_truncate_saturate_and_wrap() -> None:
    x = tensor([1.9, -1.9, 300.0, -300.0, math.nan, math.inf])
    assert x.astype("i8").numpy().tolist() == [1, -1, 127, -128, 0, 127]
    assert tensor([300, -1]).astype("u8").numpy().tolist() == [44, 255]
    assert tensor([0.0, 2.0, math.nan]).astype("bool").numpy().tolist() == [False, True, True]


def test_numpy_arrays_on_either_side_become_tensors() -> None:
    a, b = random(3), random(3, seed=1)
    np.testing.assert_allclose((a - tensor(b)).numpy(), a - b)
    np.testing.assert_allclose((tensor(a) * np.float64(0.5)).numpy(), a * np.float32(0.5))


def test_a_power_of_one_is_exact_and_acosh_below_one_is_nan() -> None:
    greatest = float(np.finfo(np.float32).max)
    assert (tensor([greatest]) ** tensor([1.0])).numpy() == np.float32(greatest)
    assert np.isnan(sn.acosh(tensor([-greatest, -3.0, 0.5])).numpy()).all()


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint16, np.int64])
def test_shifts_keep_the_dtype(dtype) -> None:
    x = np.array([-5, 100, 0, -128] if np.dtype(dtype).kind == "i" else [5, 100, 0, 255], dtype)
    for count in (0, 1, 7):
        actual = (tensor(x) >> count).numpy()
        np.testing.assert_array_equal(actual, x >> dtype(count))
        assert actual.dtype == dtype


def test_the_negative_of_a_bool_is_refused() -> None:
    with pytest.raises(DTypeError, match="logical_not"):
        _ = -tensor([True])
