"""Positions: what they add or turn, and that counting goes on from call to call."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from tests.nn.torch_layers import floats

import snell as sn
from snell import nn
from snell.errors import ConfigError, OutOfRangeError, ShapeError

X = floats(2, 6, 8).astype(np.float32)


def test_rotary_products_depend_on_distances_alone() -> None:
    layer = nn.RotaryPositions(8, base=100.0)
    same = np.broadcast_to(X[:1, :1], (1, 6, 8))
    turned = layer(same, {}, {})[0].numpy()[0]
    products = turned @ turned.T
    for distance in range(6):
        np.testing.assert_allclose(np.diagonal(products, distance), products[0, distance], rtol=1e-5, atol=1e-5)
    assert abs(products[0, 1] - products[0, 0]) > 1e-2


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_positions_turn_complex_numbers_and_pass_the_rest_on(interleaved: bool) -> None:
    layer = nn.RotaryPositions(4, interleaved=interleaved)
    y = layer(X, {}, {})[0].numpy()
    pairs = (slice(0, 4, 2), slice(1, 4, 2)) if interleaved else (slice(0, 2), slice(2, 4))
    angles = np.arange(6)[:, None] * 10000.0 ** (-np.arange(2) / 2)
    turned = (X[..., pairs[0]] + 1j * X[..., pairs[1]]) * np.exp(1j * angles)
    np.testing.assert_allclose(y[..., pairs[0]], turned.real, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(y[..., pairs[1]], turned.imag, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(y[..., 4:], X[..., 4:])


def test_sinusoidal_positions_add_the_sines_of_vaswani_and_others() -> None:
    y = nn.SinusoidalPositions(8)(X, {}, {})[0].numpy()
    angles = np.arange(6)[:, None] / 10000.0 ** (np.arange(0, 8, 2) / 8)
    table = np.empty((6, 8))
    table[:, 0::2], table[:, 1::2] = np.sin(angles), np.cos(angles)
    np.testing.assert_allclose(y - X, np.broadcast_to(table, X.shape), atol=1e-5)


def test_learned_positions_add_their_rows_and_get_their_gradients() -> None:
    layer = nn.LearnedPositions(9, 8)
    params, state = layer.init(sn.random.key(0))
    assert state == {}
    assert 0.01 < np.asarray(params["weight"]).std() < 0.03
    weights = np.cos(np.arange(X.size)).reshape(X.shape).astype(np.float32)

    def loss(params: Any, x: sn.Tensor) -> tuple[sn.Tensor, sn.Tensor]:
        y, _ = layer(x, params, {})
        return (y * weights).sum(), y

    (_, y), gradient = sn.compile(sn.value_and_grad(loss, has_aux=True))(params, X)
    np.testing.assert_allclose(np.asarray(y), X + np.asarray(params["weight"])[:6], rtol=1e-6)
    expected = np.concatenate([weights.sum(0), np.zeros((3, 8))])
    np.testing.assert_allclose(np.asarray(gradient["weight"]), expected, atol=1e-5)


@pytest.mark.parametrize(
    "layer",
    [nn.RotaryPositions(8), nn.SinusoidalPositions(8), nn.LearnedPositions(6, 8)],
    ids=lambda one: type(one).__name__,
)
def test_counted_positions_go_on_where_the_call_before_ended(layer: Any) -> None:
    params, _ = layer.init(sn.random.key(1))
    whole, _ = layer(X, params, {})
    counted = dataclasses.replace(layer, counted=True)
    _, state = counted.init(sn.random.key(1))
    step = sn.compile(lambda x, p, s: counted(x, p, s))
    first, state = step(X[:, :4], params, state)
    second, state = step(X[:, 4:], params, state)
    found = np.concatenate([np.asarray(first), np.asarray(second)], 1)
    np.testing.assert_allclose(found, whole.numpy(), rtol=1e-4, atol=1e-5)
    assert int(np.asarray(state["length"])) == 6


def test_there_are_no_learned_positions_beyond_the_last() -> None:
    layer = nn.LearnedPositions(5, 8)
    params, _ = layer.init(sn.random.key(0))
    with pytest.raises(ShapeError, match=r"LearnedPositions\(5, 8\) expected at most 5 positions, received 6"):
        layer(X, params, {})
    counted = dataclasses.replace(layer, counted=True)
    step = sn.compile(lambda x, p, s: counted(x, p, s))
    _, state = step(X[:, :3], params, counted.init(sn.random.key(0))[1])
    with pytest.raises(OutOfRangeError):
        step(X[:, :3], params, state)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: nn.RotaryPositions(5),
            ConfigError,
            "RotaryPositions: expected an even number of elements, received 5",
        ),
        (lambda: nn.RotaryPositions(16)(X, {}, {}), ShapeError, r"\(…, seq, at least 16\), received f32\(2, 6, 8\)"),
        (lambda: nn.SinusoidalPositions(6)(X, {}, {}), ShapeError, r"\(…, seq, 6\), received f32\(2, 6, 8\)"),
    ],
)
def test_widths_that_do_not_fit_are_errors(call: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        call()
