"""Linear and bilinear layers: matrices and what is added to their products."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

from snell.dtypes import f32
from snell.frontend import DTypeLike, Tensor, TensorLike, einsum, matmul
from snell.nn.checking import expect_positive, expect_size, expect_tuple, own_leaf
from snell.nn.initialisers import Initialiser, Uniform
from snell.nn.keys import named_key
from snell.nn.layer import Layer, Params, State

__all__ = ["Activation", "Bilinear", "Linear", "activated"]

Activation = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Linear(Layer):
    """x @ weight + bias, then the activation: (…, in_features) → (…, out_features).

    Parameters: `weight` (in_features, out_features) and `bias` (out_features,), by default uniform in ±1/√in_features as
    in `torch.nn.Linear`, whose weight is the transpose.  Raises ShapeError for an x of another width.
    """

    in_features: int
    out_features: int
    activation: Activation | None = None
    _: KW_ONLY
    bias: bool = True
    weight_init: Initialiser | None = None
    bias_init: Initialiser | None = None
    dtype: DTypeLike = f32

    def __post_init__(self) -> None:
        expect_positive(self, in_features=self.in_features, out_features=self.out_features)

    def parameters(self, key: Tensor) -> dict[str, Any]:
        usual = Uniform(-1.0 / math.sqrt(self.in_features), 1.0 / math.sqrt(self.in_features))
        shape = (self.in_features, self.out_features)
        found = {"weight": (self.weight_init or usual)(named_key(key, "weight"), shape, self.dtype)}
        if self.bias:
            found["bias"] = (self.bias_init or usual)(named_key(key, "bias"), (self.out_features,), self.dtype)
        return found

    def __call__(
        self, x: TensorLike, params: Params, state: State, *, train: bool = False
    ) -> tuple[Tensor, dict[str, Any]]:
        given = expect_size(self, x, -1, self.in_features, f"(…, {self.in_features})")
        y = matmul(given, own_leaf(self, params, "weight", (self.in_features, self.out_features)))
        if self.bias:
            y = y + own_leaf(self, params, "bias", (self.out_features,))
        return activated(y, self.activation), dict(state)


@dataclass(frozen=True)
class Bilinear(Layer):
    """y_o = Σ_ij first_i · weight_oij · second_j + bias_o of a pair (first, second) of equal leading axes.

    Parameters: `weight` (out_features, in1_features, in2_features) and `bias` (out_features,), by default uniform in
    ±1/√in1_features as in `torch.nn.Bilinear`.  Raises ShapeError for inputs of other widths, or that are no pair.
    """

    in1_features: int
    in2_features: int
    out_features: int
    activation: Activation | None = None
    _: KW_ONLY
    bias: bool = True
    weight_init: Initialiser | None = None
    bias_init: Initialiser | None = None
    dtype: DTypeLike = f32

    def __post_init__(self) -> None:
        expect_positive(
            self, in1_features=self.in1_features, in2_features=self.in2_features, out_features=self.out_features
        )

    def parameters(self, key: Tensor) -> dict[str, Any]:
        usual = Uniform(-1.0 / math.sqrt(self.in1_features), 1.0 / math.sqrt(self.in1_features))
        found = {"weight": (self.weight_init or usual)(named_key(key, "weight"), self._shape, self.dtype)}
        if self.bias:
            found["bias"] = (self.bias_init or usual)(named_key(key, "bias"), (self.out_features,), self.dtype)
        return found

    def __call__(
        self, x: tuple[TensorLike, TensorLike], params: Params, state: State, *, train: bool = False
    ) -> tuple[Tensor, dict[str, Any]]:
        first, second = expect_tuple(self, x, 2)
        left = expect_size(self, first, -1, self.in1_features, f"(…, {self.in1_features}) first")
        right = expect_size(self, second, -1, self.in2_features, f"(…, {self.in2_features}) second")
        y = einsum("...i,oij,...j->...o", left, own_leaf(self, params, "weight", self._shape), right)
        if self.bias:
            y = y + own_leaf(self, params, "bias", (self.out_features,))
        return activated(y, self.activation), dict(state)

    @property
    def _shape(self) -> tuple[int, int, int]:
        return self.out_features, self.in1_features, self.in2_features


def activated(y: Tensor, activation: Activation | None) -> Tensor:
    """What an activation makes of a layer's result; None leaves it."""
    return y if activation is None else activation(y)
