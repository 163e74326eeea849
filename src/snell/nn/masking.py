"""Masks by path: which parameters an optimizer is to change, or is to decay."""

from __future__ import annotations

from typing import Any

from snell import trees
from snell.errors import ConfigError

__all__ = ["mask"]


def mask(tree: Any, *patterns: str, inverted: bool = False) -> Any:
    """A tree of booleans like `tree`: true where a pattern matches the path, or where none does if `inverted`.

    A path is "encoder.0.weight".  A pattern matches it, or a subtree that it lies in: "encoder", "encoder.*", "*.bias",
    where * stands for any text, ? for one character and [01] for one of several.  `mask(params, "encoder", inverted=True)`
    freezes the encoder.  Raises ConfigError for a pattern that matches nothing.
    """
    paths = trees.paths(tree)
    for pattern in patterns:
        if not any(trees.matches(path, pattern) for path in paths):
            known = ", ".join(".".join(path) for path in paths)
            raise ConfigError(f"mask: no path matches {pattern!r}; the paths are {known}")

    def matched(path: trees.Path, leaf: Any) -> bool:
        del leaf
        return any(trees.matches(path, pattern) for pattern in patterns) is not inverted

    return trees.map_with_path(matched, tree)
