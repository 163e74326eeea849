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


def across(x: Any, y: Any) -> Any:
    """`a` is read along its rows and across them, by stages that share the rows of `b`."""
    a, b = sn.exp(sn.sin(x)), sn.exp(sn.cos(y))
    c = sn.tanh(sn.exp(b + a.T))
    return c * 2, sn.exp(c) + a * b, a + 1, b + 1


@pytest.mark.parametrize("of_result", [False, True])
def test_a_value_that_is_read_across_its_rows_is_whole_before_they_are_walked(of_result: bool):
    def function(x: Any, y: Any) -> Any:
        return (*across(x, y), sn.exp(sn.sin(x))) if of_result else across(x, y)

    x, y = np.random.default_rng(0).standard_normal((2, 96, 96), np.float32)
    a, b = np.exp(np.sin(x.astype(np.float64))), np.exp(np.cos(y.astype(np.float64)))
    c = np.tanh(np.exp(b + a.T))
    for got, expected in zip(sn.compile(function)(x, y), (c * 2, np.exp(c) + a * b, a + 1, b + 1), strict=False):
        np.testing.assert_allclose(np.asarray(got), expected, rtol=1e-5, atol=1e-5)


def test_random_updates_that_read_rows_and_columns_are_what_they_were():
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal((70, 70), np.float32) for _ in range(3)]
    for seed in range(12):

        def function(*given: Any, own: int = seed, library: Any = sn) -> Any:
            choose, values = np.random.default_rng(own), list(given)
            for _ in range(6):
                first, second = (values[choose.integers(len(values))] for _ in range(2))
                second = second.T if choose.integers(2) else second
                values.append(library.tanh(library.sin(first) + 0.5 * library.cos(second)))
            return tuple(values[-4:])

        for got, expected in zip(
            sn.compile(function)(*arrays),
            function(*[a.astype(np.float64) for a in arrays], library=np),
            strict=True,
        ):
            np.testing.assert_allclose(np.asarray(got), expected, rtol=2e-5, atol=2e-6)
