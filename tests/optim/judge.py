"""Recorded gradients, and what optimizers make of them: snell's as one compiled step, PyTorch's as they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

import snell as sn

Array = np.ndarray[Any, np.dtype[Any]]
Tree = Mapping[str, Any]

STEPS = 100
SHAPES = {"kernel": (4, 3, 3, 3), "scale": (), "weight": (8, 5), "bias": (5,)}
MATRICES = {"tall": (8, 5), "wide": (4, 9), "square": (6, 6)}


def params(shapes: Mapping[str, tuple[int, ...]] = SHAPES) -> dict[str, Array]:
    """Normal parameters."""
    generator = np.random.default_rng(1)
    return {name: np.asarray(generator.normal(size=shape), np.float32) for name, shape in shapes.items()}


def gradients(shapes: Mapping[str, tuple[int, ...]] = SHAPES, steps: int = STEPS) -> list[dict[str, Array]]:
    """Gradients of each step: normal, of sizes that differ from step to step."""
    generator = np.random.default_rng(2)
    sizes = np.exp(generator.normal(size=steps))
    return [
        {name: np.asarray(size * generator.normal(size=shape), np.float32) for name, shape in shapes.items()}
        for size in sizes
    ]


def compiled_step(transform: sn.optim.Transform) -> Any:
    """One update as a compiled function: (params, state, gradients) -> (params, state)."""

    def step(params: Any, state: Any, gradients: Any) -> Any:
        updates, state = transform.update(gradients, state, params)
        return sn.optim.apply_updates(params, updates), state

    return sn.compile(step)


def variants(function: Any) -> int:
    """How many programs a compiled function has made."""
    return int(repr(function).rpartition("; ")[2].split()[0])


def trained(transform: sn.optim.Transform, start: Tree, recorded: Sequence[Tree]) -> dict[str, Array]:
    """The parameters after all updates, which are one program."""
    step = compiled_step(transform)
    current, state = dict(start), transform.init(start)
    for gradient in recorded:
        current, state = step(current, state, gradient)
    assert variants(step) == 1
    return {name: np.asarray(value) for name, value in current.items()}


def trained_by_torch(
    make: Callable[[list[torch.Tensor]], torch.optim.Optimizer], start: Tree, recorded: Sequence[Tree]
) -> dict[str, Array]:
    leaves = {name: torch.nn.Parameter(torch.tensor(value)) for name, value in start.items()}
    optimizer = make(list(leaves.values()))
    for gradient in recorded:
        for name, leaf in leaves.items():
            leaf.grad = torch.tensor(gradient[name])
        optimizer.step()
    return {name: leaf.detach().numpy() for name, leaf in leaves.items()}


def relative_error(actual: Tree, expected: Tree) -> float:
    """The greatest difference of a parameter's elements, relative to the parameter's greatest element."""
    return max(
        float(np.max(np.abs(np.asarray(actual[name]) - value)) / np.max(np.abs(value)))
        for name, value in expected.items()
    )
