"""Values that other systems got wrong, computed by compiled programs; PyTorch and NumPy judge.

Each test names the report it is drawn from.  Cases about files and checkpoints (a malformed GGUF, `_orig_mod.`) are
tested beside the importers, whole batches of sequences beside the language models.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

import snell as sn
from snell.dtypes import i32
from snell.rewrite.evaluate import evaluate
from snell.rewrite.policy import Policy
from snell.rewrite.rewrite import equal_terms
from snell.rewrite.rules.notation import I, J, K, add, mul, sum_, tensor

Array = np.ndarray[Any, np.dtype[Any]]


def run(function: Any, *arguments: Any) -> Array:
    """The compiled function's only result."""
    return sn.compile(function)(*arguments).numpy()


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_a_fully_masked_attention_row_is_zero() -> None:
    """pytorch#103963, mlx#2395"""
    q, k, v = (normal(2, 5, 8, seed=s) for s in range(3))
    mask = np.random.default_rng(3).random((5, 5)) < 0.5
    mask[2] = False
    mask[0, 0] = True
    result = run(sn.scaled_dot_product_attention, q, k, v, mask)
    assert (result[:, 2] == 0).all()
    expected = torch.nn.functional.scaled_dot_product_attention(
        *(torch.from_numpy(x) for x in (q, k, v)), attn_mask=torch.from_numpy(mask)
    ).numpy()
    rows = mask.any(axis=1)
    np.testing.assert_allclose(result[:, rows], expected[:, rows], rtol=1e-5, atol=1e-6)


def test_a_softmax_of_nothing_but_minus_infinity_is_nan() -> None:
    x = np.array([[-np.inf, -np.inf], [0.0, -np.inf]], np.float32)
    np.testing.assert_array_equal(run(sn.softmax, x), torch.softmax(torch.from_numpy(x), -1).numpy())


def test_layer_norm_of_large_neighbours() -> None:
    """onnxruntime#28463"""
    result = run(sn.layer_norm, np.array([40000, 40001, 40002, 40003], np.float32))
    np.testing.assert_allclose(result, [-1.3416, -0.4472, 0.4472, 1.3416], atol=1e-4)


def test_layer_norm_of_small_differences_on_a_large_mean() -> None:
    """burn#5607: the float64 two-pass answer begins with -1.3415."""
    x = (1000 + np.arange(16) * 1e-3).astype(np.float32)
    result = run(sn.layer_norm, x)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(result, (wide - wide.mean()) / np.sqrt(wide.var() + 1e-5), atol=2e-2)
    assert result[0] == pytest.approx(-1.3415, abs=2e-2)


def test_the_mean_of_many_ones_is_one() -> None:
    """pytorch#154703"""
    assert run(sn.mean, np.ones(1 << 25, np.float32)) == 1.0


def test_a_long_sum_is_as_accurate_as_pairwise_summation() -> None:
    """No accumulator lane takes more than 4,096 terms without a second level, along either axis of a matrix."""
    x = np.random.default_rng(0).random((1 << 20, 3)).astype(np.float32)
    for matrix, axis in ((x, 0), (np.ascontiguousarray(x.T), 1)):
        result = run(lambda m, axis=axis: sn.sum(m, axis), matrix)
        np.testing.assert_allclose(result, matrix.sum(axis=axis, dtype=np.float64), rtol=3e-6)


def test_a_product_sum_over_a_long_axis_keeps_its_accuracy() -> None:
    a, b = (np.random.default_rng(seed).random((4, 1 << 18)).astype(np.float32) for seed in (0, 1))
    expected = a.astype(np.float64) @ b.astype(np.float64).T
    np.testing.assert_allclose(run(lambda x, y: x @ y.T, a, b), expected, rtol=3e-6)


def test_instance_norm_of_a_large_image_is_close_to_float64() -> None:
    """pytorch#142839"""
    x = np.random.default_rng(0).random((1, 3, 1024, 1024)).astype(np.float32)
    wide = x.astype(np.float64)
    spatial = (2, 3)
    expected = (wide - wide.mean(spatial, keepdims=True)) / np.sqrt(wide.var(spatial, keepdims=True) + 1e-5)
    assert np.abs(run(sn.instance_norm, x) - expected).max() < 1e-6


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ([2, math.nan, 7, 4, 1], 1),
        ([math.nan, 2, 7, 4, 1], 0),
        ([2, 4, 7, 1, math.nan], 4),
        ([2, math.nan, 7, math.nan, 1], 1),
        ([3, 7, 7, 1, 7], 1),
    ],
)
def test_argmax_finds_the_first_nan_or_the_first_of_equals(values: list[float], place: int) -> None:
    """tvm#19558, pytorch#93630"""
    x = np.array(values, np.float32)
    assert run(sn.argmax, x) == place == int(torch.argmax(torch.from_numpy(x)))


