"""What layers check of what they are given: messages name the layer, what it expected, and what came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from snell.errors import ConfigError, GraphError, ShapeError
from snell.frontend import Tensor, TensorLike, as_tensor
from snell.nn.label import label
from snell.symbolic import Shape, show_shape

__all__ = ["expect_fraction", "expect_positive", "expect_rank", "expect_size", "expect_tuple", "own_leaf"]


def expect_size(layer: Any, x: TensorLike, axis: int, size: int, shape: str) -> Tensor:
    """x as a tensor whose `axis` has the size; `shape` shows what is expected, as "(…, 784)"."""
    tensor = as_tensor(x)
    rank = tensor.ndim
    if not -rank <= axis < rank or tensor.shape[axis] != size:
        raise ShapeError(
            f"{label(layer)} expected x of shape {shape}, received {tensor.dtype}{show_shape(tensor.shape)}"
        )
    return tensor


def expect_rank(layer: Any, x: TensorLike, least: int, shape: str) -> Tensor:
    """x as a tensor of at least so many axes."""
    tensor = as_tensor(x)
    if tensor.ndim < least:
        raise ShapeError(
            f"{label(layer)} expected x of shape {shape}, received {tensor.dtype}{show_shape(tensor.shape)}"
        )
    return tensor


def expect_tuple(layer: Any, x: object, count: int) -> tuple[Any, ...]:
    """x as a tuple of so many inputs."""
    kind = type(x).__name__
    inputs = tuple(cast("Sequence[Any]", x)) if isinstance(x, tuple | list) else None
    if inputs is None or len(inputs) != count:
        received = kind if inputs is None else f"{len(inputs)} of them"
        raise ShapeError(f"{label(layer)} expected a tuple of {count} inputs, received {received}")
    return inputs


def own_leaf(layer: Any, tree: Mapping[str, Any], name: str, shape: Shape) -> Tensor:
    """The layer's parameter or state of a name, which has the shape: GraphError without it, ShapeError for another."""
    if name not in tree:
        raise GraphError(
            f"{label(layer)} expected {name!r} among its parameters or state, received {', '.join(tree) or 'none'}; "
            "pass what the model's init made"
        )
    value = tree[name]
    tensor = value if isinstance(value, Tensor) else as_tensor(np.asarray(value))
    if tensor.shape != shape:
        raise ShapeError(
            f"{label(layer)} expected {name} of shape {show_shape(shape)}, received {show_shape(tensor.shape)}; "
            "pass what the init of this model made"
        )
    return tensor


def expect_positive(layer: Any, **sizes: int) -> None:
    """Sizes of a layer are at least 1."""
    for name, size in sizes.items():
        if size < 1:
            raise ConfigError(f"{type(layer).__name__}: expected {name} of at least 1, received {size}")


def expect_fraction(layer: Any, **values: float) -> None:
    """Probabilities are from 0 to 1."""
    for name, value in values.items():
        if not 0.0 <= value <= 1.0:
            raise ConfigError(f"{type(layer).__name__}: expected {name} from 0 to 1, received {value}")
