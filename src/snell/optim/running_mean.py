"""What momenta and second moments do in a step, rounded where PyTorch rounds.

Parameters that come close to 0 after many steps show how every step was rounded, so products are fused with the same
additions as there.
"""

from __future__ import annotations

from snell.frontend import Tensor, barrier

__all__ = ["faded", "mean_of_squares", "running_mean"]


def running_mean(mean: Tensor, value: Tensor, share: Tensor) -> Tensor:
    """mean + share·(value - mean): the mean moved by a share of the difference, all of it for a share of 1."""
    return mean + (value - mean) * share


def faded(slot: Tensor, factor: Tensor) -> Tensor:
    """slot·factor, rounded before anything is added to it."""
    return barrier(slot * factor)


def mean_of_squares(mean: Tensor, value: Tensor, factor: Tensor, share: Tensor) -> Tensor:
    """factor·mean + share·value², where share is 1 - factor."""
    return faded(mean, factor) + value * share * value
