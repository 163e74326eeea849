"""Softmax, normalisation, attention, convolutions and pools agree with PyTorch and with the case list."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as nnf
from tests.frontend.judge import assert_same, random, run, tensor

import snell.frontend as sn
from snell.errors import ConfigError, ShapeError
from snell.symbolic import Dim


def test_softmax_agrees_and_is_nan_where_all_are_minus_infinity() -> None:
    x = random(3, 5)
    x[1], x[2, 2] = -np.inf, -np.inf
    assert_same(sn.softmax(tensor(x)), torch.from_numpy(x).softmax(-1))
    assert_same(sn.log_softmax(tensor(x), 0), torch.from_numpy(x).log_softmax(0))


def test_half_precision_softmax_sums_in_single_precision() -> None:
    x = random(2, 1000).astype(np.float16)
    assert_same(sn.softmax(tensor(x)), torch.from_numpy(x).softmax(-1), rtol=2e-3)


def test_layer_norm_of_the_case_list() -> None:
    x = tensor(np.array([40000, 40001, 40002, 40003], np.float32))
    np.testing.assert_allclose(sn.layer_norm(x).numpy(), [-1.3416, -0.4472, 0.4472, 1.3416], atol=1e-4)
    y = (1000 + np.arange(16) * 1e-3).astype(np.float32)
    assert abs(sn.layer_norm(tensor(y)).numpy()[0] - -1.3415) < 2e-2


def test_the_normalisations_agree_with_pytorch() -> None:
    x, w, b = random(2, 6, 5, 4), random(6, seed=1), random(6, seed=2)
    t, tw, tb = (torch.from_numpy(a) for a in (x, w, b))
    assert_same(sn.group_norm(tensor(x), 3, w, b), nnf.group_norm(t, 3, tw, tb), atol=1e-5)
    assert_same(sn.instance_norm(tensor(x), w, b), nnf.instance_norm(t, weight=tw, bias=tb), atol=1e-5)
    mean, var = random(6, seed=3), np.abs(random(6, seed=4)) + 0.1
    expected = nnf.batch_norm(t, torch.from_numpy(mean), torch.from_numpy(var), tw, tb)
    assert_same(sn.batch_norm(tensor(x), mean, var, w, b), expected, atol=1e-5)
    lw, lb = random(4, seed=5), random(4, seed=6)
    expected = nnf.layer_norm(t, (4,), torch.from_numpy(lw), torch.from_numpy(lb))
    assert_same(sn.layer_norm(tensor(x), lw, lb), expected, atol=1e-5)
    assert_same(sn.rms_norm(tensor(x), lw), nnf.rms_norm(t, (4,), torch.from_numpy(lw), 1e-6), atol=1e-5)
    with pytest.raises(ShapeError, match="divide 6 channels"):
        sn.group_norm(tensor(x), 4)


Q, K, V = random(2, 6, 5, 8), random(2, 6, 7, 8, seed=1), random(2, 6, 7, 4, seed=2)


def judge(q, k, v, **options):
    return nnf.scaled_dot_product_attention(*map(torch.from_numpy, (q, k, v)), **options)


def test_attention_agrees_with_pytorch() -> None:
    assert_same(sn.scaled_dot_product_attention(tensor(Q), K, V), judge(Q, K, V))
    assert_same(sn.scaled_dot_product_attention(tensor(Q), K, V, scale=0.3), judge(Q, K, V, scale=0.3))
    assert_same(sn.scaled_dot_product_attention(tensor(Q), K, V, is_causal=True), judge(Q, K, V, is_causal=True))
    bias = random(1, 6, 5, 7, seed=3)
    assert_same(
        sn.scaled_dot_product_attention(tensor(Q), K, V, tensor(bias)), judge(Q, K, V, attn_mask=torch.from_numpy(bias))
    )


def test_a_fully_masked_row_gives_zeros_whatever_the_values() -> None:
    mask = np.random.default_rng(0).random((2, 1, 5, 7)) < 0.5
    mask[0, 0, 2] = False
    result = sn.scaled_dot_product_attention(tensor(Q), K, V, tensor(mask))
    assert_same(result, judge(Q, K, V, attn_mask=torch.from_numpy(mask)))
    assert (result.numpy()[0, :, 2] == 0).all()


def test_nan_scores_are_not_hidden() -> None:
    q = Q.copy()
    q[0, 0, 1] = np.nan
    result = sn.scaled_dot_product_attention(tensor(q), K, V, is_causal=True).numpy()
    assert np.isnan(result[0, 0, 1]).all()
    assert not np.isnan(result[0, 0, 0]).any()


def test_grouped_heads_share_keys() -> None:
    k, v = K[:, :2], V[:, :2]
    mask = np.random.default_rng(0).random((2, 6, 5, 7)) < 0.7
    assert_same(sn.scaled_dot_product_attention(tensor(Q), k, v), judge(Q, k, v, enable_gqa=True))
    assert_same(
        sn.scaled_dot_product_attention(tensor(Q), k, v, tensor(mask)),
        judge(Q, k, v, attn_mask=torch.from_numpy(mask), enable_gqa=True),
    )
    with pytest.raises(ShapeError, match="multiple of the 4 key heads"):
        sn.scaled_dot_product_attention(tensor(Q), K[:, :4], V[:, :4])


def test_a_decoder_attends_from_its_place_in_the_cache() -> None:
    past, new = Dim("past", min=0, max=64), Dim("new", max=64)
    total = past + new
    specs = [sn.TensorSpec.of((1, 6, new, 8)), sn.TensorSpec.of((1, 2, total, 8)), sn.TensorSpec.of((1, 2, total, 4))]
    for cached, fresh in ((0, 5), (6, 1), (3, 2)):
        q, k, v = (
            random(1, 6, fresh, 8),
            random(1, 2, cached + fresh, 8, seed=1),
            random(1, 2, cached + fresh, 4, seed=2),
        )
        mask = torch.arange(fresh)[:, None] + cached >= torch.arange(cached + fresh)
        expected = judge(q, k, v, attn_mask=mask, enable_gqa=True).numpy()
        (result,) = run(
            lambda q, k, v: sn.scaled_dot_product_attention(q, k, v, is_causal=True, query_offset=past),
            specs,
            [q, k, v],
            past=cached,
        )
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
        starts = tensor(np.array([cached]))
        batched = sn.scaled_dot_product_attention(tensor(q), k, v, is_causal=True, query_offset=starts)
        np.testing.assert_allclose(batched.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_attention_weights_are_what_the_values_are_multiplied_with() -> None:
    k, v = K[:, :2], V[:, :2]
    mask = np.random.default_rng(0).random((2, 6, 5, 7)) < 0.5
    mask[0, 0, 2] = False
    weights = sn.attention_weights(tensor(Q), k, tensor(mask), is_causal=True)
    assert weights.shape == (2, 6, 5, 7)
    found = weights.numpy() @ np.repeat(v, 3, 1)
    attended = sn.scaled_dot_product_attention(tensor(Q), k, v, tensor(mask), is_causal=True)
    np.testing.assert_allclose(found, attended.numpy(), rtol=1e-5, atol=1e-6)
    assert (weights.numpy()[0, 0, 2] == 0).all()


def test_attention_drops_weights_and_keeps_their_sum_on_average() -> None:
    q, k, v = np.zeros((1, 4, 50, 8), np.float32), random(1, 2, 200, 8), np.ones((1, 2, 200, 1), np.float32)
    options = {"dropout": 0.4, "dropout_key": sn.random.key(3)}
    found = sn.scaled_dot_product_attention(tensor(q), k, v, **options).numpy()
    kept = found * (0.6 * 200)
    np.testing.assert_allclose(kept, np.round(kept), atol=1e-3)
    assert abs(found.mean() - 1) < 0.02
    assert found.std() > 0.01
    with pytest.raises(ConfigError, match=r"a dropout_key to draw from; received 0\.4 and no key"):
        sn.scaled_dot_product_attention(tensor(q), k, v, dropout=0.4)


def test_rotary_positions_turn_pairs() -> None:
    x, positions = random(2, 3, 5, 8), np.arange(5) + 3
    cosines, sines = sn.rope_table(tensor(positions), 8, 100.0)
    angles = positions[:, None] * 100.0 ** (-np.arange(4) / 4)
    z = (x[..., :4] + 1j * x[..., 4:]) * np.exp(1j * angles)
    expected = np.concatenate([z.real, z.imag], -1)
    np.testing.assert_allclose(sn.rope(tensor(x), cosines, sines).numpy(), expected, rtol=1e-5, atol=1e-6)
    z = (x[..., ::2] + 1j * x[..., 1::2]) * np.exp(1j * angles)
    expected = np.stack([z.real, z.imag], -1).reshape(x.shape)
    turned = sn.rope(tensor(x), cosines, sines, interleaved=True)
    np.testing.assert_allclose(turned.numpy(), expected, rtol=1e-5, atol=1e-6)
    partial = sn.rope(tensor(x), *sn.rope_table(tensor(positions), 4))
    np.testing.assert_array_equal(partial.numpy()[..., 4:], x[..., 4:])


CONVOLUTIONS = [
    {}, {"stride": 2}, {"padding": 1}, {"dilation": 2, "padding": 2}, {"groups": 2},
    {"stride": (2, 1), "padding": (1, 0)},
    {"padding": "same"}, {"groups": 4, "padding": 1},
]  # fmt: skip


@pytest.mark.parametrize("options", CONVOLUTIONS, ids=str)
def test_conv2d_agrees_with_pytorch(options) -> None:
    x, w, b = random(2, 4, 7, 6), random(8, 4 // options.get("groups", 1), 3, 3, seed=1), random(8, seed=2)
    assert_same(
        sn.conv2d(tensor(x), w, b, **options), nnf.conv2d(*map(torch.from_numpy, (x, w, b)), **options), 1e-4, 1e-5
    )


def test_conv1d_and_conv3d_agree_with_pytorch() -> None:
    x, w = random(2, 3, 9), random(4, 3, 3, seed=1)
    assert_same(sn.conv1d(tensor(x), w), nnf.conv1d(torch.from_numpy(x), torch.from_numpy(w)), 1e-4, 1e-5)
    x, w = random(1, 2, 4, 5, 4), random(3, 2, 2, 3, 2, seed=1)
    assert_same(
        sn.conv3d(tensor(x), w, stride=2), nnf.conv3d(torch.from_numpy(x), torch.from_numpy(w), stride=2), 1e-4, 1e-5
    )


def test_the_dilated_depthwise_convolution_of_the_case_list() -> None:
    x, w, b = np.ones((1, 4, 5, 5), np.float32), np.full((4, 1, 3, 3), 1 / 9, np.float32), np.ones(4, np.float32)
    result = sn.conv2d(tensor(x), w, b, dilation=2, padding=2, groups=4).numpy()[0, 0]
    np.testing.assert_allclose([result[0, 0], result[0, 2], result[2, 2]], [1.4444, 1.6667, 2.0], atol=1e-4)


@pytest.mark.parametrize(
    "options",
    [{}, {"stride": 2}, {"stride": 2, "padding": 1, "output_padding": 1}, {"dilation": 2}, {"groups": 2, "stride": 3}],
    ids=str,
)
def test_transposed_convolutions_agree_with_pytorch(options) -> None:
    x, w, b = random(2, 4, 5, 4), random(4, 6 // options.get("groups", 1), 3, 2, seed=1), random(6, seed=2)
    expected = nnf.conv_transpose2d(*map(torch.from_numpy, (x, w, b)), **options)
    assert_same(sn.conv_transpose(tensor(x), w, b, **options), expected, 1e-4, 1e-5)


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize(
    "options", [{}, {"stride": 2}, {"stride": 2, "padding": 1}, {"stride": (3, 1), "padding": (0, 1)}], ids=str
)
def test_pools_agree_with_pytorch(options, ceil_mode: bool) -> None:
    x = random(2, 3, 8, 7) - 3
    t = torch.from_numpy(x)
    assert_same(
        sn.max_pool(tensor(x), 3, **options, ceil_mode=ceil_mode), nnf.max_pool2d(t, 3, **options, ceil_mode=ceil_mode)
    )
    for counted in (False, True):
        expected = nnf.avg_pool2d(t, 3, **options, ceil_mode=ceil_mode, count_include_pad=counted)
        assert_same(sn.avg_pool(tensor(x), 3, **options, ceil_mode=ceil_mode, count_include_pad=counted), expected)


def test_global_and_dilated_pools() -> None:
    x = random(2, 3, 8, 7)
    assert_same(sn.global_avg_pool(tensor(x)), nnf.adaptive_avg_pool2d(torch.from_numpy(x), 1))
    assert_same(
        sn.max_pool(tensor(x), 2, stride=1, dilation=3), nnf.max_pool2d(torch.from_numpy(x), 2, stride=1, dilation=3)
    )


def test_a_convolution_over_a_symbolic_batch_and_height() -> None:
    batch, height = Dim("batch"), Dim("height", min=3, max=99)
    x, w = random(2, 3, 7, 6), random(4, 3, 3, 3, seed=1)
    (result,) = run(lambda x: sn.conv2d(x, w, stride=2, padding=1), [sn.TensorSpec.of((batch, 3, height, 6))], [x])
    expected = nnf.conv2d(torch.from_numpy(x), torch.from_numpy(w), stride=2, padding=1).numpy()
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_attention_scale_defaults_to_the_root_of_the_width() -> None:
    q = np.full((1, 1, 4), 2.0, np.float32)
    scores = np.array([2 * 4 / math.sqrt(4), 0])
    k, v = np.stack([q[:, 0], np.zeros_like(q[:, 0])], 1), np.array([[[1.0], [0.0]]], np.float32)
    expected = np.exp(scores[0]) / np.exp(scores).sum()
    np.testing.assert_allclose(sn.scaled_dot_product_attention(tensor(q / 2), k, v).numpy(), [[[expected]]], rtol=1e-5)
