"""Running means and variances of channels: the state of layers that normalise by them when they are not trained."""

from __future__ import annotations

from typing import Any

from snell.dtypes import f32, i64
from snell.frontend import Tensor, astype, maximum, ones, size_of, stop_gradient, zeros
from snell.nn.checking import own_leaf
from snell.nn.layer import State
from snell.symbolic import Size

__all__ = ["initial_statistics", "known_statistics", "moved_statistics"]


def initial_statistics(features: int) -> dict[str, Tensor]:
    """`running_mean` (zeros) and `running_var` (ones), f32 (features,), and `num_batches_tracked`, an i64 scalar."""
    return {
        "running_mean": zeros((features,)),
        "running_var": ones((features,)),
        "num_batches_tracked": zeros((), i64),
    }


def known_statistics(layer: Any, state: State, features: int) -> tuple[Tensor, Tensor]:
    """The running mean and variance of a layer."""
    return own_leaf(layer, state, "running_mean", (features,)), own_leaf(layer, state, "running_var", (features,))


def moved_statistics(
    layer: Any, state: State, mean: Tensor, variance: Tensor, count: Size, momentum: float | None
) -> dict[str, Any]:
    """The state of a layer after a batch whose mean and variance, of `count` numbers a channel, these are.

    Each statistic moves towards the batch's by the fraction `momentum`, or to the average of all batches for None; the
    variance is taken to that of count - 1, as in PyTorch.
    """
    batches = own_leaf(layer, state, "num_batches_tracked", ()) + 1
    fraction = 1.0 / astype(batches, f32) if momentum is None else momentum
    numbers = astype(size_of(count), f32)
    # One number a channel, which only a symbolic size lets through, has variance 0, not 0 / 0 for ever.
    unbiased = variance * (numbers / maximum(numbers - 1.0, 1.0))
    return {
        "running_mean": _towards(own_leaf(layer, state, "running_mean", mean.shape), mean, fraction),
        "running_var": _towards(own_leaf(layer, state, "running_var", mean.shape), unbiased, fraction),
        "num_batches_tracked": batches,
    }


def _towards(kept: Tensor, found: Tensor, fraction: float | Tensor) -> Tensor:
    return astype(kept * (1.0 - fraction) + stop_gradient(found) * fraction, kept.dtype)
