"""What layers check of what they are given: messages name the layer, what it expected, and what came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from snell.errors import ConfigError, ShapeError
from snell.frontend import Tensor, TensorLike, as_tensor
from snell.nn.label import label
from snell.symbolic import show_shape

__all__ = ["expect_fraction", "expect_positive", "expect_rank", "expect_size", "expect_tuple"]


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
    inputs = tuple(cast("Sequence[Any]", x)) if isinstance(x, tuple | list) else None
    if inputs is None or len(inputs) != count:
        received = type(x).__name__ if inputs is None else f"{len(inputs)} of them"
        raise ShapeError(f"{label(layer)} expected a tuple of {count} inputs, received {received}")
    return inputs


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
