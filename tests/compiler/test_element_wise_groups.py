"""Element-wise stages that walk the same rows share a kernel: what passes between them stays in a core's cache."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.compiler.programs import lowered, spec

import snell as sn


def adam(p: Any, g: Any, m: Any, v: Any) -> Any:
    """An update of three results; each moment is expensive enough to be stored for both of its readers."""
    gradient = sn.exp(g)
    first, second = sn.tanh(0.9 * m + 0.1 * gradient), sn.exp(0.99 * v + 0.01 * gradient * gradient)
    keep = (g > 0).all()
    return sn.where(keep, first, m), sn.where(keep, second, v), p - 0.1 * first / (sn.sqrt(second) + 1e-8)


def writers(result: Any) -> list[list[str]]:
    return [sorted(tensor.name for tensor in kernel.writes) for kernel in result.kernels]


def test_what_an_update_makes_of_one_parameter_is_one_kernel():
    result = lowered(adam, *[spec(96, 128)] * 4)
    assert ["out0", "out1", "out2"] in writers(result)


def test_short_rows_stay_apart():
    result = lowered(adam, *[spec(96, 16)] * 4)
    assert ["out0", "out1", "out2"] not in writers(result)


@pytest.mark.parametrize("shape", [(96, 128), (9, 65), (3, 5, 70), (1000,)])
def test_values_stay_what_they_were(shape: tuple[int, ...]):
    p, g, m, v = (np.random.default_rng(k).standard_normal(shape, np.float32) for k in range(4))
    found = sn.compile(adam)(p, np.abs(g), m, v)
    gradient = np.exp(np.abs(g).astype(np.float64))
    first, second = np.tanh(0.9 * m + 0.1 * gradient), np.exp(0.99 * v + 0.01 * gradient**2)
    for got, expected in zip(found, (first, second, p - 0.1 * first / (np.sqrt(second) + 1e-8)), strict=True):
        np.testing.assert_allclose(np.asarray(got), expected, rtol=2e-5, atol=2e-6)
