"""Reductions agree with PyTorch: dtypes, axes, NaN, ties and empty axes."""

import ml_dtypes
import numpy as np
import pytest
import torch
from tests.frontend.judge import assert_same, random, run, tensor

import snell.frontend as sn
from snell.errors import ShapeError
from snell.symbolic import Dim

AXES = [None, 0, -1, (0, 2)]


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("keepdims", [False, True])
def test_sum_mean_var_and_extrema_agree_with_pytorch(axis, keepdims: bool) -> None:
    x = random(3, 4, 5)
    t, every = torch.from_numpy(x), (0, 1, 2) if axis is None else axis
    assert_same(sn.sum(tensor(x), axis, keepdims), t.sum(every, keepdim=keepdims))
    assert_same(sn.mean(tensor(x), axis, keepdims), t.mean(every, keepdim=keepdims))
    assert_same(sn.var(tensor(x), axis, keepdims, correction=1), t.var(every, keepdim=keepdims))
    assert_same(sn.std(tensor(x), axis, keepdims), t.std(every, correction=0, keepdim=keepdims))
    assert_same(sn.max(tensor(x), axis, keepdims), t.amax(every, keepdim=keepdims))
    assert_same(sn.min(tensor(x), axis, keepdims), t.amin(every, keepdim=keepdims))
    assert_same(sn.logsumexp(tensor(x), axis, keepdims), t.logsumexp(every, keepdim=keepdims))


def test_integers_and_bool_add_up_and_multiply_in_i64() -> None:
    x = np.array([100, 100, 100], np.int8)
    assert_same(sn.sum(tensor(x)), torch.from_numpy(x).sum())
    assert_same(sn.prod(tensor(x)), torch.from_numpy(x).prod())
    assert_same(sn.sum(tensor([True, True])), torch.tensor([True, True]).sum())


def test_the_mean_of_large_integers_is_exact() -> None:
    assert sn.mean(tensor(np.array([2**31 - 1] * 2, np.int32))).numpy() == 2147483647


def test_extrema_propagate_nan_and_reject_an_empty_axis() -> None:
    assert np.isnan(sn.max(tensor([1.0, np.nan])).numpy())
    assert np.isnan(sn.min(tensor([1.0, np.nan])).numpy())
    with pytest.raises(ShapeError, match="no elements"):
        sn.max(tensor(np.zeros((0, 2), np.float32)), 0)


def test_extrema_of_integers_reach_the_ends_of_the_range() -> None:
    x = np.array([-128, 127, 0], np.int8)
    assert sn.min(tensor(x)).numpy() == -128
    assert sn.max(tensor(x)).numpy() == 127
    assert sn.min(tensor(np.array([3, 255], np.uint8))).numpy() == 3


def test_reductions_over_nothing_have_their_neutral_element() -> None:
    empty = tensor(np.zeros((2, 0), np.float32))
    assert sn.sum(empty, 1).numpy().tolist() == [0, 0]
    assert sn.prod(empty, 1).numpy().tolist() == [1, 1]
    assert np.isnan(sn.mean(empty, 1).numpy()).all()
    assert sn.any(empty, 1).numpy().tolist() == [False, False]
    assert sn.all(empty, 1).numpy().tolist() == [True, True]


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ([2, np.nan, 7, 4, 1], 1),
        ([np.nan, 2, 7, 4, 1], 0),
        ([2, 4, 7, 1, np.nan], 4),
        ([1, 3, 3, 2], 1),
        ([-np.inf] * 3, 0),
    ],
)
def test_argmax_is_the_first_nan_or_the_first_of_equals(values: list[float], place: int) -> None:
    assert sn.argmax(tensor(values)).numpy() == place
    assert sn.argmin(-tensor(values)).numpy() == place


def test_argmax_along_an_axis_agrees_with_pytorch() -> None:
    x = np.random.default_rng(0).integers(0, 4, (5, 6)).astype(np.int32)
    assert_same(sn.argmax(tensor(x), 1, keepdims=True), torch.from_numpy(x).argmax(1, keepdim=True))
    assert sn.argmin(tensor([True, False, False])).numpy() == 1


def test_logsumexp_survives_infinities() -> None:
    x = np.array([[-np.inf, -np.inf], [np.inf, 0], [1000, 1000], [np.nan, 0]], np.float32)
    assert_same(sn.logsumexp(tensor(x), -1), torch.from_numpy(x).logsumexp(-1))


