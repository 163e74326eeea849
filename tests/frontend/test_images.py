"""Adaptive pools, interpolation and pixel shuffles agree with PyTorch; sizes that mean nothing are errors."""

import numpy as np
import pytest
import torch
import torch.nn.functional as nnf
from tests.frontend.judge import assert_same, random, run, tensor

import snell.frontend as sn
from snell.errors import ShapeError, SymbolicError, UnsupportedError
from snell.symbolic import Dim

IMAGE = random(2, 3, 7, 10)
T = torch.from_numpy(IMAGE)


@pytest.mark.parametrize("size", [1, 7, (7, 10), (3, 4), (2, 5), (9, 23), (None, 3), (5, None)], ids=str)
def test_adaptive_pools_agree_with_pytorch(size) -> None:
    assert_same(sn.adaptive_avg_pool(tensor(IMAGE), size), nnf.adaptive_avg_pool2d(T, size))
    assert_same(sn.adaptive_max_pool(tensor(IMAGE), size), nnf.adaptive_max_pool2d(T, size))


def test_an_adaptive_maximum_keeps_nan_and_minus_infinity() -> None:
    x = IMAGE.copy()
    x[0, 0, 3, 4], x[1, 1] = np.nan, -np.inf
    assert_same(sn.adaptive_max_pool(tensor(x), (4, 3)), nnf.adaptive_max_pool2d(torch.from_numpy(x), (4, 3)))
    assert_same(sn.global_max_pool(tensor(x)), nnf.adaptive_max_pool2d(torch.from_numpy(x), 1))


def test_an_adaptive_maximum_of_integers_has_no_padding_that_wins() -> None:
    x = np.arange(-20, 0, dtype=np.int32).reshape(1, 2, 10)
    found = sn.adaptive_max_pool(tensor(x), 4).numpy()
    np.testing.assert_array_equal(found, [[[-18, -16, -13, -11], [-8, -6, -3, -1]]])


def test_adaptive_pools_take_an_extent_that_is_a_dim_where_the_size_divides_it() -> None:
    x = random(2, 3, 12)
    third = Dim("third")
    spec = [sn.TensorSpec.of((2, 3, 3 * third))]
    (found,) = run(lambda x: sn.adaptive_avg_pool(x, 3), spec, [x], third=4)
    np.testing.assert_allclose(found, nnf.adaptive_avg_pool1d(torch.from_numpy(x), 3).numpy(), rtol=1e-5, atol=1e-6)
    with pytest.raises(SymbolicError, match="adaptive pooling needs a known extent"):
        run(lambda x: sn.adaptive_max_pool(x, 5), spec, [x], third=4)


@pytest.mark.parametrize("size", [0, (1, 2, 3), (2, 0)])
def test_adaptive_sizes_that_mean_nothing_are_errors(size) -> None:
    with pytest.raises(ShapeError, match="1 or 2 sizes of at least 1"):
        sn.adaptive_avg_pool(tensor(IMAGE), size)


@pytest.mark.parametrize("size", [(7, 10), (14, 20), (5, 16), (1, 1), (21, 3), (8, 9)], ids=str)
def test_interpolation_to_a_size_agrees_with_pytorch(size) -> None:
    assert_same(sn.interpolate(tensor(IMAGE), size), nnf.interpolate(T, size))
    assert_same(
        sn.interpolate(tensor(IMAGE), size, mode="linear"), nnf.interpolate(T, size, mode="bilinear"), 1e-4, 1e-5
    )
    assert_same(
        sn.interpolate(tensor(IMAGE), size, mode="linear", align_corners=True),
        nnf.interpolate(T, size, mode="bilinear", align_corners=True),
        1e-4,
        1e-5,
    )


@pytest.mark.parametrize("scale", [2.0, (1.5, 0.5), (1 / 3, 2.25), (0.7, 3.0)], ids=str)
def test_interpolation_by_a_scale_agrees_with_pytorch(scale) -> None:
    assert_same(sn.interpolate(tensor(IMAGE), scale=scale), nnf.interpolate(T, scale_factor=scale))
    found = sn.interpolate(tensor(IMAGE), scale=scale, mode="linear")
    assert_same(found, nnf.interpolate(T, scale_factor=scale, mode="bilinear"), 1e-4, 1e-5)


def test_interpolation_repeats_integers_and_mixes_half_precision_in_single() -> None:
    whole = np.arange(6, dtype=np.int32).reshape(1, 2, 3)
    np.testing.assert_array_equal(sn.interpolate(tensor(whole), scale=2).numpy(), np.repeat(whole, 2, -1))
    half = random(1, 1, 9).astype(np.float16)
    found = sn.interpolate(tensor(half), 5, mode="linear").numpy()
    expected = nnf.interpolate(torch.from_numpy(half).float(), 5, mode="linear").numpy()
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


def test_the_border_of_a_linear_interpolation_is_the_outermost_element_itself() -> None:
    x = np.array([[[np.inf, 1.0, 3.0]]], np.float32)
    found = sn.interpolate(tensor(x), scale=4, mode="linear").numpy()[0, 0]
    assert (found[:2] == np.inf).all()
    np.testing.assert_array_equal(found[-2:], [3.0, 3.0])


def test_a_scale_serves_extents_that_are_dims() -> None:
    height = Dim("height")
    spec = [sn.TensorSpec.of((2, 3, height, 10))]
    for mode, theirs in (("nearest", "nearest"), ("linear", "bilinear")):
        (found,) = run(lambda x, mode=mode: sn.interpolate(x, scale=2, mode=mode), spec, [IMAGE], height=7)
        expected = nnf.interpolate(T, scale_factor=2, mode=theirs).numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(SymbolicError, match="a scale serves any extent"):
        run(lambda x: sn.interpolate(x, 5), spec, [IMAGE], height=7)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, ShapeError, "either size or scale"),
        ({"size": 3, "scale": 2.0}, ShapeError, "either size or scale"),
        ({"size": (3, 0)}, ShapeError, "sizes of at least 1"),
        ({"scale": 0.1}, ShapeError, "a scale that leaves an element of 7"),
        ({"size": 3, "mode": "cubic"}, UnsupportedError, "'cubic'"),
        ({"size": 3, "align_corners": True}, UnsupportedError, "align_corners with 'linear' alone"),
    ],
)
def test_interpolations_that_mean_nothing_are_errors(options, error, message: str) -> None:
    with pytest.raises(error, match=message):
        sn.interpolate(tensor(IMAGE), **options)


def test_pixel_shuffles_agree_with_pytorch_and_undo_each_other() -> None:
    x = random(2, 2, 18, 3, 4)
    finer = sn.pixel_shuffle(tensor(x), 3)
    assert_same(finer, nnf.pixel_shuffle(torch.from_numpy(x), 3))
    np.testing.assert_array_equal(sn.pixel_unshuffle(finer, 3).numpy(), x)
    assert_same(sn.pixel_unshuffle(tensor(IMAGE[..., :6, :]), 2), nnf.pixel_unshuffle(T[..., :6, :], 2))


def test_pixel_shuffles_that_do_not_come_out_even_are_errors() -> None:
    with pytest.raises(ShapeError, match=r"a multiple of 4 channels, received \(2, 3, 7, 10\)"):
        sn.pixel_shuffle(tensor(IMAGE), 2)
    with pytest.raises(ShapeError, match=r"a height and a width that it divides, received \(2, 3, 7, 10\)"):
        sn.pixel_unshuffle(tensor(IMAGE), 2)
    with pytest.raises(ShapeError, match="a factor of at least 1"):
        sn.pixel_shuffle(tensor(IMAGE), 0)
