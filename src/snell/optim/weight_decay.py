"""weight_decay: a share of the parameters added to what goes through a chain."""

from __future__ import annotations

from typing import Any

from snell import trees
from snell.frontend import Tensor
from snell.optim.checks import check_range
from snell.optim.hyperparameters import Hyperparameter, Numbers
from snell.optim.mask import Mask, selected
from snell.optim.transform import Transform
from snell.optim.tree_rule import from_tree_rule, scaled

__all__ = ["weight_decay"]


def weight_decay(rate: Hyperparameter, mask: Mask = True) -> Transform:
    """gradient + rate·p for the parameters that the mask selects: the gradient of an L2 penalty of rate/2·‖p‖².

    It belongs in front of an optimizer.  Decay beside the gradient (AdamW's) is `weight_decay=` and `decay_mask=` of the
    optimizers.  Hyperparameter: rate.
    """
    check_range("weight_decay", rate=rate)

    def rule(updates: Any, params: Any, n: Numbers) -> Any:
        leaves, structure = trees.flatten(params)
        chosen = selected(mask, params, "weight_decay")
        given: list[Tensor] = trees.leaves(updates)
        made = [
            update + scaled(parameter, n["rate"]) if decays else update
            for update, parameter, decays in zip(given, leaves, chosen, strict=True)
        ]
        return trees.unflatten(structure, made)

    return from_tree_rule("weight_decay", {"rate": rate}, rule)
