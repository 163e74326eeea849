"""Transforms whose only state is their hyperparameters: what they do to all updates at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from snell import trees
from snell.frontend import Tensor, as_tensor, astype
from snell.optim.hyperparameters import Hyperparameter, Numbers, evaluated, stored
from snell.optim.matching import entry, tensors_like, wide
from snell.optim.transform import Transform

__all__ = ["TreeRule", "from_tree_rule"]

# (updates, params, numbers in f64) -> updates: trees of tensors, 16-bit floats widened.
TreeRule = Callable[[Any, Any, Numbers], Any]


def from_tree_rule(name: str, hyperparameters: Mapping[str, Hyperparameter], rule: TreeRule) -> Transform:
    """The transform that applies the rule with these hyperparameters."""

    def init(params: Any) -> dict[str, Any]:
        return {"step": np.zeros((), np.int32), "hyperparameters": stored(hyperparameters)}

    def update(updates: Any, state: Any, params: Any) -> tuple[Any, dict[str, Any]]:
        made = as_tensor(entry(state, "step", name))
        numbers = evaluated(hyperparameters, entry(state, "hyperparameters", name), astype(made, "f64"))
        structure = trees.flatten(params)[1]
        given = trees.unflatten(structure, [wide(tensor) for tensor in tensors_like(params, updates, "gradients")])
        own = trees.unflatten(structure, [wide(tensor) for tensor in tensors_like(params, params, "params")])
        return rule(given, own, numbers), {**state, "step": made + 1}

    return Transform(name, init, update)


def scaled(update: Tensor, number: Tensor) -> Tensor:
    """The product, in the update's dtype."""
    return update * astype(number, update.dtype)
