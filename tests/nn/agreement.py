"""A layer and a module of PyTorch with the same numbers, compared: results, state and gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import snell as sn

__all__ = ["Case", "arrays", "close", "disagreements", "run"]

Array = np.ndarray[Any, np.dtype[Any]]
TRANSPOSED = (torch.nn.Linear,)


@dataclass(frozen=True)
class Case:
    """A layer, the module it is to agree with, and their input or inputs."""

    layer: sn.nn.Layer
    module: torch.nn.Module
    inputs: tuple[Array, ...]

    @property
    def x(self) -> Any:
        return self.inputs[0] if len(self.inputs) == 1 else self.inputs


def arrays(tree: Any) -> Any:
    return sn.tree.map(np.asarray, tree)


def run(function: Any, *arguments: Any) -> Any:
    """The compiled function's results as NumPy arrays."""
    return arrays(sn.compile(function)(*arguments))


def close(a: Any, b: Any, tolerance: float = 2e-5) -> None:
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)


def disagreements(case: Case, seed: int = 0) -> list[str]:
    """What differs: results without and with training, the state after it, and all gradients."""
    random = np.random.default_rng(seed)
    _randomise(case.module, random)
    params, state = _parameters(case.module), _state(case.module)
    weights = random.normal(size=_forward(case, train=False).shape).astype(np.float32)
    expected = _torch_results(case, weights)
    received = run(lambda *given: _results(case.layer, *given), params, state, case.x, weights)
    assert set(received) == set(expected)
    return [name for name, value in expected.items() if not _is_close(received[name], value)]


def _results(layer: sn.nn.Layer, params: Any, state: Any, x: Any, weights: Any) -> dict[str, Any]:
    def objective(params: Any, x: Any) -> Any:
        y, after = layer(x, params, state, train=True)
        return (y * weights).sum(), (y, after)

    floats = all(leaf.dtype.is_float for leaf in sn.tree.leaves(x))
    (_, (trained, after)), found = sn.value_and_grad(objective, (0, 1) if floats else (0,), has_aux=True)(params, x)
    results = {"eval": layer(x, params, state)[0], "train": trained}
    results |= {f"state {name}": leaf for name, leaf in after.items()}
    results |= {f"gradient of {name}": leaf for name, leaf in found[0].items()}
    if floats:
        results |= {f"gradient of input {k}": leaf for k, leaf in enumerate(sn.tree.leaves(found[1]))}
    return results


def _torch_results(case: Case, weights: Array) -> dict[str, Array]:
    results = {"eval": _forward(case, train=False).detach().numpy()}
    inputs = [torch.tensor(x, requires_grad=x.dtype == np.float32) for x in case.inputs]
    y = case.module.train()(*inputs)
    (y * torch.tensor(weights)).sum().backward()
    results["train"] = y.detach().numpy()
    results |= {f"state {name}": leaf for name, leaf in _state(case.module).items()}
    for name, parameter in case.module.named_parameters():
        assert parameter.grad is not None
        results[f"gradient of {name}"] = _ours(case.module, name, parameter.grad.numpy())
    results |= {f"gradient of input {k}": x.grad.numpy() for k, x in enumerate(inputs) if x.grad is not None}
    return results


def _forward(case: Case, train: bool) -> torch.Tensor:
    return case.module.train(train)(*map(torch.tensor, case.inputs))


def _randomise(module: torch.nn.Module, random: np.random.Generator) -> None:
    """Numbers that show a mistake where ones and zeros would hide it; the row of a padding index stays zero."""
    with torch.no_grad():
        for tensor in (*module.parameters(), *(b for b in module.buffers() if b.dtype == torch.float32)):
            tensor.copy_(torch.tensor(np.abs(random.normal(size=tuple(tensor.shape))) + 0.1))
        if isinstance(module, torch.nn.Embedding) and module.padding_idx is not None:
            module.weight[module.padding_idx] = 0.0


def _parameters(module: torch.nn.Module) -> dict[str, Array]:
    return {name: _ours(module, name, p.detach().numpy().copy()) for name, p in module.named_parameters()}


def _state(module: torch.nn.Module) -> dict[str, Array]:
    return {name: b.detach().numpy().copy() for name, b in module.named_buffers()}


def _ours(module: torch.nn.Module, name: str, array: Array) -> Array:
    return array.T.copy() if isinstance(module, TRANSPOSED) and name == "weight" else array


def _is_close(received: Array, expected: Array) -> bool:
    return received.shape == expected.shape and bool(np.allclose(received, expected, rtol=2e-5, atol=2e-5))
