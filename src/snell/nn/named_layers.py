"""Layers given in a row and by keyword, as the named children of a container."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from snell.errors import ConfigError
from snell.nn.function import Lambda
from snell.nn.label import shown
from snell.nn.layer import Layer

__all__ = ["LayerLike", "NamedLayers", "container_text", "named_layers"]

LayerLike = Layer | Callable[[Any], Any]
NamedLayers = tuple[tuple[str, Layer], ...]


def named_layers(container: str, layers: Sequence[LayerLike], named: Mapping[str, LayerLike]) -> NamedLayers:
    """Positional layers are called "0", "1", …, the named ones follow; a plain function becomes a Lambda.

    Raises ConfigError for what is neither, for a name that two have, and for one that is no part of a path.
    """
    pairs = [*((str(place), layer) for place, layer in enumerate(layers)), *named.items()]
    found: dict[str, Layer] = {}
    for name, layer in pairs:
        if name in found or not name or "." in name:
            raise ConfigError(f"{container}: {name!r} is no name of a child; give each its own, without dots")
        if not isinstance(layer, Layer) and (isinstance(layer, type) or not callable(layer)):
            raise ConfigError(
                f"{container}: child {name!r} expected a layer or a function, received {layer!r}; "
                "make an instance of a layer's class"
            )
        found[name] = layer if isinstance(layer, Layer) else Lambda(layer)
    return tuple(found.items())


def container_text(container: Layer, layers: NamedLayers, **options: Any) -> str:
    """`Chain(Linear(2, 3), head=Linear(3, 1))`: what makes the container."""
    given = [repr(layer) if name == str(place) else f"{name}={layer!r}" for place, (name, layer) in enumerate(layers)]
    given += [f"{name}={shown(value)}" for name, value in options.items() if value is not None]
    return f"{type(container).__name__}({', '.join(given)})"
