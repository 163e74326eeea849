"""Dropout draws in training alone, from a key and a counter that its state holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.nn.agreement import arrays, close, run

import snell as sn
from snell import nn
from snell.errors import ConfigError, ShapeError

X = np.random.default_rng(2).normal(size=(60, 50, 4)).astype(np.float32)


def trained(layer: nn.Layer, x: np.ndarray, calls: int = 1, seed: int = 0) -> list[tuple[np.ndarray, Any]]:
    """Results and states of calls one after the other."""
    params, state = layer.init(sn.random.key(seed))
    step = sn.compile(lambda x, p, s: layer(x, p, s, train=True))
    found = []
    for _ in range(calls):
        y, state = step(x, params, state)
        found.append((np.asarray(y), arrays(state)))
    return found


@pytest.mark.parametrize("layer", [nn.Dropout(0.3), nn.ChannelDropout(0.3), nn.AlphaDropout(0.3)])
def test_without_training_x_and_state_stay_as_they_are(layer: nn.Layer) -> None:
    params, state = layer.init(sn.random.key(0))
    y, after = run(lambda x, p, s: layer(x, p, s), X, params, state)
    np.testing.assert_array_equal(y, X)
    assert sn.tree.paths(after) == sn.tree.paths(state)
    assert all(np.array_equal(a, b) for a, b in zip(sn.tree.leaves(after), sn.tree.leaves(state), strict=True))


def test_numbers_are_left_out_with_the_rate_and_the_others_scaled() -> None:
    ((y, _),) = trained(nn.Dropout(0.3), X)
    left_out = y == 0
    assert abs(left_out.mean() - 0.3) < 5 * np.sqrt(0.21 / X.size)
    close(y[~left_out], X[~left_out] / 0.7, 1e-6)


def test_channels_are_left_out_whole() -> None:
    ((y, _),) = trained(nn.ChannelDropout(0.3), X)
    left_out = (y == 0).all(2)
    assert ((y == 0).any(2) == left_out).all()
    assert abs(left_out.mean() - 0.3) < 5 * np.sqrt(0.21 / left_out.size)


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    x = np.random.default_rng(0).normal(size=200_000).astype(np.float32)
    ((y, _),) = trained(nn.AlphaDropout(0.2), x)
    assert abs(y.mean()) < 0.01
    assert abs(y.var() - 1) < 0.02
    floor = np.unique(y, return_counts=True)
    assert abs(floor[1].max() / x.size - 0.2) < 0.01


def test_each_call_draws_anew_and_one_state_draws_the_same() -> None:
    layer = nn.Dropout(0.5)
    (first, after), (second, last) = trained(layer, X, calls=2)
    assert ((first == 0) != (second == 0)).mean() > 0.4
    assert (after["counter"], last["counter"]) == (1, 2)
    again = run(lambda x, s: layer(x, {}, s, train=True)[0], X, after)
    np.testing.assert_array_equal(again, second)


def test_layers_at_different_paths_draw_different_numbers() -> None:
    both = nn.Branch(nn.Dropout(0.5), nn.Dropout(0.5))
    params, state = both.init(sn.random.key(0))
    (a, b), _ = run(lambda x, s: both(x, params, s, train=True), X, state)
    assert ((a == 0) != (b == 0)).mean() > 0.4


def test_the_gradient_passes_through_the_same_mask_with_and_without_recomputing() -> None:
    layer = nn.Dropout(0.25)
    _, state = layer.init(sn.random.key(4))

    def both(x: Any, state: Any) -> Any:
        def dropped(x: Any) -> Any:
            return sn.sin(layer(x, {}, state, train=True)[0])

        return dropped(x), sn.grad(lambda x: dropped(x).sum())(x), sn.grad(lambda x: sn.remat(dropped)(x).sum())(x)

    y, gradient, again = run(both, X, state)
    expected = np.where(y == 0, 0, np.cos(X / 0.75) / 0.75)
    close(gradient, expected)
    close(again, expected)


def test_what_is_left_out_is_zero_whatever_it_was() -> None:
    x = np.full(4000, np.nan, np.float32)
    ((y, _),) = trained(nn.Dropout(0.5), x)
    assert set(np.unique(y[~np.isnan(y)])) == {0.0}


@pytest.mark.parametrize("rate", [0.0, 1.0])
@pytest.mark.parametrize("kind", [nn.Dropout, nn.ChannelDropout, nn.AlphaDropout])
def test_the_ends_of_the_rate_are_finite(kind: Any, rate: float) -> None:
    ((y, _),) = trained(kind(rate), X)
    close(y, X if rate == 0.0 else np.zeros_like(X), 1e-6)


def test_a_rate_or_a_shape_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ConfigError, match="Dropout: expected rate from 0 to 1, received"):
        nn.Dropout(1.5)
    with pytest.raises(ShapeError, match=r"ChannelDropout\(\) expected x of shape \(n, channels, …\)"):
        nn.ChannelDropout()(np.zeros(3, np.float32), {}, {})
