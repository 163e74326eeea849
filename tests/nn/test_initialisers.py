"""Initialisers draw from the distributions they name, of the keys and nothing else."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

import snell as sn
from snell.errors import ConfigError, ShapeError
from snell.nn import initialisers as init
from snell.nn.inverse_error_function import inverse_erf

SHAPE = (200, 300)
KERNEL = (40, 30, 3, 5)
DRAWN = {
    "uniform": (init.Uniform(-2.0, 1.0), SHAPE),
    "normal": (init.Normal(3.0, 0.5), SHAPE),
    "truncated normal": (init.TruncatedNormal(0.5, 2.0, -1.0, 3.0), SHAPE),
    "glorot uniform": (init.GlorotUniform(), SHAPE),
    "glorot uniform kernel": (init.GlorotUniform(2.0), KERNEL),
    "glorot normal": (init.GlorotNormal(init.gain("tanh")), SHAPE),
    "kaiming uniform": (init.KaimingUniform(), SHAPE),
    "kaiming uniform kernel": (init.KaimingUniform("relu", mode="fan_out"), KERNEL),
    "kaiming normal": (init.KaimingNormal("relu"), SHAPE),
    "kaiming normal kernel": (init.KaimingNormal(slope=0.3), KERNEL),
    "orthogonal wide": (init.Orthogonal(), (20, 50)),
    "orthogonal tall": (init.Orthogonal(3.0), (50, 20)),
    "orthogonal kernel": (init.Orthogonal(), (6, 2, 2, 2)),
    "sparse": (init.Sparse(0.15), (30, 500)),
    "sparse without anything": (init.Sparse(1.0), (3, 4)),
    "constant": (init.Constant(0.25), (3, 4)),
    "zeros": (init.Zeros(), (3, 4)),
    "ones": (init.Ones(), (3, 4)),
    "identity": (init.Identity(2.0), (3, 4)),
    "identity kernel": (init.Identity(), (3, 2, 4, 3)),
}


@pytest.fixture(scope="module")
def drawn() -> dict[str, np.ndarray]:
    """Every initialiser's numbers, made by one program."""

    def every(key: Any) -> dict[str, Any]:
        return {name: initialiser(key, shape) for name, (initialiser, shape) in DRAWN.items()}

    return sn.tree.map(np.asarray, sn.compile(every)(np.asarray(sn.random.key(7))))


def is_uniform(x: np.ndarray, low: float, high: float) -> bool:
    """Within the interval, its mean and deviation within five standard errors."""
    error = (high - low) / math.sqrt(12 * x.size)
    spread = (high - low) / math.sqrt(12)
    inside = low <= x.min() and x.max() <= high and x.max() - x.min() > 0.99 * (high - low)
    return bool(inside and abs(x.mean() - (low + high) / 2) < 5 * error and abs(x.std() / spread - 1) < 0.02)


def is_normal(x: np.ndarray, mean: float, deviation: float) -> bool:
    tails = (np.abs(x - mean) > 2 * deviation).mean()
    near = abs(x.mean() - mean) < 5 * deviation / math.sqrt(x.size) and abs(x.std() / deviation - 1) < 0.02
    return bool(near and abs(tails - 0.0455) < 0.005)


def test_uniform_numbers_fill_their_interval(drawn: dict[str, np.ndarray]) -> None:
    assert is_uniform(drawn["uniform"], -2.0, 1.0)
    bound = math.sqrt(6 / 500)
    assert is_uniform(drawn["glorot uniform"], -bound, bound)
    bound = 2 * math.sqrt(6 / (70 * 15))
    assert is_uniform(drawn["glorot uniform kernel"], -bound, bound)
    bound = math.sqrt(2) * math.sqrt(3 / 200)
    assert is_uniform(drawn["kaiming uniform"], -bound, bound)
    bound = math.sqrt(2) * math.sqrt(3 / (40 * 15))
    assert is_uniform(drawn["kaiming uniform kernel"], -bound, bound)


def test_normal_numbers_have_their_mean_and_deviation(drawn: dict[str, np.ndarray]) -> None:
    assert is_normal(drawn["normal"], 3.0, 0.5)
    assert is_normal(drawn["glorot normal"], 0.0, 5 / 3 * math.sqrt(2 / 500))
    assert is_normal(drawn["kaiming normal"], 0.0, math.sqrt(2 / 200))
    assert is_normal(drawn["kaiming normal kernel"], 0.0, math.sqrt(2 / 1.09 / (30 * 15)))


def test_truncated_numbers_have_the_moments_of_the_truncated_distribution(drawn: dict[str, np.ndarray]) -> None:
    x = drawn["truncated normal"]
    grid = np.linspace(-1.0, 3.0, 100001)
    density = np.exp(-(((grid - 0.5) / 2.0) ** 2) / 2)
    density /= density.sum()
    mean = (grid * density).sum()
    deviation = math.sqrt(((grid - mean) ** 2 * density).sum())
    assert -1.0 <= x.min() < -0.99
    assert 2.99 < x.max() <= 3.0
    assert abs(x.mean() - mean) < 0.02
    assert abs(x.std() / deviation - 1) < 0.01


