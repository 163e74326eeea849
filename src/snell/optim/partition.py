"""partition, masked and freeze: which parameters a transform is for.

A parameter that belongs to another group is an empty tree (None) to a transform, so it has no state there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from snell import trees
from snell.errors import ConfigError
from snell.frontend import Tensor, as_tensor, zeros_like
from snell.optim.mask import Mask, selected
from snell.optim.matching import entry, wide
from snell.optim.names import distinct_names
from snell.optim.transform import Transform

__all__ = ["freeze", "masked", "partition"]


def freeze() -> Transform:
    """Updates of 0: parameters stay what they are."""

    def update(gradients: Any, state: Any, params: Any) -> tuple[Any, dict[str, Any]]:
        return trees.map(_no_update, params), {}

    return Transform("freeze", lambda params: {}, update)


def _no_update(parameter: Any) -> Tensor:
    return zeros_like(wide(as_tensor(parameter)))


def masked(transform: Transform, mask: Mask) -> Transform:
    """The transform for the parameters that the mask selects; all others are frozen.

    `mask` is a tree of bools, patterns of dotted paths, or a function of (path, parameter) (see `Mask`).  Frozen
    parameters have no state, and need no gradient (None in its place will do).  The state is the transform's, under its
    name.  Raises ConfigError for a pattern that matches nothing, GraphError for a tree of another structure.
    """
    return _grouped("masked", [(mask, transform)], freeze())


def partition(groups: Sequence[tuple[Mask, Transform]], otherwise: Transform) -> Transform:
    """A transform for each group of parameters: the first whose mask selects it, else `otherwise`.

    partition([(lambda path, p: p.ndim == 2, muon(0.02))], otherwise=adamw(3e-4))

    The state has each group's under its transform's name, a second one of a name as `adamw_2`.
    """
    return _grouped("partition", groups, otherwise)


def _grouped(name: str, groups: Sequence[tuple[Mask, Transform]], otherwise: Transform) -> Transform:
    transforms = [*(transform for _, transform in groups), otherwise]
    if not all(isinstance(one, Transform) for one in transforms):
        raise ConfigError(f"{name} expected pairs of a mask and a transform, and a transform; received {groups}")
    named = dict(zip(distinct_names(transforms), transforms, strict=True))

    def owners(params: Any) -> list[int]:
        """The number of each leaf's group."""
        chosen = [selected(mask, params, name) for mask, _ in groups]
        everything = [*chosen, [True] * trees.flatten(params)[1].count]
        return [column.index(True) for column in zip(*everything, strict=True)]

    def init(params: Any) -> dict[str, Any]:
        parts = _parts(owners(params), params, params, len(transforms))
        states = {key: one.init(part) for (key, one), part in zip(named.items(), parts, strict=True)}
        return {key: state for key, state in states.items() if named[key].name != "freeze"}

    def update(gradients: Any, state: Any, params: Any) -> tuple[Any, dict[str, Any]]:
        owner = owners(params)
        structure = trees.flatten(params)[1]
        own = _parts(owner, params, params, len(transforms))
        given = _parts(owner, params, gradients, len(transforms))
        columns: list[list[Any]] = []
        following: dict[str, Any] = {}
        for (key, one), part, gradient in zip(named.items(), own, given, strict=True):
            before = {} if one.name == "freeze" else entry(state, key, name)
            updates, after = one.update(gradient, before, part)
            columns.append(trees.flatten_up_to(structure, updates))
            if one.name != "freeze":
                following[key] = after
        return trees.unflatten(structure, [columns[k][leaf] for leaf, k in enumerate(owner)]), following

    return Transform(name, init, update)


def _parts(owner: list[int], params: Any, tree: Any, count: int) -> list[Any]:
    """The tree once a group, with None at the leaves of all others."""
    structure = trees.flatten(params)[1]
    leaves = trees.flatten_up_to(structure, tree)
    return [
        trees.unflatten(structure, [leaf if own == k else None for leaf, own in zip(leaves, owner, strict=True)])
        for k in range(count)
    ]
