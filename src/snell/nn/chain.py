"""Chain: layers one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from snell.errors import ConfigError, OutOfRangeError
from snell.nn.child import call_child
from snell.nn.layer import Layer, Params, State
from snell.nn.named_layers import LayerLike, NamedLayers, container_text, named_layers

__all__ = ["Chain"]


@dataclass(frozen=True, init=False)
class Chain(Layer):
    """`Chain(a, b, head=c)`: c(b(a(x))).  Children are called "0", "1", "head"; plain functions are allowed.

    `chain["head"]` and `chain[1]` are layers, `chain[:2]` is a Chain whose children keep their names, so that it takes the
    parameters and state of the whole.
    """

    layers: NamedLayers = field(repr=False)

    def __init__(self, *layers: LayerLike, **named: LayerLike) -> None:
        object.__setattr__(self, "layers", named_layers("Chain", layers, named))

    def __repr__(self) -> str:
        return container_text(self, self.layers)

    def children(self) -> Mapping[str, Layer]:
        return dict(self.layers)

    def with_children(self, children: Mapping[str, Layer]) -> Chain:
        return Chain(**{**self.children(), **children})

    def __call__(self, x: Any, params: Params, state: State, *, train: bool = False) -> tuple[Any, dict[str, Any]]:
        children, after = self.children(), dict(state)
        for name in children:
            x, after = call_child(children, name, x, params, after, train=train)
        return x, after

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[Layer]:
        return iter(self.children().values())

    def __getitem__(self, key: str | int | slice) -> Any:
        if isinstance(key, slice):
            return Chain(**dict(self.layers[key]))
        name = key if isinstance(key, str) else self._name(key)
        if name not in self.children():
            raise ConfigError(f"this Chain has no child {key!r}; its children are {', '.join(self.children())}")
        return self.children()[name]

    def _name(self, place: int) -> str:
        if not -len(self) <= place < len(self):
            raise OutOfRangeError(f"this Chain has {len(self)} children, received place {place}")
        return self.layers[place][0]
