"""Clipping of gradients: by their common norm, or each by its value."""

from __future__ import annotations

import functools
import operator
from typing import Any

from snell import trees
from snell.frontend import Tensor, as_tensor, astype, clip, minimum, sqrt
from snell.optim.checks import check_range
from snell.optim.hyperparameters import Hyperparameter, Numbers
from snell.optim.matching import wide
from snell.optim.transform import Transform
from snell.optim.tree_rule import from_tree_rule, scaled

__all__ = ["clip_by_norm", "clip_by_value", "global_norm"]


def global_norm(tree: Any) -> Tensor:
    """The Euclidean norm of all leaves together, a scalar; f16 and bf16 are squared and summed in f32."""
    squares = [(leaf * leaf).sum() for leaf in (wide(as_tensor(leaf)) for leaf in trees.leaves(tree))]
    return sqrt(functools.reduce(operator.add, squares)) if squares else as_tensor(0.0)


def clip_by_norm(limit: Hyperparameter) -> Transform:
    """Gradients scaled together so that their norm is at most `limit` (Pascanu, Mikolov and Bengio, 2013).

    As in `torch.nn.utils.clip_grad_norm_` the factor is min(1, limit / (norm + 1e-6)).  Hyperparameter: limit.  Where
    parameters are frozen, `masked` belongs around the whole chain, so that they do not count.
    """
    check_range("clip_by_norm", limit=limit)
    return from_tree_rule("clip_by_norm", {"limit": limit}, _by_norm)


def _by_norm(updates: Any, params: Any, n: Numbers) -> Any:
    factor = minimum(n["limit"] / (astype(global_norm(updates), "f64") + 1e-6), 1.0)
    return trees.map(lambda update: scaled(update, factor), updates)


def clip_by_value(limit: Hyperparameter) -> Transform:
    """Each element of the gradients limited to -limit..limit.  Hyperparameter: limit."""
    check_range("clip_by_value", limit=limit)
    return from_tree_rule("clip_by_value", {"limit": limit}, _by_value)


def _by_value(updates: Any, params: Any, n: Numbers) -> Any:
    def one(update: Tensor) -> Tensor:
        limit = astype(n["limit"], update.dtype)
        return clip(update, -limit, limit)

    return trees.map(one, updates)
