"""Stored values lie in the order in which they are read."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.compiler.programs import lowered, spec

import snell as sn


def shapes(result: Any) -> dict[str, tuple[int, ...]]:
    """What kernels write, without outputs."""
    outputs = {name for name, _ in result.graph.outputs}
    written = {tensor for kernel in result.kernels for tensor in kernel.writes}
    return {tensor.name: tensor.shape for tensor in written if tensor.name not in outputs}


def outer(x: Any, y: Any) -> Any:
    """Σ_b x[b, i] · y[b, o], as (o, i)."""
    return (x[:, None, :] * y[:, :, None]).sum(0)


def updated(w: Any, m: Any, x: Any, y: Any) -> Any:
    """A weight's gradient, whose graph has it as (out, in), its moment, and the weight after."""
    gradient = outer(x, y).T
    moment = 0.9 * m + 0.1 * gradient
    return w - 0.01 * moment / (1 + sn.sqrt((gradient * gradient).sum())), moment


def test_a_gradient_lies_as_the_weight_does_that_it_updates():
    result = lowered(updated, spec(48, 96), spec(48, 96), spec(64, 48), spec(64, 96))
    assert (96, 48) not in shapes(result).values()
    assert (48, 96) in shapes(result).values()


def test_what_readers_disagree_about_stays_as_it_is():
    def function(x: Any, y: Any) -> Any:
        product = outer(x, y)
        return sn.exp(product), sn.sin(product.T)

    assert set(shapes(lowered(function, spec(64, 48), spec(64, 96))).values()) == {(96, 48)}


def test_values_stay_what_they_were():
    rng = np.random.default_rng(0)
    w, m = rng.standard_normal((2, 48, 96), np.float32)
    x, y = rng.standard_normal((64, 48), np.float32), rng.standard_normal((64, 96), np.float32)
    after, moment = sn.compile(updated)(w, m, x, y)
    gradient = x.astype(np.float64).T @ y
    expected = 0.9 * m + 0.1 * gradient
    np.testing.assert_allclose(np.asarray(moment), expected, atol=1e-5)
    np.testing.assert_allclose(np.asarray(after), w - 0.01 * expected / (1 + np.linalg.norm(gradient)), atol=1e-5)
