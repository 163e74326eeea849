"""The scale and shift that normalising layers end with: parameters `weight` (ones) and `bias` (zeros)."""

from __future__ import annotations

from typing import Any

from snell.frontend import DTypeLike, Tensor, ones, zeros
from snell.nn.checking import own_leaf
from snell.nn.layer import Params

__all__ = ["affine_leaves", "affine_parameters"]


def affine_parameters(shape: tuple[int, ...], dtype: DTypeLike, weight: bool, bias: bool) -> dict[str, Any]:
    """Those that a layer has, as they begin."""
    found = {"weight": ones(shape, dtype)} if weight else {}
    return {**found, "bias": zeros(shape, dtype)} if bias else found


def affine_leaves(
    layer: Any, params: Params, shape: tuple[int, ...], weight: bool, bias: bool
) -> tuple[Tensor | None, Tensor | None]:
    """Weight and bias, None for what a layer does not have."""
    return (
        own_leaf(layer, params, "weight", shape) if weight else None,
        own_leaf(layer, params, "bias", shape) if bias else None,
    )
