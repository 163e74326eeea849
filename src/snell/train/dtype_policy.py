"""Where float64 leaks in: what is done about 64-bit floats among the data, the parameters and the layers' results.

One array of f64 makes everything that it meets f64, which halves the speed and doubles the memory.  NumPy makes f64 by
default, so this mostly happens by accident.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from enum import Enum
from typing import Any

import numpy as np

from snell import trees
from snell.dtypes import f32, f64
from snell.errors import ConfigError, DTypeError
from snell.frontend import Tensor, astype
from snell.nn import Call, Layer, watched

__all__ = ["DTypePolicy", "DTypeWarning", "checked_layers", "checked_tree", "is_wide", "wide_paths"]


class DTypeWarning(UserWarning):
    """A 64-bit float was found where training computes in 32 bits."""


class DTypePolicy(Enum):
    """Let 64-bit floats pass, warn once of each place, convert them to f32, or raise DTypeError."""

    NONE = "none"
    WARN = "warn"
    CONVERT = "convert"
    ERROR = "error"

    @staticmethod
    def named(name: str | DTypePolicy) -> DTypePolicy:
        """The policy of this name.  ConfigError, listing them, for an unknown one."""
        try:
            return DTypePolicy(name)
        except ValueError:
            known = ", ".join(policy.value for policy in DTypePolicy)
            raise ConfigError(f"dtype_policy: expected one of {known}, received {name!r}") from None

    def report(self, place: str) -> None:
        """Warn or raise for a place of f64."""
        remedy = "convert it with .astype('float32'), or set dtype_policy to 'convert' or 'none'"
        if self is DTypePolicy.WARN:
            warnings.warn(f"{place} is float64, so what it meets is computed in float64; {remedy}", DTypeWarning, 6)
        elif self is DTypePolicy.ERROR:
            raise DTypeError(f"{place}: expected at most float32, received float64; {remedy}")


def is_wide(leaf: Any) -> bool:
    """Whether an array is of 64-bit floats (Python's floats are not: they take the dtype they meet)."""
    return not isinstance(leaf, float | int) and getattr(leaf, "dtype", None) == np.float64


def wide_paths(tree: Any, name: str) -> list[str]:
    """The leaves of 64-bit floats, by path."""
    pairs = zip(trees.paths(tree), trees.leaves(tree), strict=True)
    return [".".join((name, *path)) for path, leaf in pairs if is_wide(leaf)]


def checked_tree(tree: Any, name: str, policy: DTypePolicy) -> Any:
    """A tree of arrays under a policy: reported, and converted where the policy says so."""
    if policy is DTypePolicy.NONE:
        return tree
    for place in wide_paths(tree, name):
        policy.report(place)
    if policy is not DTypePolicy.CONVERT:
        return tree
    return trees.map(lambda leaf: np.asarray(leaf, np.float32) if is_wide(leaf) else leaf, tree)


def checked_layers(model: Any, policy: DTypePolicy) -> Any:
    """The model under a policy, to be traced: the first layer that makes f64 of narrower inputs is reported."""
    if policy is DTypePolicy.NONE or not isinstance(model, Layer):
        return model
    found: list[trees.Path] = []

    def observe(call: Call) -> Any:
        made = _has_wide(trees.leaves(call.y)) and not _has_wide((*trees.leaves(call.x), *trees.leaves(call.params)))
        # A layer around the one that was found gives f64 too.
        if made and not any(inner[: len(call.path)] == call.path for inner in found):
            found.append(call.path)
            policy.report(f"the result of layer {'.'.join(call.path) or 'the model'}")
        return trees.map(_narrowed, call.y) if policy is DTypePolicy.CONVERT else call.y

    return watched(model, observe)


def _has_wide(leaves: Iterable[Any]) -> bool:
    return any(isinstance(leaf, Tensor) and leaf.dtype == f64 and not leaf.weak for leaf in leaves)


def _narrowed(leaf: Any) -> Any:
    return astype(leaf, f32) if isinstance(leaf, Tensor) and leaf.dtype == f64 else leaf
