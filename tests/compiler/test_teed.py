"""Values that a later stage reduces are made in its loop, where they are the same values read once each."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.programs import lowered, spec

import snell as sn
from snell.loops.text import print_kernel


def texts(function: object, *specs: object) -> str:
    return "\n".join(print_kernel(built.kernel) for built in lowered(function, *specs).kernels)


def weights(x: sn.Tensor) -> sn.Tensor:
    y = sn.exp(x - sn.max(x, axis=-1, keepdims=True))
    return y / sn.sum(y, axis=-1, keepdims=True)


def test_a_value_that_is_summed_and_used_again_is_stored_and_summed_by_one_loop():
    assert texts(weights, spec(64, 512)).count("tee(") == 1


def test_values_that_are_read_at_another_place_are_made_by_a_loop_of_their_own():
    def shifted(x: sn.Tensor) -> sn.Tensor:
        y = sn.exp(x - sn.max(x, axis=-1, keepdims=True))
        return y + sn.sum(sn.flip(y, axis=-1) * x, axis=-1, keepdims=True)

    assert "tee(" not in texts(shifted, spec(64, 512))


def test_loops_that_masks_bound_keep_their_values_apart():
    def masked(x: sn.Tensor) -> sn.Tensor:
        size = x.shape[-1]
        seen = sn.arange(size)[None, :] <= sn.arange(size)[:, None]
        y = sn.exp(sn.where(seen, x, -np.inf))
        return y / sn.sum(y, axis=-1, keepdims=True)

    assert "tee(" not in texts(masked, spec(512, 512))


@pytest.mark.parametrize("rows", [1, 5, 33])
@pytest.mark.parametrize("columns", [1, 7, 16, 67, 131, 1029])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tails_of_every_length_are_right(rows: int, columns: int, dtype: type):
    x = np.random.default_rng(columns).standard_normal((rows, columns)).astype(dtype)
    y = np.exp(x - x.max(axis=-1, keepdims=True))
    wanted = y / y.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(sn.compile(weights)(x).numpy(), wanted, rtol=64 * np.finfo(dtype).eps)


def test_sizes_that_are_known_at_the_call_are_right():
    compiled = sn.compile(weights, dims={"x": ("rows", "columns")})
    for rows, columns in [(3, 5), (64, 300), (1, 4097)]:
        x = np.random.default_rng(rows).standard_normal((rows, columns)).astype(np.float32)
        y = np.exp(x - x.max(axis=-1, keepdims=True))
        np.testing.assert_allclose(compiled(x).numpy(), y / y.sum(axis=-1, keepdims=True), rtol=1e-5)
