"""Masks: which parameters something is done to.

A mask is a tree of bools like the parameters, where one bool stands for all that is below it; or patterns of dotted
paths, `("*.bias", "embedding.*")`; or a function of (dotted path, parameter) that gives a bool.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from snell import trees
from snell.errors import ConfigError

__all__ = ["Mask", "selected"]

Mask = Any | Sequence[str] | Callable[[str, Any], bool]


def selected(mask: Mask, params: Any, what: str) -> list[bool]:
    """For each leaf of params whether the mask selects it.

    Raises ConfigError for a pattern that matches no path, and for what is no bool; GraphError for another tree.
    """
    names = [".".join(path) for path in trees.paths(params)]
    if callable(mask):
        chosen = [mask(name, leaf) for name, leaf in zip(names, trees.leaves(params), strict=True)]
        return [_checked(value, what, name) for value, name in zip(chosen, names, strict=True)]
    if isinstance(mask, str):
        return _matching((mask,), names, what)
    if isinstance(mask, list | tuple) and mask and all(isinstance(one, str) for one in mask):
        return _matching(mask, names, what)
    return _below(mask, params, what)


def _matching(patterns: Sequence[str], names: list[str], what: str) -> list[bool]:
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(name, pattern) for name in names):
            raise ConfigError(
                f"{what}: the pattern {pattern!r} matches no parameter; the parameters are {', '.join(names) or 'none'}"
            )
    return [any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns) for name in names]


def _below(mask: Any, params: Any, what: str) -> list[bool]:
    """Each bool of the tree, once for every leaf below it."""
    values, structure = trees.flatten(mask)
    found: list[bool] = []
    for path, value, subtree in zip(trees.paths(mask), values, trees.flatten_up_to(structure, params), strict=True):
        found += [_checked(value, what, ".".join(path))] * trees.flatten(subtree)[1].count
    return found


def _checked(value: Any, what: str, name: str) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise ConfigError(
            f"{what}: a mask says True or False of each parameter, received {value!r} for {name or 'all'}; "
            "it may be a tree of bools, patterns of paths, or a function of (path, parameter)"
        )
    return bool(value)
