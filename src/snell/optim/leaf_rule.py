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
from snell.errors import DTypeError, GraphError, ShapeError
from snell.frontend import Tensor, as_tensor, astype, full
from snell.optim.hyperparameters import Hyperparameter, Numbers, evaluated, stored
from snell.optim.transform import Transform
from snell.symbolic import Shape, show_shape

__all__ = ["LeafRule", "Slots", "entry", "from_leaf_rule", "tensors_like", "zeros"]

Slots = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class LeafRule:
    """What an optimizer does to one parameter.

    `slots(parameter)` names its slots with their shapes.  `prepared(hyperparameters, step)` works out, once for all
    parameters and in f64, what depends on numbers alone; `step` counts this update, from 1.  `update(gradient,
    parameter, slots, numbers)` gives the update, to be added, and the next slots; everything it reads has one dtype.
    """

    slots: Callable[[Tensor], Mapping[str, Shape]]
    prepared: Callable[[Numbers, Tensor], Numbers]
    update: Callable[[Tensor, Tensor, Slots, Numbers], tuple[Tensor, Slots]]


def from_leaf_rule(name: str, hyperparameters: Mapping[str, Hyperparameter], rule: LeafRule) -> Transform:
    """The transform that applies the rule to each parameter."""

    def init(params: Any) -> dict[str, Any]:
        leaves, structure = trees.flatten(params)
        shapes = [rule.slots(tensor) for tensor in tensors_like(params, params, "params")]
        columns = {
            slot: [None if slot not in own else zeros(leaf, own[slot]) for leaf, own in zip(leaves, shapes, strict=True)]
            for slot in dict.fromkeys(slot for own in shapes for slot in own)
        }
        slots = {slot: trees.unflatten(structure, column) for slot, column in columns.items()}
        return {"step": np.zeros((), np.int32), "hyperparameters": stored(hyperparameters), **slots}

    def update(gradients: Any, state: Any, params: Any) -> tuple[Any, dict[str, Any]]:
        structure = trees.flatten(params)[1]
        parameters = [_wide(tensor) for tensor in tensors_like(params, params, "params")]
        given = tensors_like(params, gradients, "gradients")
        before = entry(state, "step", name)
        step = astype(as_tensor(before), "f64")
        current = evaluated(hyperparameters, entry(state, "hyperparameters", name), step)
        numbers = rule.prepared(current, step + 1.0)
        slots = _slots_by_leaf(name, rule, structure, parameters, state)
        updates: list[Tensor] = []
        following: list[Slots] = []
        for gradient, parameter, own in zip(given, parameters, slots, strict=True):
            dtype = parameter.dtype
            cast = {key: astype(number, dtype) for key, number in numbers.items()}
            made, after = rule.update(astype(gradient, dtype), parameter, own, cast)
            updates.append(made)
            following.append(after)
        next_state = {**state, "step": as_tensor(before) + 1}
        for slot in dict.fromkeys(slot for own in slots for slot in own):
            next_state[slot] = trees.unflatten(structure, [after.get(slot) for after in following])
        return trees.unflatten(structure, updates), next_state

    return Transform(name, init, update)


def _slots_by_leaf(
    name: str, rule: LeafRule, structure: trees.Structure, parameters: list[Tensor], state: Mapping[str, Any]
) -> list[Slots]:
    """Each parameter's slots, out of the state's trees."""
    found: list[Slots] = [{} for _ in parameters]
    shapes = [rule.slots(parameter) for parameter in parameters]
    for slot in dict.fromkeys(slot for own in shapes for slot in own):
        column = trees.flatten_up_to(structure, entry(state, slot, name))
        for own, wanted, leaf, parameter in zip(found, shapes, column, parameters, strict=True):
            if slot in wanted:
                own[slot] = astype(as_tensor(leaf), parameter.dtype)
    return found


def tensors_like(params: Any, tree: Any, what: str) -> list[Tensor]:
    """The leaves of a tree like params, of the parameters' shapes, as tensors.

    Raises GraphError, ShapeError or DTypeError with the path of the leaf that does not fit.
    """
    leaves, structure = trees.flatten(params)
    found: list[Tensor] = []
    for path, parameter, leaf in zip(trees.paths(params), leaves, trees.flatten_up_to(structure, tree), strict=True):
        label = ".".join((what, *path))
        wanted, tensor = _tensor(parameter, label), _tensor(leaf, label)
        if not tensor.dtype.is_float:
            raise DTypeError(f"{label}: only floats are optimized, received {tensor.dtype}; leave it out with masked")
        if tensor.shape != wanted.shape:
            raise ShapeError(
                f"{label}: expected the parameter's shape {show_shape(wanted.shape)}, received {show_shape(tensor.shape)}"
            )
        found.append(tensor)
    return found


def _tensor(leaf: Any, label: str) -> Tensor:
    if leaf is None or isinstance(leaf, dict | list | tuple | str):
        raise GraphError(f"{label}: expected an array, received {type(leaf).__name__}")
    return as_tensor(leaf if isinstance(leaf, Tensor) else np.asarray(leaf))


def zeros(leaf: Any, shape: Shape | None = None) -> Any:
    """Zeros for a slot of this parameter: an array, or a tensor where the parameter is one; f32 for 16-bit floats."""
    tensor = _wide(_tensor(leaf, "params"))
    wanted = tensor.shape if shape is None else shape
    return full(wanted, 0, tensor.dtype) if isinstance(leaf, Tensor) else np.zeros(wanted, tensor.dtype.numpy)


def entry(state: Any, key: str, name: str) -> Any:
    """What a state holds under a key; GraphError where it is no state of the transform `name`."""
    if not isinstance(state, dict) or key not in state:
        held = ", ".join(map(str, state)) if isinstance(state, dict) else type(state).__name__
        raise GraphError(f"{name}: expected the state that its init made, with {key!r} in it; received {held}")
    return state[key]


def _wide(tensor: Tensor) -> Tensor:
    return astype(tensor, "f32") if tensor.dtype.is_float and tensor.dtype.bits == 16 else tensor
