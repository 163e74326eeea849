"""Gradients of every layer, compiled, agree with finite differences in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import snell as sn
from snell import nn

RNG = np.random.default_rng(4)
ROWS, IDS = RNG.normal(size=(6, 4)), np.array([[0, 2, 1], [2, 2, 4]])
LINES, IMAGES, VOLUMES = (RNG.normal(size=(2, 4, *sizes)) for sizes in ((5,), (4, 3), (3, 2, 3)))
SEQUENCES, OTHERS = RNG.normal(size=(2, 5, 4)), RNG.normal(size=(2, 3, 4))

# Public names that are no layers, and base classes, whose layers are tested.
NOT_LAYERS = {
    "AttentionInput", "Call", "Cell", "Layer", "LayerCost", "Params", "State", "Stateful", "Summary", "call_child",
    "drawn_key", "initialisers", "mask", "named_key", "parameters_of", "random_state", "share", "state_of", "summary",
    "watched",
}  # fmt: skip


def linear(activation: Any = None) -> nn.Linear:
    return nn.Linear(4, 4, activation, dtype="f64")


# A layer that is called with None reads the IDS.
LAYERS: dict[str, tuple[nn.Layer, Any]] = {
    "Linear": (linear(sn.gelu), ROWS),
    "Bilinear": (nn.Bilinear(4, 4, 3, dtype="f64"), (ROWS, ROWS[::-1].copy())),
    "Embedding": (nn.Embedding(5, 3, padding_idx=1, dtype="f64"), None),
    "LayerNorm": (nn.LayerNorm(4, dtype="f64"), ROWS),
    "RMSNorm": (nn.RMSNorm(4, dtype="f64"), ROWS),
    "GroupNorm": (nn.GroupNorm(2, 4, dtype="f64"), IMAGES),
    "InstanceNorm": (nn.InstanceNorm(4, affine=True, dtype="f64"), IMAGES),
    "BatchNorm": (nn.BatchNorm(4, dtype="f64"), IMAGES),
    "WeightNorm": (nn.WeightNorm(linear()), ROWS),
    "Dropout": (nn.Chain(linear(), nn.Dropout(0.4)), ROWS),
    "ChannelDropout": (nn.Chain(nn.GroupNorm(1, 4, dtype="f64"), nn.ChannelDropout(0.4)), IMAGES),
    "AlphaDropout": (nn.Chain(linear(), nn.AlphaDropout(0.4)), ROWS),
    "Conv1d": (nn.Conv1d(4, 6, 3, sn.tanh, padding=1, groups=2, dtype="f64"), LINES),
    "Conv2d": (nn.Conv2d(4, 3, 3, padding="same", dilation=2, dtype="f64"), IMAGES),
    "Conv3d": (nn.Conv3d(4, 2, 2, stride=(2, 1, 1), padding=1, dtype="f64"), VOLUMES),
    "Conv2d, circular": (nn.Conv2d(4, 3, 3, padding=1, padding_mode="circular", dtype="f64"), IMAGES),
    "ConvTranspose1d": (nn.ConvTranspose1d(4, 6, 3, stride=2, output_padding=1, groups=2, dtype="f64"), LINES),
    "ConvTranspose2d": (nn.ConvTranspose2d(4, 3, 2, stride=2, padding=1, dtype="f64"), IMAGES),
    "ConvTranspose3d": (nn.ConvTranspose3d(4, 2, 2, dilation=2, dtype="f64"), VOLUMES),
    "MaxPool1d": (nn.MaxPool1d(3, 2, 1), LINES),
    "MaxPool2d": (nn.MaxPool2d(2, 1), IMAGES),
    "MaxPool3d": (nn.MaxPool3d(2, 1, ceil_mode=True), VOLUMES),
    "AvgPool1d": (nn.AvgPool1d(3, 2, 1), LINES),
    "AvgPool2d": (nn.AvgPool2d(2, 1, 1, count_include_pad=False), IMAGES),
    "AvgPool3d": (nn.AvgPool3d(2, 1), VOLUMES),
    "AdaptiveAvgPool1d": (nn.AdaptiveAvgPool1d(3), LINES),
    "AdaptiveAvgPool2d": (nn.AdaptiveAvgPool2d((3, 2)), IMAGES),
    "AdaptiveAvgPool3d": (nn.AdaptiveAvgPool3d(2), VOLUMES),
    "AdaptiveMaxPool1d": (nn.AdaptiveMaxPool1d(3), LINES),
    "AdaptiveMaxPool2d": (nn.AdaptiveMaxPool2d((3, 2)), IMAGES),
    "AdaptiveMaxPool3d": (nn.AdaptiveMaxPool3d(2), VOLUMES),
    "GlobalAvgPool": (nn.GlobalAvgPool(), IMAGES),
    "GlobalMaxPool": (nn.GlobalMaxPool(), IMAGES),
    "Upsample": (nn.Upsample(scale_factor=2, mode="linear"), IMAGES),
    "Upsample, nearest": (nn.Upsample((5, 7)), IMAGES),
    "PixelShuffle": (nn.PixelShuffle(2), IMAGES),
    "PixelUnshuffle": (nn.PixelUnshuffle(3), IMAGES[..., :3, :]),
    "Flatten": (nn.Flatten(), IMAGES),
    "MultiHeadAttention": (nn.MultiHeadAttention(4, 2, causal=True, dropout=0.2, dtype="f64"), SEQUENCES),
    "MultiHeadAttention, grouped": (
        nn.MultiHeadAttention(4, 2, kv_heads=1, head_dim=4, rotary=nn.RotaryPositions(4), dtype="f64"), SEQUENCES
    ),
    "MultiHeadAttention, of three": (nn.MultiHeadAttention(4, 2, dtype="f64"), (SEQUENCES, OTHERS, OTHERS * 2)),
    "RotaryPositions": (nn.RotaryPositions(4), SEQUENCES),
    "SinusoidalPositions": (nn.SinusoidalPositions(4), SEQUENCES),
    "LearnedPositions": (nn.LearnedPositions(6, 4, dtype="f64"), SEQUENCES),
    "RNNCell": (nn.Recurrence(nn.RNNCell(4, 3, dtype="f64")), SEQUENCES),
    "LSTMCell": (nn.Recurrence(nn.LSTMCell(4, 3, dtype="f64"), return_sequence=False), SEQUENCES),
    "GRUCell": (nn.Recurrence(nn.GRUCell(4, 3, dtype="f64"), reverse=True), SEQUENCES),
    "Recurrence": (nn.Recurrence(nn.GRUCell(4, 3, dtype="f64")), SEQUENCES),
    "Bidirectional": (nn.Bidirectional(nn.LSTMCell(4, 3, dtype="f64")), SEQUENCES),
    "Parallel": (nn.Parallel(linear(), linear(sn.tanh), combine=sn.multiply), (ROWS, ROWS + 1)),
    "Branch": (nn.Branch(linear(), linear(sn.tanh), combine=sn.multiply), ROWS),
    "SkipConnection": (nn.SkipConnection(linear(sn.tanh)), ROWS),
    "Maxout": (nn.Maxout(linear(), linear(), linear()), ROWS),
    "Repeated": (nn.Repeated(nn.Chain(linear(sn.tanh), nn.Dropout(0.2)), 3), ROWS),
    "Chain": (nn.Chain(linear(sn.silu), head=linear()), ROWS),
    "Lambda": (nn.Lambda(sn.mish), ROWS),
    "Shared": (nn.share(nn.Chain(a=linear(sn.tanh), b=linear()), {"b.weight": "a.weight.T"}), ROWS),
}  # fmt: skip
STEP = 1e-4


@pytest.fixture(scope="module")
def derivatives() -> dict[str, tuple[float, float]]:
    """Of each layer the derivative along a direction of its parameters and inputs: by the gradient, and by differences.

    All by one program.
    """
    params, states = {}, {}
    for name, (layer, _) in LAYERS.items():
        params[name], states[name] = sn.tree.map(np.asarray, layer.init(sn.random.key(3)))
    given = {name: (params[name], x) for name, (_, x) in LAYERS.items()}

    def losses(given: Any) -> Any:
        found = {}
        for name, (layer, _) in LAYERS.items():
            own, x = given[name]
            y, _ = layer(IDS if x is None else x, own, states[name], train=True)
            found[name] = sn.sin(y * 1.3 + sn.arange(y.shape[-1], dtype="f64")).sum()
        return sum(found.values()), found

    program = sn.compile(sn.value_and_grad(losses, has_aux=True))
    direction = sn.tree.map(lambda leaf: RNG.normal(size=leaf.shape), given)
    direction["Embedding"][0]["weight"][1] = 0.0  # the row of the padding has no gradient, though it is read
    (_, _), gradient = program(given)

    def moved(step: float) -> dict[str, float]:
        (_, values), _ = program(sn.tree.map(lambda leaf, d: leaf + step * d, given, direction))
        return {name: float(value) for name, value in values.items()}

    ahead, behind = moved(STEP), moved(-STEP)
    by_gradient = sn.tree.map(lambda g, d: float((np.asarray(g) * d).sum()), gradient, direction)
    return {
        name: (sum(sn.tree.leaves(by_gradient[name])), (ahead[name] - behind[name]) / (2 * STEP)) for name in LAYERS
    }


def test_every_layer_is_here() -> None:
    assert {name for name in nn.__all__ if name not in NOT_LAYERS} <= LAYERS.keys()
    assert set(nn.__all__) >= NOT_LAYERS


@pytest.mark.parametrize("name", LAYERS)
def test_the_gradient_is_the_limit_of_differences(name: str, derivatives: dict[str, tuple[float, float]]) -> None:
    by_gradient, by_differences = derivatives[name]
    assert by_gradient == pytest.approx(by_differences, rel=4e-6, abs=4e-6)
    assert abs(by_gradient) > 1e-3


def test_constant_rows_and_rows_of_zeros_have_finite_results_and_gradients() -> None:
    norms = [nn.LayerNorm(4), nn.RMSNorm(4), nn.GroupNorm(2, 4), nn.BatchNorm(4)]

    def every(x: Any, params: Any) -> Any:
        return sum(
            norm(x, p, norm.init(sn.random.key(0))[1], train=True)[0].sum()
            for norm, p in zip(norms, params, strict=True)
        )

    params = [norm.init(sn.random.key(0))[0] for norm in norms]
    for x in (np.zeros((3, 4), np.float32), np.full((3, 4), 7.0, np.float32)):
        value, gradient = sn.compile(sn.value_and_grad(every, (0, 1)))(x, params)
        assert np.isfinite(np.asarray(value))
        assert all(np.isfinite(np.asarray(leaf)).all() for leaf in sn.tree.leaves(gradient))
