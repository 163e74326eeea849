"""Layers that normalise each sample by itself: over trailing axes, or over groups of channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from snell.dtypes import f32
from snell.errors import ConfigError, ShapeError
from snell.frontend import (
    DTypeLike,
    Tensor,
    TensorLike,
    as_tensor,
    group_norm,
    layer_norm,
    rms_norm,
)
from snell.nn.affine import affine_leaves, affine_parameters
from snell.nn.checking import expect_positive, expect_size
from snell.nn.label import label
from snell.nn.layer import Layer, Params, State
from snell.symbolic import show_shape

__all__ = ["GroupNorm", "LayerNorm", "RMSNorm"]


@dataclass(frozen=True)
class LayerNorm(Layer):
    """(x - mean) / √(variance + epsilon) over the trailing axes, times weight, plus bias (Ba et al., 2016).

    `normalized_shape` is the extent of the last axis, or a tuple of those of the last axes.  Parameters where `affine`:
    `weight` (ones) and, where `bias`, `bias` (zeros), of that shape.  Raises ShapeError where x ends otherwise.
    """

    normalized_shape: int | tuple[int, ...]
    epsilon: float = 1e-5
    _: KW_ONLY
    affine: bool = True
    bias: bool = True
    dtype: DTypeLike = f32

    def __post_init__(self) -> None:
        object.__setattr__(self, "normalized_shape", _checked(self, self.normalized_shape))

    def parameters(self, key: Tensor) -> dict[str, Any]:
        shape = _as_tuple(self.normalized_shape)
        return affine_parameters(shape, self.dtype, self.affine, self.affine and self.bias)

    def __call__(
        self, x: TensorLike, params: Params, state: State, *, train: bool = False
    ) -> tuple[Tensor, dict[str, Any]]:
        shape = _as_tuple(self.normalized_shape)
        given, axes = _trailing(self, x, shape)
        weight, bias = affine_leaves(self, params, shape, self.affine, self.affine and self.bias)
        return layer_norm(given, weight, bias, epsilon=self.epsilon, axis=axes), dict(state)


@dataclass(frozen=True)
class RMSNorm(Layer):
    """x / √(mean(x²) + epsilon) over the trailing axes, times weight (Zhang and Sennrich, 2019).

    `normalized_shape` as for LayerNorm; parameter where `affine`: `weight` (ones).  Without an epsilon it is the distance
    from 1 to the next number of x's dtype, as in `torch.nn.RMSNorm`.
    """

    normalized_shape: int | tuple[int, ...]
    epsilon: float | None = None
    _: KW_ONLY
    affine: bool = True
    dtype: DTypeLike = f32

    def __post_init__(self) -> None:
        object.__setattr__(self, "normalized_shape", _checked(self, self.normalized_shape))

    def parameters(self, key: Tensor) -> dict[str, Any]:
        return affine_parameters(_as_tuple(self.normalized_shape), self.dtype, self.affine, False)

    def __call__(
        self, x: TensorLike, params: Params, state: State, *, train: bool = False
    ) -> tuple[Tensor, dict[str, Any]]:
        shape = _as_tuple(self.normalized_shape)
        given, axes = _trailing(self, x, shape)
        weight, _ = affine_leaves(self, params, shape, self.affine, False)
        epsilon = _machine_epsilon(given) if self.epsilon is None else self.epsilon
        return rms_norm(given, weight, epsilon=epsilon, axis=axes), dict(state)


@dataclass(frozen=True)
class GroupNorm(Layer):
    """(n, num_channels, …) normalised over each group of channels and all positions (Wu and He, 2018).

    Parameters where `affine`: `weight` (ones) and `bias` (zeros), (num_channels,).  Raises ConfigError where the number of
    groups does not divide that of channels, ShapeError for an x of another number of channels.
    """

    num_groups: int
    num_channels: int
    epsilon: float = 1e-5
    _: KW_ONLY
    affine: bool = True
    dtype: DTypeLike = f32

    def __post_init__(self) -> None:
        expect_positive(self, num_groups=self.num_groups, num_channels=self.num_channels)
        if self.num_channels % self.num_groups:
            raise ConfigError(
                f"GroupNorm: expected a number of groups that divides {self.num_channels} channels, "
                f"received {self.num_groups}"
            )

    def parameters(self, key: Tensor) -> dict[str, Any]:
        return affine_parameters((self.num_channels,), self.dtype, self.affine, self.affine)

    def __call__(
        self, x: TensorLike, params: Params, state: State, *, train: bool = False
    ) -> tuple[Tensor, dict[str, Any]]:
        given = expect_size(self, x, 1, self.num_channels, f"(n, {self.num_channels}, …)")
        weight, bias = affine_leaves(self, params, (self.num_channels,), self.affine, self.affine)
        return group_norm(given, self.num_groups, weight, bias, epsilon=self.epsilon), dict(state)


def _checked(layer: Layer, shape: int | Sequence[int]) -> int | tuple[int, ...]:
    """The shape as it is kept: a list, which has no hash, as a tuple."""
    kept = shape if isinstance(shape, int) else tuple(shape)
    sizes = _as_tuple(kept)
    if not sizes or min(sizes) < 1:
        raise ConfigError(f"{type(layer).__name__}: expected a normalized_shape of sizes from 1 on, received {shape}")
    return kept


def _as_tuple(shape: int | tuple[int, ...]) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else shape


def _trailing(layer: Layer, x: TensorLike, shape: tuple[int, ...]) -> tuple[Tensor, tuple[int, ...]]:
    """x, which ends in the shape, and the axes of that."""
    tensor = as_tensor(x)
    if tensor.shape[-len(shape) :] != shape:
        raise ShapeError(
            f"{label(layer)} expected x of shape (…, {', '.join(map(str, shape))}), "
            f"received {tensor.dtype}{show_shape(tensor.shape)}"
        )
    return tensor, tuple(range(-len(shape), 0))


def _machine_epsilon(x: Tensor) -> float:
    """The distance from 1 to the next number: 2 to minus the stored bits of a significand (f32 for integers)."""
    return 2.0 ** -{"f16": 10, "bf16": 7, "f64": 52}.get(x.dtype.name, 23)
