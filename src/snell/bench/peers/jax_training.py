"""Training steps of JAX: loss, gradients and update in one jitted function that takes over its arguments' memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from snell.bench.peers.peer import Timed
from snell.bench.training import (
    GPT,
    MLP_WIDTHS,
    RATE,
    WEIGHT_DECAY,
    TrainModel,
    initial_weights,
    training_batch,
)

__all__ = ["training_losses", "training_step"]

Weights = dict[str, Any]
_BETAS, _EPSILON = (0.9, 0.999), 1e-8


def training_step(model: TrainModel) -> Timed:
    """One step on the same batch again and again, in f32."""
    step = _stepper(model)
    return Timed(lambda: step().block_until_ready())


def training_losses(model: TrainModel, steps: int) -> list[float]:
    """The losses of the first steps."""
    step = _stepper(model)
    return [float(step()) for _ in range(steps)]


def _stepper(model: TrainModel) -> Callable[[], Any]:
    weights = {name: jnp.asarray(array) for name, array in initial_weights(model).items()}
    zeros = {name: jnp.zeros_like(array) for name, array in weights.items()}
    carried = [(weights, zeros, dict(zeros.items()), jnp.zeros((), jnp.int32))]
    carried[0] = jax.tree.map(jnp.copy, carried[0])
    x, classes = map(jnp.asarray, training_batch(model))
    decay = WEIGHT_DECAY if model in (TrainModel.GPT, TrainModel.GPT_BF16) else 0.0
    run = jax.jit(partial(_step, _NETWORKS[model], decay), donate_argnums=0)

    def step() -> Any:
        loss, following = run(carried.pop(), x, classes)
        carried.append(following)
        return loss

    return step


def _step(network: Callable[..., Any], decay: float, carried: Any, x: Any, classes: Any) -> Any:
    """Adam with decoupled weight decay."""
    weights, first, second, count = carried
    loss, gradients = jax.value_and_grad(lambda w: _cross_entropy(network(w, x), classes))(weights)
    count = count + 1
    first = jax.tree.map(lambda m, g: _BETAS[0] * m + (1 - _BETAS[0]) * g, first, gradients)
    second = jax.tree.map(lambda v, g: _BETAS[1] * v + (1 - _BETAS[1]) * g * g, second, gradients)
    scales = [1 - beta**count for beta in _BETAS]

    def updated(w: Any, m: Any, v: Any) -> Any:
        return w * (1 - RATE * decay) - RATE * (m / scales[0]) / (jnp.sqrt(v / scales[1]) + _EPSILON)

    return loss, (jax.tree.map(updated, weights, first, second), first, second, count)


def _cross_entropy(logits: Any, classes: Any) -> Any:
    logits, classes = logits.reshape(-1, logits.shape[-1]), classes.reshape(-1)
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), classes[:, None], axis=-1)
    return -picked.mean()


def _linear(w: Weights, name: str, x: Any) -> Any:
    return x @ w[f"{name}.weight"] + w[f"{name}.bias"]


def _mlp(w: Weights, x: Any) -> Any:
    for k in range(len(MLP_WIDTHS) - 2):
        x = jax.nn.relu(_linear(w, f"layer{k}", x))
    return _linear(w, f"layer{len(MLP_WIDTHS) - 2}", x)


def _lstm(w: Weights, x: Any) -> Any:
    inputs = (x @ w["weight_ih"] + w["bias_ih"] + w["bias_hh"]).swapaxes(0, 1)
    zeros = jnp.zeros((x.shape[0], w["weight_hh"].shape[0]), x.dtype)

    def step(carry: Any, row: Any) -> Any:
        hidden, cell = carry
        i, f, g, o = jnp.split(row + hidden @ w["weight_hh"], 4, axis=-1)
        cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
        hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
        return (hidden, cell), None

    (hidden, _), _ = jax.lax.scan(step, (zeros, zeros), inputs)
    return _linear(w, "head", hidden)


def _norm(w: Weights, name: str, x: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred * jax.lax.rsqrt(jnp.mean(centred * centred, -1, keepdims=True) + 1e-5)
    return scaled * w[f"{name}.weight"] + w[f"{name}.bias"]


def _gpt(w: Weights, tokens: Any) -> Any:
    x = w["embedding"][tokens] + w["positions"]
    for layer in range(GPT.layers):
        name = f"block{layer}."
        y = _norm(w, name + "norm1", x)
        shape = (*tokens.shape, GPT.heads, GPT.width // GPT.heads)
        q, k, v = (_linear(w, name + part, y).reshape(shape) for part in ("q", "k", "v"))
        attended = jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(x.shape)
        x = x + _linear(w, name + "out", attended)
        y = _linear(w, name + "up", _norm(w, name + "norm2", x))
        x = x + _linear(w, name + "down", jax.nn.gelu(y, approximate=False))
    return _norm(w, "norm", x) @ w["head.weight"]


_NETWORKS = {TrainModel.MLP: _mlp, TrainModel.LSTM: _lstm, TrainModel.GPT: _gpt, TrainModel.GPT_BF16: _gpt}
