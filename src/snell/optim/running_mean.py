"""running_mean: the step that momenta and second moments make towards a new value."""

from __future__ import annotations

from snell.frontend import Tensor

__all__ = ["running_mean"]


def running_mean(mean: Tensor, value: Tensor, share: Tensor) -> Tensor:
    """mean + share·(value - mean): the mean moved by a share of the difference, all of it for a share of 1."""
    return mean + (value - mean) * share
