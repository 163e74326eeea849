"""Weight decay, in its two places: added to the gradient, or taken from the parameter beside the update.

The numbers of a leaf lack "weight_decay" where the optimizer's mask leaves the parameter out.
"""

from __future__ import annotations

from snell.frontend import Tensor, barrier
from snell.optim.hyperparameters import Numbers

__all__ = ["decayed_gradient", "decoupled_update", "with_kept"]


def decayed_gradient(gradient: Tensor, parameter: Tensor, numbers: Numbers) -> Tensor:
    """gradient + weight_decay·parameter: the gradient with that of an L2 penalty."""
    return gradient + parameter * numbers["weight_decay"] if "weight_decay" in numbers else gradient


def with_kept(numbers: Numbers) -> dict[str, Tensor]:
    """The numbers, and the factor that decoupled decay leaves a parameter with: 1 - learning_rate·weight_decay."""
    return {**numbers, "kept": 1.0 - numbers["learning_rate"] * numbers["weight_decay"]}


def decoupled_update(update: Tensor, parameter: Tensor, numbers: Numbers) -> Tensor:
    """update - learning_rate·weight_decay·parameter (Loshchilov and Hutter, 2019).

    As in PyTorch the factor, near 1, and its product with the parameter are rounded before the update is added.  Both
    roundings go the same way step after step, which makes parts in 10⁶ of a parameter in 100 steps.
    """
    if "weight_decay" not in numbers:
        return update
    return update + (barrier(parameter * numbers["kept"]) - parameter)