def test_products_of_every_length_agree() -> None:
    for length in range(1, 10):
        x = random(2, length)
        assert_same(sn.prod(tensor(x), 1), torch.from_numpy(x).prod(1))


def test_a_mean_over_a_symbolic_axis_divides_by_the_size_of_the_call() -> None:
    seq = Dim("seq")
    specs = [sn.TensorSpec.of((2, seq))]
    for length in (1, 3, 7):
        x = random(2, length)
        (mean, variance) = run(lambda x: (sn.mean(x, 1), sn.var(x, 1)), specs, [x])
        np.testing.assert_allclose(mean, x.mean(1), rtol=1e-6)
        np.testing.assert_allclose(variance, x.var(1), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("length", [1, 5, 64, 65, 200])
def test_running_sums_agree_and_do_not_reach_back(length: int) -> None:
    x = random(2, length)
    x[1, length // 2] = np.inf
    assert_same(sn.cumsum(tensor(x), 1), torch.from_numpy(x).cumsum(1), atol=1e-5)
    whole = np.arange(length, dtype=np.int8)
    assert_same(sn.cumsum(tensor(whole), 0), torch.from_numpy(whole).cumsum(0))


def test_running_sums_over_a_symbolic_axis() -> None:
    seq = Dim("seq", max=5000)
    for length in (1, 64, 131):
        x = random(length)
        (result,) = run(lambda x: sn.cumsum(x, 0), [sn.TensorSpec.of((seq,))], [x])
        np.testing.assert_allclose(result, np.cumsum(x, dtype=np.float64), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("length", [0, 1, 11, 64, 65, 150])
def test_running_products_and_extrema_agree(length: int) -> None:
    x = random(3, length)
    x[0, length // 2 : length // 2 + 1] = np.nan
    assert_same(sn.cumprod(tensor(x), 1), torch.from_numpy(x).cumprod(1), rtol=1e-4)
    if length:
        assert_same(sn.cummax(tensor(x), 1), torch.from_numpy(x).cummax(1).values)
        assert_same(sn.cummin(tensor(x), 1), torch.from_numpy(x).cummin(1).values)
    whole = np.random.default_rng(0).integers(-128, 127, (length, 2), np.int8)
    assert_same(sn.cumprod(tensor(whole), 0), torch.from_numpy(whole).cumprod(0))
    np.testing.assert_array_equal(sn.cummin(tensor(whole), 0).numpy(), np.minimum.accumulate(whole, 0))


def test_running_extrema_over_a_symbolic_axis() -> None:
    seq = Dim("seq", max=5000)
    for length in (1, 64, 131):
        x = random(length)
        (greatest, product) = run(lambda x: (sn.cummax(x, 0), sn.cumprod(x, 0)), [sn.TensorSpec.of((seq,))], [x])
        np.testing.assert_array_equal(greatest, np.maximum.accumulate(x))
        np.testing.assert_allclose(product, np.cumprod(x, dtype=np.float64), rtol=1e-4, atol=1e-30)


def test_running_sums_of_half_precision_accumulate_in_single() -> None:
    x = np.full(3000, 1.0, ml_dtypes.bfloat16)
    np.testing.assert_array_equal(sn.cumsum(tensor(x), 0).numpy(), np.cumsum(np.ones(3000)).astype(ml_dtypes.bfloat16))


def test_reductions_over_nothing_agree_with_pytorch() -> None:
    for shape, axis in (((0, 3), 0), ((3, 0), 1), ((2, 0, 3), 2)):
        x = np.zeros(shape, np.float32)
        assert_same(sn.softmax(tensor(x), axis), torch.from_numpy(x).softmax(axis))
        assert_same(sn.log_softmax(tensor(x), axis), torch.from_numpy(x).log_softmax(axis))
        assert_same(sn.logsumexp(tensor(x), axis), torch.from_numpy(x).logsumexp(axis))
        assert_same(sn.std(tensor(x), axis, correction=1), torch.from_numpy(x).std(axis))


def test_a_mean_of_64_bit_integers_does_not_wrap() -> None:
    x = np.array([-(2**63), 2**63 - 1, 2**63 - 1], np.int64)
    np.testing.assert_allclose(sn.mean(tensor(x)).numpy(), x.mean())
    np.testing.assert_allclose(sn.mean(tensor(x.view(np.uint64))).numpy(), x.view(np.uint64).mean())
