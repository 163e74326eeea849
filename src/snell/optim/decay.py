"""Weight decay, in its two places: added to the gradient, or to the update beside it.

The numbers of a leaf lack "weight_decay" where the optimizer's mask leaves the parameter out.
"""

from __future__ import annotations

from snell.frontend import Tensor
from snell.optim.hyperparameters import Numbers

__all__ = ["decayed_gradient", "decoupled_update"]


def decayed_gradient(gradient: Tensor, parameter: Tensor, numbers: Numbers) -> Tensor:
    """gradient + weight_decay·parameter: the gradient with that of an L2 penalty."""
    return gradient + parameter * numbers["weight_decay"] if "weight_decay" in numbers else gradient


def decoupled_update(update: Tensor, parameter: Tensor, numbers: Numbers) -> Tensor:
    """update - learning_rate·weight_decay·parameter (Loshchilov and Hutter, 2019)."""
    if "weight_decay" not in numbers:
        return update
    return update - parameter * (numbers["learning_rate"] * numbers["weight_decay"])
