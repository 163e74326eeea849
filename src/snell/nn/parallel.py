"""Containers whose children run side by side: Parallel, Branch, SkipConnection and Maxout."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from snell.frontend import add, maximum
from snell.nn.checking import expect_positive, expect_tuple
from snell.nn.child import call_child
from snell.nn.layer import Layer, Params, State
from snell.nn.named_layers import LayerLike, NamedLayers, container_text, named_layers

__all__ = ["Branch", "Combine", "Maxout", "Parallel", "SkipConnection"]

Combine = Callable[..., Any]


@dataclass(frozen=True, init=False)
class Parallel(Layer):
    """Each child on an input of its own: a tuple of inputs becomes the tuple of results, or `combine(*results)`.

    Raises ShapeError where x is not a tuple of as many inputs as there are children.
    """

    layers: NamedLayers = field(repr=False)
    combine: Combine | None = None

    def __init__(self, *layers: LayerLike, combine: Combine | None = None, **named: LayerLike) -> None:
        object.__setattr__(self, "layers", named_layers("Parallel", layers, named))
        object.__setattr__(self, "combine", combine)

    def __repr__(self) -> str:
        return container_text(self, self.layers, combine=self.combine)

    def children(self) -> Mapping[str, Layer]:
        return dict(self.layers)

    def with_children(self, children: Mapping[str, Layer]) -> Parallel:
        return Parallel(combine=self.combine, **{**self.children(), **children})

    def __call__(self, x: Any, params: Params, state: State, *, train: bool = False) -> tuple[Any, dict[str, Any]]:
        inputs = expect_tuple(self, x, len(self.layers))
        results, after = _side_by_side(self.children(), inputs, params, state, train)
        return results if self.combine is None else self.combine(*results), after


@dataclass(frozen=True, init=False)
class Branch(Layer):
    """Every child on the same input: the tuple of results, or `combine(*results)`."""

    layers: NamedLayers = field(repr=False)
    combine: Combine | None = None

    def __init__(self, *layers: LayerLike, combine: Combine | None = None, **named: LayerLike) -> None:
        object.__setattr__(self, "layers", named_layers("Branch", layers, named))
        object.__setattr__(self, "combine", combine)

    def __repr__(self) -> str:
        return container_text(self, self.layers, combine=self.combine)

    def children(self) -> Mapping[str, Layer]:
        return dict(self.layers)

    def with_children(self, children: Mapping[str, Layer]) -> Branch:
        return Branch(combine=self.combine, **{**self.children(), **children})

    def __call__(self, x: Any, params: Params, state: State, *, train: bool = False) -> tuple[Any, dict[str, Any]]:
        results, after = _side_by_side(self.children(), (x,) * len(self.layers), params, state, train)
        return results if self.combine is None else self.combine(*results), after


@dataclass(frozen=True)
class SkipConnection(Layer):
    """`combine(layer(x), x)`, their sum by default (He et al., 2016)."""

    layer: Layer
    combine: Combine = add

    def __call__(self, x: Any, params: Params, state: State, *, train: bool = False) -> tuple[Any, dict[str, Any]]:
        y, after = call_child(self.children(), "layer", x, params, state, train=train)
        return self.combine(y, x), after


@dataclass(frozen=True, init=False)
class Maxout(Layer):
    """The greatest of the children's results on the same input, element by element (Goodfellow et al., 2013)."""

    layers: NamedLayers = field(repr=False)

    def __init__(self, *layers: LayerLike, **named: LayerLike) -> None:
        object.__setattr__(self, "layers", named_layers("Maxout", layers, named))
        expect_positive(self, children=len(self.layers))

    def __repr__(self) -> str:
        return container_text(self, self.layers)

    def children(self) -> Mapping[str, Layer]:
        return dict(self.layers)

    def with_children(self, children: Mapping[str, Layer]) -> Maxout:
        return Maxout(**{**self.children(), **children})

    def __call__(self, x: Any, params: Params, state: State, *, train: bool = False) -> tuple[Any, dict[str, Any]]:
        results, after = _side_by_side(self.children(), (x,) * len(self.layers), params, state, train)
        return functools.reduce(maximum, results), after


def _side_by_side(
    children: Mapping[str, Layer], inputs: tuple[Any, ...], params: Params, state: State, train: bool
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Each child's result on its input, and the state after all."""
    results: list[Any] = []
    after = dict(state)
    for name, x in zip(children, inputs, strict=True):
        y, after = call_child(children, name, x, params, after, train=train)
        results.append(y)
    return tuple(results), after
