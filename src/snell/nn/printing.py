"""A model as text: a tree of its layers, each with the number of its parameters and the shapes of its own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from snell import trees
from snell.frontend import random
from snell.nn.label import label
from snell.symbolic import as_expr, show_shape

if TYPE_CHECKING:
    from snell.nn.layer import Layer

__all__ = ["Place", "model_text", "numbers_in", "places"]


@dataclass(frozen=True)
class Place:
    """A layer in a model: its path, its line in the tree, and its parameters."""

    path: trees.Path
    line: str
    layer: Layer
    params: Mapping[str, Any]


def model_text(model: Layer) -> str:
    """`name: Layer(…)  count  leaf (shape)`, a line a layer, inner ones under the layer that has them."""
    lines = (f"{place.line}  {_counts(place)}".rstrip() for place in places(model, model.parameters(random.key(0))))
    return "\n".join(lines)


def places(model: Layer, params: Mapping[str, Any]) -> Iterator[Place]:
    """Every layer of a model, outer ones before inner ones."""
    yield Place((), label(model), model, params)
    yield from _inner_places(model, params, (), "")


def numbers_in(tree: Any) -> int:
    """How many numbers the leaves hold."""
    return sum(math.prod(int(as_expr(size).constant) for size in leaf.shape) for leaf in trees.leaves(tree))


def _inner_places(layer: Layer, params: Mapping[str, Any], path: trees.Path, indent: str) -> Iterator[Place]:
    children = layer.children()
    for number, (name, child) in enumerate(children.items()):
        branch, below = ("└── ", "    ") if number == len(children) - 1 else ("├── ", "│   ")
        own = params.get(name, {})
        yield Place((*path, name), f"{indent}{branch}{name}: {label(child)}", child, own)
        yield from _inner_places(child, own, (*path, name), indent + below)


def _counts(place: Place) -> str:
    """`100,480  weight (784, 128), bias (128,)`: the number of all parameters and the leaves that no child has."""
    children = place.layer.children()
    own = {name: part for name, part in place.params.items() if name not in children}
    leaves = zip(trees.paths(own), trees.leaves(own), strict=True)
    shapes = ", ".join(f"{'.'.join(path)} {show_shape(leaf.shape)}" for path, leaf in leaves)
    count = numbers_in(place.params)
    return f"{count:,}  {shapes}" if count else ""
