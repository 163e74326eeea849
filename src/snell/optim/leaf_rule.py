"""LeafRule: an optimizer as what happens to one parameter, and the transform that does it to all of them.

Slots (a momentum, a mean of squares) are trees like the parameters, in the state under their names.  Parameters of
16 bits have f32 slots and updates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from snell import trees
from snell.frontend import Tensor, as_tensor, astype
from snell.optim.hyperparameters import Hyperparameter, Numbers, evaluated, stored
from snell.optim.mask import Mask, selected
from snell.optim.matching import entry, filled, tensors_like, wide
from snell.optim.transform import Transform
from snell.symbolic import Shape

__all__ = ["LeafRule", "Slots", "from_leaf_rule"]

Slots = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class LeafRule:
    """What an optimizer does to one parameter.

    `slots(parameter)` names its slots with their shapes; they begin as `fill`.  `prepared(hyperparameters, step)` works
    out, once for all parameters and in f64, what depends on numbers alone; `step` counts this update, from 1.
    `update(gradient, parameter, slots, numbers)` gives the update, to be added, and the next slots; what it reads has
    one dtype.  The numbers lack "weight_decay" for a parameter that is not to decay.
    """

    slots: Callable[[Tensor], Mapping[str, Shape]]
    prepared: Callable[[Numbers, Tensor], Numbers]
    update: Callable[[Tensor, Tensor, Slots, Numbers], tuple[Tensor, Slots]]
    fill: float = 0.0


def from_leaf_rule(
    name: str, hyperparameters: Mapping[str, Hyperparameter], rule: LeafRule, decay_mask: Mask = True
) -> Transform:
    """The transform that applies the rule to each parameter; those outside `decay_mask` do not decay."""

    def init(params: Any) -> dict[str, Any]:
        leaves, structure = trees.flatten(params)
        selected(decay_mask, params, f"{name}'s decay_mask")
        shapes = [rule.slots(wide(tensor)) for tensor in tensors_like(params, params, "params")]
        columns = {
            slot: [
                filled(leaf, rule.fill, own[slot]) if slot in own else None
                for leaf, own in zip(leaves, shapes, strict=True)
            ]
            for slot in _names(shapes)
        }
        slots = {slot: trees.unflatten(structure, column) for slot, column in columns.items()}
        return {"step": np.zeros((), np.int32), "hyperparameters": stored(hyperparameters), **slots}

    def update(gradients: Any, state: Any, params: Any) -> tuple[Any, dict[str, Any]]:
        structure = trees.flatten(params)[1]
        parameters = [wide(tensor) for tensor in tensors_like(params, params, "params")]
        given = tensors_like(params, gradients, "gradients")
        decays = selected(decay_mask, params, f"{name}'s decay_mask")
        made = as_tensor(entry(state, "step", name))
        step = astype(made, "f64")
        current = evaluated(hyperparameters, entry(state, "hyperparameters", name), step)
        numbers = rule.prepared(current, step + 1.0)
        slots = _slots_by_leaf(name, rule, structure, parameters, state)
        results = [
            rule.update(astype(gradient, parameter.dtype), parameter, own, _cast(numbers, parameter, decay))
            for gradient, parameter, own, decay in zip(given, parameters, slots, decays, strict=True)
        ]
        following = {
            slot: trees.unflatten(structure, [after.get(slot) for _, after in results]) for slot in _names(slots)
        }
        return trees.unflatten(structure, [one for one, _ in results]), {**state, "step": made + 1, **following}

    return Transform(name, init, update)


def _cast(numbers: Numbers, parameter: Tensor, decay: bool) -> Numbers:
    """The numbers in the parameter's dtype, so that arithmetic with them keeps it."""
    return {key: astype(n, parameter.dtype) for key, n in numbers.items() if decay or key != "weight_decay"}


def _names(slots: list[Any]) -> list[str]:
    """The slots that some parameter has."""
    return list(dict.fromkeys(slot for own in slots for slot in own))


def _slots_by_leaf(
    name: str, rule: LeafRule, structure: trees.Structure, parameters: list[Tensor], state: Any
) -> list[Slots]:
    """Each parameter's slots, out of the state's trees."""
    found: list[Slots] = [{} for _ in parameters]
    shapes = [rule.slots(parameter) for parameter in parameters]
    for slot in _names(shapes):
        column = trees.flatten_up_to(structure, entry(state, slot, name))
        for own, wanted, leaf, parameter in zip(found, shapes, column, parameters, strict=True):
            if slot in wanted:
                own[slot] = astype(as_tensor(leaf), parameter.dtype)
    return found
