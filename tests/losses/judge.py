"""A loss of snell's, compiled with its gradient, beside PyTorch's with its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import snell as sn

Array = np.ndarray[Any, np.dtype[Any]]


def with_gradients(loss: Callable[..., Any], *predictions: Array) -> tuple[Array, list[Array]]:
    """The value of the loss, and the gradients of its sum, from one compiled program."""

    def summed(*given: Any) -> Any:
        value = loss(*given)
        return value.sum(), value

    function = sn.compile(sn.value_and_grad(summed, tuple(range(len(predictions))), has_aux=True))
    (_, value), found = function(*predictions)
    return np.asarray(value), [np.asarray(one) for one in found]


def torch_gradients(loss: Callable[..., torch.Tensor], *predictions: Array) -> tuple[Array, list[Array]]:
    leaves = [torch.tensor(one, requires_grad=True) for one in predictions]
    value = loss(*leaves)
    value.sum().backward()
    return value.detach().numpy(), [leaf.grad.numpy() for leaf in leaves]  # type: ignore[union-attr]


def assert_like_torch(
    loss: Callable[..., Any],
    judge: Callable[..., torch.Tensor],
    *predictions: Array,
    rtol: float = 1e-5,
    atol: float = 1e-6,
) -> None:
    """Equal values and gradients; NaN equals NaN, and inf inf."""
    value, found = with_gradients(loss, *predictions)
    wanted, expected = torch_gradients(judge, *predictions)
    assert value.shape == wanted.shape
    np.testing.assert_allclose(value, wanted, rtol=rtol, atol=atol)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=atol)


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def uniform(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).uniform(size=shape).astype(np.float32)


def every_reduction(loss: Callable[..., Any], join: Callable[[list[Any]], Any]) -> Any:
    """The mean, the sum and the single costs in one vector, so that one program shows all of them."""
    costs = loss(reduction="none").reshape(-1)
    return join([loss(reduction="mean").reshape(1), loss(reduction="sum").reshape(1), costs])