def test_orthogonal_numbers_have_orthonormal_rows_or_columns(drawn: dict[str, np.ndarray]) -> None:
    wide, tall, kernel = (drawn[f"orthogonal {kind}"] for kind in ("wide", "tall", "kernel"))
    np.testing.assert_allclose(wide @ wide.T, np.eye(20), atol=2e-6)
    np.testing.assert_allclose(tall.T @ tall, 9 * np.eye(20), atol=2e-5)
    rows = kernel.reshape(6, 8)
    np.testing.assert_allclose(rows @ rows.T, np.eye(6), atol=2e-6)


def test_a_square_orthogonal_matrix_of_many_rows_keeps_its_columns_orthonormal() -> None:
    found = np.asarray(sn.compile(lambda key: init.Orthogonal()(key, (300, 300)))(np.asarray(sn.random.key(0))))
    np.testing.assert_allclose(found.T @ found, np.eye(300), atol=1e-5)


def test_each_column_of_sparse_numbers_has_as_many_zeros(drawn: dict[str, np.ndarray]) -> None:
    x = drawn["sparse"]
    assert ((x == 0).sum(0) == 5).all()  # 0.15 · 30, rounded up
    assert len({tuple(column) for column in (x == 0).T}) > 400
    assert is_normal(x[x != 0], 0.0, 0.01)
    assert not drawn["sparse without anything"].any()


def test_constant_numbers_are_what_they_are_called(drawn: dict[str, np.ndarray]) -> None:
    assert (drawn["constant"] == 0.25).all()
    assert (drawn["zeros"] == 0).all()
    assert (drawn["ones"] == 1).all()
    np.testing.assert_array_equal(drawn["identity"], 2 * np.eye(3, 4))


def test_an_identity_kernel_is_that_of_torch(drawn: dict[str, np.ndarray]) -> None:
    expected = torch.nn.init.dirac_(torch.empty(3, 2, 4, 3)).numpy()
    np.testing.assert_array_equal(drawn["identity kernel"], expected)


def test_gains_and_fans_are_those_of_torch() -> None:
    for name in ("linear", "sigmoid", "tanh", "relu", "selu"):
        assert init.gain(name) == pytest.approx(torch.nn.init.calculate_gain(name))
    assert init.gain("leaky_relu", 0.2) == pytest.approx(torch.nn.init.calculate_gain("leaky_relu", 0.2))
    fans = torch.nn.init._calculate_fan_in_and_fan_out
    assert init.fans(KERNEL) == fans(torch.empty(KERNEL))
    assert init.fans((5, 3)) == fans(torch.empty(3, 5))  # torch's matrix is the transpose


def test_the_inverse_error_function_is_that_of_torch() -> None:
    x = np.concatenate([np.linspace(-0.99999, 0.99999, 4001), [0.0, 1e-6, -1e-30]]).astype(np.float32)
    expected = torch.erfinv(torch.tensor(x).double()).numpy()
    np.testing.assert_allclose(np.asarray(sn.compile(inverse_erf)(x)), expected, rtol=2e-6, atol=0)


def test_initialisers_are_values_that_compare_and_hash() -> None:
    assert init.KaimingUniform("relu") == init.KaimingUniform("relu") != init.KaimingUniform()
    assert len({init.Zeros(), init.Zeros(), init.Constant(0.0)}) == 2


def test_numbers_of_another_dtype_are_the_same_numbers_rounded() -> None:
    key = np.asarray(sn.random.key(1))
    pair = sn.compile(lambda key: [init.GlorotNormal()(key, (8, 8), dtype) for dtype in ("f32", "f16")])(key)
    single, half = map(np.asarray, pair)
    np.testing.assert_array_equal(half, single.astype(np.float16))


def test_what_makes_no_sense_is_refused() -> None:
    key = sn.random.key(0)
    with pytest.raises(ShapeError, match="two axes"):
        init.GlorotUniform()(key, (3,))
    with pytest.raises(ShapeError, match="matrix"):
        init.Sparse(0.1)(key, (3, 3, 3))
    with pytest.raises(ConfigError, match="'gelu'; expected one of linear"):
        init.gain("gelu")
    with pytest.raises(ConfigError, match="'fan_avg'"):
        init.KaimingNormal(mode="fan_avg")(key, (3, 3))
    with pytest.raises(ConfigError, match="low < high"):
        init.TruncatedNormal(low=1.0, high=0.0)
    with pytest.raises(ConfigError, match="from 0 to 1"):
        init.Sparse(1.5)
