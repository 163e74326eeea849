"""Gradients of every layer, compiled, agree with finite differences in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import snell as sn
from snell import nn

RNG = np.random.default_rng(4)
ROWS, IMAGES, IDS = RNG.normal(size=(6, 4)), RNG.normal(size=(3, 4, 2, 3)), np.array([[0, 2, 1], [2, 2, 4]])


def linear(activation: Any = None) -> nn.Linear:
    return nn.Linear(4, 4, activation, dtype="f64")


LAYERS: dict[str, tuple[nn.Layer, Any]] = {
    "linear": (linear(sn.gelu), ROWS),
    "bilinear": (nn.Bilinear(4, 4, 3, dtype="f64"), (ROWS, ROWS[::-1].copy())),
    "embedding": (nn.Embedding(5, 3, padding_idx=1, dtype="f64"), IDS),
    "layer norm": (nn.LayerNorm(4, dtype="f64"), ROWS),
    "rms norm": (nn.RMSNorm(4, dtype="f64"), ROWS),
    "group norm": (nn.GroupNorm(2, 4, dtype="f64"), IMAGES),
    "instance norm": (nn.InstanceNorm(4, affine=True, dtype="f64"), IMAGES),
    "batch norm": (nn.BatchNorm(4, dtype="f64"), IMAGES),
    "weight norm": (nn.WeightNorm(linear()), ROWS),
    "dropout": (nn.Chain(linear(), nn.Dropout(0.4)), ROWS),
    "channel dropout": (nn.Chain(nn.GroupNorm(1, 4, dtype="f64"), nn.ChannelDropout(0.4)), IMAGES),
    "alpha dropout": (nn.Chain(linear(), nn.AlphaDropout(0.4)), ROWS),
    "parallel": (nn.Parallel(linear(), linear(sn.tanh), combine=sn.multiply), (ROWS, ROWS + 1)),
    "branch": (nn.Branch(linear(), linear(sn.tanh), combine=sn.multiply), ROWS),
    "skip connection": (nn.SkipConnection(linear(sn.tanh)), ROWS),
    "maxout": (nn.Maxout(linear(), linear(), linear()), ROWS),
    "repeated": (nn.Repeated(nn.Chain(linear(sn.tanh), nn.Dropout(0.2)), 3), ROWS),
    "shared": (nn.share(nn.Chain(a=linear(sn.tanh), b=linear()), {"b.weight": "a.weight.T"}), ROWS),
}
STEP = 1e-4


@pytest.fixture(scope="module")
def derivatives() -> dict[str, tuple[float, float]]:
    """Of each layer the derivative along a direction: by the gradient, and by finite differences; all by one program."""
    params, states = {}, {}
    for name, (layer, _) in LAYERS.items():
        params[name], states[name] = sn.tree.map(np.asarray, layer.init(sn.random.key(3)))
    inputs = {name: x for name, (_, x) in LAYERS.items()}

    def losses(params: Any, inputs: Any) -> Any:
        found = {}
        for name, (layer, _) in LAYERS.items():
            y, _ = layer(inputs[name], params[name], states[name], train=True)
            found[name] = sn.sin(y * 1.3 + sn.arange(y.shape[-1], dtype="f64")).sum()
        return sum(found.values()), found

    program = sn.compile(sn.value_and_grad(losses, has_aux=True))
    direction = sn.tree.map(lambda leaf: RNG.normal(size=leaf.shape), params)
    direction["embedding"]["weight"][1] = 0.0  # the row of the padding has no gradient, though it is read
    (_, _), gradient = program(params, inputs)

    def moved(step: float) -> dict[str, float]:
        (_, values), _ = program(sn.tree.map(lambda leaf, d: leaf + step * d, params, direction), inputs)
        return {name: float(value) for name, value in values.items()}

    ahead, behind = moved(STEP), moved(-STEP)
    by_gradient = sn.tree.map(lambda g, d: float((np.asarray(g) * d).sum()), gradient, direction)
    return {
        name: (sum(sn.tree.leaves(by_gradient[name])), (ahead[name] - behind[name]) / (2 * STEP)) for name in LAYERS
    }


@pytest.mark.parametrize("name", LAYERS)
def test_the_gradient_is_the_limit_of_differences(name: str, derivatives: dict[str, tuple[float, float]]) -> None:
    by_gradient, by_differences = derivatives[name]
    assert by_gradient == pytest.approx(by_differences, rel=2e-6, abs=2e-6)
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
