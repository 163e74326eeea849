"""The evaluator of these tests (the reference interpreter) and the comparison with PyTorch, the outside judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from snell.frontend import Tensor, Trace, as_tensor, trace
from snell.graph.interpret import interpret
from snell.graph.node import Graph

Array = np.ndarray[Any, np.dtype[Any]]


class Interpreter:
    """Runs graphs in the reference interpreter."""

    def evaluate(self, graph: Graph, arrays: Mapping[str, Array]) -> Sequence[Array]:
        return interpret(graph, arrays)


def tensor(value: Any, dtype: Any = None) -> Tensor:
    """An eager tensor of an array (nested lists of floats are float32)."""
    array = np.asarray(value, dtype)
    if dtype is None and array.dtype == np.float64:
        array = array.astype(np.float32)
    return as_tensor(array, Trace(Interpreter(), floating=True))


def run(function: Callable[..., Any], specs: Sequence[Any], arrays: Sequence[Array], **sizes: int) -> list[Array]:
    """The traced function's outputs for these arrays."""
    traced = trace(function, specs)
    named = {**traced.arrays, **dict(zip(traced.inputs, arrays, strict=True))}
    used = {node.op.name for node in traced.graph.inputs()}  # type: ignore[attr-defined]  # inputs hold an Input
    return interpret(traced.graph, {name: array for name, array in named.items() if name in used}, sizes)


def as_torch(value: Any) -> Any:
    """Arrays as PyTorch tensors, everything else as it is."""
    return torch.from_numpy(np.array(value)) if isinstance(value, np.ndarray) else value


def assert_same(actual: Tensor, expected: torch.Tensor, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    """Equal shapes, kinds and values; NaN equals NaN."""
    value, wanted = actual.numpy(), expected.detach().numpy()
    assert value.shape == wanted.shape
    assert value.dtype == wanted.dtype
    np.testing.assert_allclose(value, wanted, rtol=rtol, atol=atol)


SPECIAL = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 3.7, 1e-30, -1e-30, 3e38], np.float32
)


def random(*shape: int, seed: int = 0) -> Array:
    """Normal float32 values."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