def test_a_dilated_depthwise_convolution_at_its_borders() -> None:
    """ncnn#315"""
    x, w, b = np.ones((1, 4, 5, 5), np.float32), np.full((4, 1, 3, 3), 1 / 9, np.float32), np.ones(4, np.float32)
    result = run(lambda x, w, b: sn.conv2d(x, w, b, padding=2, dilation=2, groups=4), x, w, b)
    np.testing.assert_allclose(result[0, :, 0, 0], 1.4444, atol=1e-4)
    np.testing.assert_allclose(result[0, :, 0, 2], 1.6667, atol=1e-4)
    np.testing.assert_allclose(result[0, :, 2, 2], 2.0, atol=1e-6)


def test_the_mean_of_greatest_integers_does_not_overflow() -> None:
    """tensorflow#125978"""
    assert run(sn.mean, np.full(2, 2**31 - 1, np.int32)) == 2147483647


def test_floor_division_rounds_down_whatever_the_signs() -> None:
    """mlx#4346"""
    a = np.array([-7, 7, -7, 7, -1, 1, -5, 5], np.int32)
    b = np.array([2, 2, -2, -2, 3, -3, 3, -3], np.int32)
    np.testing.assert_array_equal(run(lambda x, y: x // y, a, b), [-4, 3, 3, -4, -1, -1, -2, -2])


def test_denormal_results_stay_and_the_floating_point_mode_is_left_alone() -> None:
    """pytorch#126848"""
    scale = np.float32(2.0**-124)
    assert run(lambda x: x * np.float32(2.0**-124), np.full(16, 0.1875, np.float32))[0] == np.float32(0.1875) * scale
    run(sn.exp, np.full(16, -1000.0, np.float32))
    assert np.float32(0.1875) * scale == pytest.approx(8.816e-39, rel=1e-3)


def test_a_row_alone_and_inside_a_batch_gives_the_same_greedy_token() -> None:
    """vllm#9567: whole models are tested in tests/llm; this is the arithmetic they are made of."""
    x, up, head = normal(9, 7, 32), normal(32, 96, seed=1), normal(32, 301, seed=2)

    def logits(x: sn.Tensor, up: sn.Tensor, head: sn.Tensor) -> sn.Tensor:
        attended = sn.scaled_dot_product_attention(x, x, x, is_causal=True)
        hidden = sn.rms_norm(attended + sn.silu(attended @ up) @ up.T * 0.01)
        return hidden[:, -1] @ head

    function = sn.compile(logits, dims={"x": ("batch", None, None)})
    together = function(x, up, head).numpy()
    for row in range(len(x)):
        alone = function(x[row : row + 1], up, head).numpy()
        assert alone.argmax() == together[row].argmax()
        np.testing.assert_allclose(alone[0], together[row], rtol=1e-4, atol=1e-4)


def test_distributing_an_integer_product_wraps_the_same() -> None:
    """pytorch#190764"""
    generator = np.random.default_rng(0)
    x, y, z = (generator.integers(-(2**31), 2**31, shape, np.int32) for shape in ((4, 5), (5, 3), (5, 3)))
    with np.errstate(over="ignore"):
        expected = x @ (y + z)
    np.testing.assert_array_equal(run(lambda x, y, z: x @ (y + z), x, y, z), expected)
    np.testing.assert_array_equal(run(lambda x, y, z: x @ y + x @ z, x, y, z), expected)


def test_every_extraction_of_an_integer_product_of_sums_is_equal() -> None:
    """pytorch#190764: not only the first and the last, with values that wrap."""
    x, y, z = (tensor(name, *axes, dtype=i32) for name, axes in (("x", (I, K)), ("y", (K, J)), ("z", (K, J))))
    original = sum_(mul(x, add(y, z)), K)
    generator = np.random.default_rng(0)
    values = {
        name: generator.integers(-(2**31), 2**31, [axis.extent for axis in axes], np.int32)
        for name, axes in (("x", (I, K)), ("y", (K, J)), ("z", (K, J)))
    }
    expected = evaluate(original, (I, J), values)
    extractions = equal_terms((original,), 32, policy=Policy.FAST)
    assert len(extractions) > 1
    for (found,) in extractions:
        np.testing.assert_array_equal(evaluate(found, (I, J), values), expected, err_msg=str(found))
