"""Layers beside modules of PyTorch: the same numbers in, results and gradients compared.

All cases of a file are one program, in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import snell as sn
from snell.nn import Layer

__all__ = ["Case", "Outcome", "as_they_are", "floats", "outcomes"]

Array = np.ndarray[Any, np.dtype[Any]]
Named = dict[str, Array]


def floats(*shape: int, seed: int = 0) -> Array:
    """Normal float64 values."""
    return np.random.default_rng(seed).standard_normal(shape)


def as_they_are(named: Named) -> Any:
    """PyTorch's names and layouts are the layer's."""
    return named


@dataclass(frozen=True)
class Case:
    """A layer, the module that judges it, an input, and the layer's parameters of the module's by name."""

    layer: Layer
    module: torch.nn.Module
    x: Any
    params_of: Callable[[Named], Any] = as_they_are
    call: Callable[[torch.nn.Module, Any], torch.Tensor] = lambda module, x: module(x)

    def torch_params(self) -> Any:
        return self.params_of({name: p.detach().numpy() for name, p in self.module.named_parameters()})


@dataclass(frozen=True)
class Outcome:
    """Results and gradients with respect to parameters and input: the layer's, and those that are expected."""

    y: Any
    gradients: Any
    expected_y: Any
    expected_gradients: Any

    def check(self, tolerance: float = 1e-9) -> None:
        np.testing.assert_allclose(self.y, self.expected_y, rtol=tolerance, atol=tolerance)
        assert sn.tree.paths(self.gradients) == sn.tree.paths(self.expected_gradients)
        pairs = zip(sn.tree.leaves(self.gradients), sn.tree.leaves(self.expected_gradients), strict=True)
        for path, (found, expected) in zip(sn.tree.paths(self.gradients), pairs, strict=True):
            np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance, err_msg=".".join(path))


def outcomes(cases: Mapping[str, Case]) -> dict[str, Outcome]:
    """Every case by its name; the layers together are one compiled program."""
    expected = {name: _judged(case) for name, case in cases.items()}
    arguments = {
        name: {"given": {"params": case.torch_params(), "x": case.x}, "weights": weights_like(expected[name][0])}
        for name, case in cases.items()
    }

    @sn.compile
    def program(arguments: Any) -> Any:
        return {name: _value_and_gradients(case.layer, **arguments[name]) for name, case in cases.items()}

    found = sn.tree.map(np.asarray, program(arguments))
    return {name: Outcome(found[name][0], found[name][1], *expected[name]) for name in cases}


def weights_like(y: Array) -> Array:
    """A weight of its own for each element, so that each gradient counts."""
    return np.cos(1.7 * np.arange(y.size) + 0.3).reshape(y.shape)


def _value_and_gradients(layer: Layer, given: Any, weights: Any) -> Any:
    def weighed(given: Any) -> Any:
        y, _ = layer(given["x"], given["params"], {})
        return (y * weights).sum(), y

    (_, y), gradients = sn.value_and_grad(weighed, has_aux=True)(given)
    return y, gradients


def _judged(case: Case) -> tuple[Array, Any]:
    leaves = sn.tree.map(lambda array: torch.tensor(array, requires_grad=True), case.x)
    case.module.zero_grad()
    y = case.call(case.module, leaves)
    (y * torch.from_numpy(weights_like(y.detach().numpy()))).sum().backward()
    named = {name: p.grad.numpy() for name, p in case.module.named_parameters()}  # type: ignore[union-attr]
    of_x = sn.tree.map(lambda leaf: leaf.grad.numpy(), leaves)
    return y.detach().numpy(), {"params": case.params_of(named), "x": of_x}
