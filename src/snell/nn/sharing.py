"""Sharing: parameters that a model reads in several places and has once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from snell import trees
from snell.errors import ConfigError
from snell.frontend import Tensor, as_tensor, random
from snell.nn.label import label
from snell.nn.layer import Layer, Params, State
from snell.symbolic import show_shape

__all__ = ["Shared", "share"]


@dataclass(frozen=True)
class _Tie:
    """The leaf at `target` is the one at `source`, or its transpose."""

    target: trees.Path
    source: trees.Path
    transposed: bool

    def __repr__(self) -> str:
        return f"{'.'.join(self.target)} ← {'.'.join(self.source)}{'.T' * self.transposed}"


@dataclass(frozen=True)
class Shared(Layer):
    """A model some of whose parameters are others of its own: made by `share`.

    It has the children, paths and state of the model; `params` lack the leaves that are shared with others.
    """

    model: Layer = field(repr=False)
    ties: tuple[_Tie, ...]

    def __repr__(self) -> str:
        return f"Shared({self.model!r}, {', '.join(map(repr, self.ties))})"

    def children(self) -> Mapping[str, Layer]:
        return self.model.children()

    def with_children(self, children: Mapping[str, Layer]) -> Shared:
        return Shared(self.model.with_children(children), self.ties)

    def parameters(self, key: Tensor) -> dict[str, Any]:
        found = self.model.parameters(key)
        for tie in self.ties:
            found = trees.without(found, tie.target)
        return found

    def initial_state(self, key: Tensor) -> dict[str, Any]:
        return self.model.initial_state(key)

    def __call__(self, x: Any, params: Params, state: State, *, train: bool = False) -> tuple[Any, dict[str, Any]]:
        every: dict[str, Any] = dict(params)
        for tie in self.ties:
            value = trees.at(params, tie.source)
            every = trees.updated(every, tie.target, as_tensor(value).T if tie.transposed else value)
        return self.model(x, every, state, train=train)


def share(model: Layer, ties: Mapping[str, str]) -> Shared:
    """The model with the parameters at the paths `ties` replaced by those at other paths: `{"head.bias": "body.bias"}`.

    A path ends at a leaf or a subtree; ".T" behind a leaf's path is its transpose: `{"head.weight": "embedding.weight.T"}`.
    There is one leaf in `params`, the gradient of which is the sum over all places.

    Raises ConfigError for a path that does not exist, or whose shape or dtype is another.
    """
    params = model.parameters(random.key(0))
    found: list[_Tie] = []
    for target, source in ties.items():
        tie = _tie(params, target, source)
        _check_alike(model, params, tie)
        found.append(tie)
    for tie in found:
        replaced = [other.target for other in found if _overlap(other.target, tie.source)]
        twice = [other.target for other in found if other is not tie and _overlap(other.target, tie.target)]
        if replaced or twice:
            raise ConfigError(
                f"share: {'.'.join(tie.target)} ← {'.'.join(tie.source)} meets another shared path, "
                f"{'.'.join((replaced or twice)[0])}; share each path once, with one that stays"
            )
    return Shared(model, tuple(found))


def _tie(params: Mapping[str, Any], target: str, source: str) -> _Tie:
    parts = tuple(source.split("."))
    exists = trees.has(params, parts)
    transposed = not exists and parts[-1] == "T"
    for path in (tuple(target.split(".")), parts[:-1] if transposed else parts):
        if not trees.has(params, path):
            known = ", ".join(".".join(known) for known in trees.paths(params))
            raise ConfigError(f"share: the model has no parameters at {'.'.join(path)!r}; its paths are {known}")
    return _Tie(tuple(target.split(".")), parts[:-1] if transposed else parts, transposed)


def _check_alike(model: Layer, params: Mapping[str, Any], tie: _Tie) -> None:
    """What is shared has the tree, shapes and dtypes of what it replaces."""
    target, source = trees.at(params, tie.target), trees.at(params, tie.source)
    if tie.transposed:
        source = source.T if isinstance(source, Tensor) and source.ndim == 2 else source
    expected, received = _specs(target), _specs(source)
    if expected != received:
        differing = [name for name in expected | received if expected.get(name) != received.get(name)]
        name = differing[0]
        hint = "; write .T behind the source for its transpose" if not tie.transposed else ""
        raise ConfigError(
            f"share in {label(model)}: {'.'.join((*tie.target, *name))} expected "
            f"{expected.get(name, 'nothing')}, received {received.get(name, 'nothing')} from {'.'.join(tie.source)}{hint}"
        )


def _specs(tree: Any) -> dict[trees.Path, str]:
    pairs = zip(trees.paths(tree), trees.leaves(tree), strict=True)
    return {path: f"{leaf.dtype}{show_shape(leaf.shape)}" for path, leaf in pairs}


def _overlap(one: trees.Path, other: trees.Path) -> bool:
    """Whether one path begins with the other."""
    return all(a == b for a, b in zip(one, other, strict=False))
