"""Matching trees: gradients, updates and slots that lie beside the parameters, leaf by leaf."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from snell import trees
from snell.errors import DTypeError, GraphError, ShapeError
from snell.frontend import Tensor, as_tensor, astype, full
from snell.symbolic import Shape, show_shape

__all__ = ["entry", "filled", "tensors_like", "wide"]


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
            raise DTypeError(
                f"{label}: expected floats, received {tensor.dtype}; keep what is not trained in the model's state"
            )
        if tensor.shape != wanted.shape:
            raise ShapeError(
                f"{label}: expected the parameter's shape {show_shape(wanted.shape)}, "
                f"received {show_shape(tensor.shape)}"
            )
        found.append(tensor)
    return found


def _tensor(leaf: Any, label: str) -> Tensor:
    if leaf is None or isinstance(leaf, dict | list | tuple | str):
        raise GraphError(f"{label}: expected an array, received {type(cast('object', leaf)).__name__}")
    return as_tensor(leaf if isinstance(leaf, Tensor) else np.asarray(leaf))


def filled(parameter: Any, value: float, shape: Shape | None = None) -> Any:
    """One value everywhere, beside a parameter: an array, or a tensor where the parameter is one; f32 for 16-bit floats."""
    tensor = wide(_tensor(parameter, "params"))
    wanted = tensor.shape if shape is None else shape
    if isinstance(parameter, Tensor):
        return full(wanted, value, tensor.dtype)
    return np.full(cast("tuple[int, ...]", wanted), value, tensor.dtype.numpy)


def entry(state: Any, key: str, name: str) -> Any:
    """What a state holds under a key; GraphError where it is no state of the transform `name`."""
    if not isinstance(state, dict) or key not in state:
        held = ", ".join(map(str, cast("dict[str, Any]", state))) if isinstance(state, dict) else type(state).__name__
        raise GraphError(f"{name}: expected the state that its init made, with {key!r} in it; received {held}")
    return cast("dict[str, Any]", state)[key]


def wide(tensor: Tensor) -> Tensor:
    """16-bit floats as f32, everything else as it is."""
    return astype(tensor, "f32") if tensor.dtype.is_float and tensor.dtype.bits == 16 else tensor
