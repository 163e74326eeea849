"""Losses of numbers: squared and absolute errors, what lies between them, and counts."""

from __future__ import annotations

import math

from snell.errors import ConfigError
from snell.frontend import Tensor, TensorLike, absolute, exp, less, log, where
from snell.losses.reduction import matching, reduced

__all__ = ["huber", "mae", "mse", "poisson", "smooth_l1"]


def mse(
    prediction: TensorLike, target: TensorLike, *, mask: TensorLike | None = None, reduction: str = "mean"
) -> Tensor:
    """(prediction - target)², over the elements that `mask` counts; one shape; f32 at least."""
    x, t = matching("mse", prediction, target)
    return reduced((x - t) * (x - t), reduction, mask)


def mae(
    prediction: TensorLike, target: TensorLike, *, mask: TensorLike | None = None, reduction: str = "mean"
) -> Tensor:
    """|prediction - target|, over the elements that `mask` counts; its gradient is 0 where they are equal."""
    x, t = matching("mae", prediction, target)
    return reduced(absolute(x - t), reduction, mask)


def huber(
    prediction: TensorLike,
    target: TensorLike,
    *,
    delta: float = 1.0,
    mask: TensorLike | None = None,
    reduction: str = "mean",
) -> Tensor:
    """½·d² for a difference |d| ≤ delta, beyond it delta·(|d| - ½·delta) (Huber, 1964).  ConfigError for a delta of 0."""
    _check_above_zero("huber", "delta", delta)
    x, t = matching("huber", prediction, target)
    return reduced(_bent(x - t, delta) * delta, reduction, mask)


def smooth_l1(
    prediction: TensorLike,
    target: TensorLike,
    *,
    beta: float = 1.0,
    mask: TensorLike | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Huber's loss divided by its bound: ½·d²/beta for |d| < beta, else |d| - ½·beta.  ConfigError for a beta of 0."""
    _check_above_zero("smooth_l1", "beta", beta)
    x, t = matching("smooth_l1", prediction, target)
    return reduced(_bent(x - t, beta), reduction, mask)


def _bent(difference: Tensor, bound: float) -> Tensor:
    size = absolute(difference)
    return where(less(size, bound), difference * difference * (0.5 / bound), size - 0.5 * bound)


def _check_above_zero(loss: str, name: str, value: float) -> None:
    if not value > 0:
        raise ConfigError(f"{loss}: {name} is a number above 0, received {value}; 0 would be mae")


def poisson(
    prediction: TensorLike,
    target: TensorLike,
    *,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    mask: TensorLike | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Negative log-likelihood of counts, without ln t!, as `torch.nn.functional.poisson_nll_loss`.

    `prediction` is the logarithm of the rate, or with log_input=False the rate, to which `eps` is added before its
    logarithm is taken.  `full` adds Stirling's approximation of ln t! for targets above 1.  One shape; f32 at least.
    """
    x, t = matching("poisson", prediction, target)
    costs = exp(x) - t * x if log_input else x - t * log(x + eps)
    if full:
        counted = where(less(1.0, t), t, 1.0)
        stirling = counted * log(counted) - counted + log(counted * (2.0 * math.pi)) * 0.5
        costs = costs + where(less(1.0, t), stirling, 0.0)
    return reduced(costs, reduction, mask)
