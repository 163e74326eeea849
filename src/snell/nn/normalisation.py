"""Layers that normalise each sample by itself: over trailing axes, or over groups of channels."""

from __future__ import annotations

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
    ones,
    rms_norm,
    zeros,
)
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

    def parameters(self, key: Tensor) -> dict[str, Any]:
        shape = _as_tuple(self.normalized_shape)
        return _affine(shape, self.dtype, self.affine, self.affine and self.bias)

    def __call__(
        self, x: TensorLike, params: Params, state: State, *, train: bool = False
    ) -> tuple[Tensor, dict[str, Any]]:
        given, axes = _trailing(self, x, _as_tuple(self.normalized_shape))
        y = layer_norm(given, params.get("weight"), params.get("bias"), epsilon=self.epsilon, axis=axes)
        return y, dict(state)


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

    def parameters(self, key: Tensor) -> dict[str, Any]:
        return _affine(_as_tuple(self.normalized_shape), self.dtype, self.affine, False)

    def __call__(
        self, x: TensorLike, params: Params, state: State, *, train: bool = False
    ) -> tuple[Tensor, dict[str, Any]]:
        given, axes = _trailing(self, x, _as_tuple(self.normalized_shape))
        epsilon = _machine_epsilon(given) if self.epsilon is None else self.epsilon
        return rms_norm(given, params.get("weight"), epsilon=epsilon, axis=axes), dict(state)


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
        return _affine((self.num_channels,), self.dtype, self.affine, self.affine)

    def __call__(
        self, x: TensorLike, params: Params, state: State, *, train: bool = False
    ) -> tuple[Tensor, dict[str, Any]]:
        given = expect_size(self, x, 1, self.num_channels, f"(n, {self.num_channels}, …)")
        y = group_norm(given, self.num_groups, params.get("weight"), params.get("bias"), epsilon=self.epsilon)
        return y, dict(state)


def _as_tuple(shape: int | tuple[int, ...]) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else shape


def _affine(shape: tuple[int, ...], dtype: DTypeLike, weight: bool, bias: bool) -> dict[str, Any]:
    found = {"weight": ones(shape, dtype)} if weight else {}
    return {**found, "bias": zeros(shape, dtype)} if bias else found


def _trailing(layer: Layer, x: TensorLike, shape: tuple[int, ...]) -> tuple[Tensor, tuple[int, ...]]:
    """x, which ends in the shape, and the axes of that."""
    tensor = as_tensor(x)
    if not shape or tensor.shape[-len(shape) :] != shape:
        raise ShapeError(
            f"{label(layer)} expected x of shape (…, {', '.join(map(str, shape))}), "
            f"received {tensor.dtype}{show_shape(tensor.shape)}"
        )
    return tensor, tuple(range(-len(shape), 0))


def _machine_epsilon(x: Tensor) -> float:
    """The distance from 1 to the next number: 2 to minus the stored bits of a significand (f32 for integers)."""
    return 2.0 ** -{"f16": 10, "bf16": 7, "f64": 52}.get(x.dtype.name, 23)
