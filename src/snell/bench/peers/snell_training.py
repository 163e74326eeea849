"""Training steps of snell, as a user would write them: layers, an optimizer, one step."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

import snell as sn
from snell.bench.peers.peer import Timed
from snell.bench.training import (
    GPT,
    LSTM,
    MLP_WIDTHS,
    RATE,
    WEIGHT_DECAY,
    TrainModel,
    initial_weights,
    training_batch,
)

__all__ = ["network", "training_losses", "training_step"]

_PROJECTIONS = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "out": "out_proj"}


def training_step(model: TrainModel) -> Timed:
    """One step on the same batch again and again."""
    step = _stepper(model)
    return Timed(lambda: np.asarray(step()))


def training_losses(model: TrainModel, steps: int) -> list[float]:
    """The losses of the first steps."""
    step = _stepper(model)
    return [float(np.asarray(step())) for _ in range(steps)]


def _stepper(model: TrainModel) -> Callable[[], Any]:
    layers, params = network(model)
    optimizer = sn.optim.adam(RATE)
    if model in (TrainModel.GPT, TrainModel.GPT_BF16):
        optimizer = sn.optim.adamw(RATE, weight_decay=WEIGHT_DECAY)
    dtype = "bf16" if model is TrainModel.GPT_BF16 else None
    precision = "default" if dtype is None else "fast"
    _, state = layers.init(sn.random.key(0))
    states = [sn.train.TrainState.create(layers, params, state, optimizer, compute_dtype=dtype, precision=precision)]
    batch = training_batch(model)

    def step() -> Any:
        result, following = sn.train.step(states.pop(), batch, sn.losses.cross_entropy)
        states.append(following)
        return result.loss

    return step


def network(model: TrainModel) -> tuple[Any, dict[str, Any]]:
    """The layers, and their parameters from the initial weights."""
    weights = initial_weights(model)
    match model:
        case TrainModel.MLP:
            widths = list(itertools.pairwise(MLP_WIDTHS))
            layers = [sn.nn.Linear(a, b, sn.relu if k < len(widths) - 1 else None) for k, (a, b) in enumerate(widths)]
            names = {f"layer{k}": str(k) for k in range(len(layers))}
            return sn.nn.Chain(*layers), _tree(weights, names)
        case TrainModel.LSTM:
            cell = sn.nn.LSTMCell(LSTM.inputs, LSTM.hidden)
            recurrent = sn.nn.Chain(
                recurrence=sn.nn.Recurrence(cell, return_sequence=False), head=sn.nn.Linear(LSTM.hidden, LSTM.classes)
            )
            cells = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            return recurrent, _tree(weights, {name: f"recurrence.cell.{name}" for name in cells})
        case _:
            return _gpt(), _tree(weights, _gpt_names())


def _gpt() -> Any:
    width = GPT.width
    attention = sn.nn.Chain(
        norm=sn.nn.LayerNorm(width), attention=sn.nn.MultiHeadAttention(width, GPT.heads, causal=True)
    )
    feed_forward = sn.nn.Chain(
        norm=sn.nn.LayerNorm(width),
        up=sn.nn.Linear(width, GPT.hidden, sn.gelu),
        down=sn.nn.Linear(GPT.hidden, width),
    )
    block = sn.nn.Chain(attention=sn.nn.SkipConnection(attention), feed_forward=sn.nn.SkipConnection(feed_forward))
    return sn.nn.Chain(
        embedding=sn.nn.Embedding(GPT.vocabulary, width),
        positions=sn.nn.LearnedPositions(GPT.sequence, width),
        **{f"block{layer}": block for layer in range(GPT.layers)},
        norm=sn.nn.LayerNorm(width),
        head=sn.nn.Linear(width, GPT.vocabulary, bias=False),
    )


def _gpt_names() -> dict[str, str]:
    """The paths of the weights in the network's parameters."""
    names = {"embedding": "embedding.weight", "positions": "positions.weight"}
    for layer in range(GPT.layers):
        attention, feed_forward = f"block{layer}.attention.layer", f"block{layer}.feed_forward.layer"
        names[f"block{layer}.norm1"] = f"{attention}.norm"
        names |= {f"block{layer}.{part}": f"{attention}.attention.{own}" for part, own in _PROJECTIONS.items()}
        names |= {f"block{layer}.norm2": f"{feed_forward}.norm"}
        names |= {f"block{layer}.{part}": f"{feed_forward}.{part}" for part in ("up", "down")}
    return names


def _tree(weights: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """Nested dicts; a weight's path is its name with the longest known beginning replaced."""
    tree: dict[str, Any] = {}
    for name, array in weights.items():
        stem, _, leaf = name.rpartition(".")
        path = names.get(name) or (f"{names.get(stem, stem)}.{leaf}" if stem else name)
        *outer, last = path.split(".")
        place = tree
        for part in outer:
            place = place.setdefault(part, {})
        place[last] = array
    return tree
