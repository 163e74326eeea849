"""The models whose training is measured: their sizes, initial weights and one batch, the same for every implementation.

Matrices are (in, out).  The LSTM's gates are in the order input, forget, cell, output.
"""

from __future__ import annotations

import itertools
from enum import StrEnum
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = [
    "BATCH", "FEATURES", "GPT", "LSTM", "MLP_WIDTHS", "RATE", "WEIGHT_DECAY", "GptSizes", "LstmSizes", "TrainModel",
    "initial_weights", "training_batch", "training_flops",
]  # fmt: skip

Array = npt.NDArray[np.float32]
Weights = dict[str, Array]

RATE: Final = 1e-3
WEIGHT_DECAY: Final = 0.01
BATCH: Final = 128
FEATURES: Final = 784
MLP_WIDTHS: Final = (FEATURES, 512, 512, 10)


class TrainModel(StrEnum):
    """What is trained.  The last one is in bf16 with f32 masters; other libraries run it in f32."""

    MLP = "mlp"
    GPT = "gpt"
    LSTM = "lstm"
    GPT_BF16 = "gpt_bf16"


class GptSizes:
    """A transformer whose norms stand before what they norm, with learned positions."""

    layers: Final = 4
    width: Final = 256
    heads: Final = 4
    hidden: Final = 1024
    sequence: Final = 128
    batch: Final = 8
    vocabulary: Final = 1000


class LstmSizes:
    """A recurrent layer whose last output is classified."""

    inputs: Final = 128
    hidden: Final = 256
    steps: Final = 100
    batch: Final = 32
    classes: Final = 10


GPT, LSTM = GptSizes(), LstmSizes()


def initial_weights(model: TrainModel) -> Weights:
    """Weights by name, f32."""
    random = np.random.default_rng(0)
    match model:
        case TrainModel.MLP:
            found: Weights = {}
            for k, (rows, columns) in enumerate(itertools.pairwise(MLP_WIDTHS)):
                found |= _linear(random, f"layer{k}", rows, columns)
            return found
        case TrainModel.LSTM:
            gates = 4 * LSTM.hidden
            matrices = {"weight_ih": (LSTM.inputs, gates), "weight_hh": (LSTM.hidden, gates)}
            vectors = {"bias_ih": (gates,), "bias_hh": (gates,)}
            recurrent = {name: _uniform(random, shape, LSTM.hidden) for name, shape in (matrices | vectors).items()}
            return recurrent | _linear(random, "head", LSTM.hidden, LSTM.classes)
        case _:
            return _gpt_weights(random)


def _gpt_weights(random: np.random.Generator) -> Weights:
    width = GPT.width
    found = {
        "embedding": _normal(random, (GPT.vocabulary, width)),
        "positions": _normal(random, (GPT.sequence, width)),
        **_norm("norm", width),
        "head.weight": _normal(random, (width, GPT.vocabulary)),
    }
    for layer in range(GPT.layers):
        name = f"block{layer}."
        found |= _norm(name + "norm1", width) | _norm(name + "norm2", width)
        for part in ("q", "k", "v", "out"):
            found |= _linear(random, name + part, width, width)
        found |= _linear(random, name + "up", width, GPT.hidden) | _linear(random, name + "down", GPT.hidden, width)
    return found


def training_batch(model: TrainModel) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.int32]]:
    """Inputs, and the classes of each."""
    random = np.random.default_rng(1)
    match model:
        case TrainModel.MLP:
            x = random.standard_normal((BATCH, FEATURES), np.float32)
            return x, random.integers(0, MLP_WIDTHS[-1], BATCH, dtype=np.int32)
        case TrainModel.LSTM:
            x = random.standard_normal((LSTM.batch, LSTM.steps, LSTM.inputs), np.float32)
            return x, random.integers(0, LSTM.classes, LSTM.batch, dtype=np.int32)
        case _:
            shape = (GPT.batch, GPT.sequence)
            tokens, following = (random.integers(0, GPT.vocabulary, shape, dtype=np.int32) for _ in range(2))
            return tokens, following


def training_flops(model: TrainModel) -> int:
    """Of the products of a step: forward, for the weights' gradients, and for those of inputs that depend on weights."""
    match model:
        case TrainModel.MLP:
            pairs = [a * b for a, b in itertools.pairwise(MLP_WIDTHS)]
            return 2 * BATCH * (3 * sum(pairs) - pairs[0])
        case TrainModel.LSTM:
            gates = 4 * LSTM.hidden * (2 * LSTM.inputs + 3 * LSTM.hidden)
            return 2 * LSTM.batch * (LSTM.steps * gates + 3 * LSTM.hidden * LSTM.classes)
        case _:
            tokens, width = GPT.batch * GPT.sequence, GPT.width
            layer = 4 * width * width + 2 * width * GPT.hidden + width * (GPT.sequence + 1)
            return 3 * 2 * tokens * (GPT.layers * layer + width * GPT.vocabulary)


def _linear(random: np.random.Generator, name: str, rows: int, columns: int) -> Weights:
    shapes = {"weight": (rows, columns), "bias": (columns,)}
    return {f"{name}.{part}": _uniform(random, shape, rows) for part, shape in shapes.items()}


def _norm(name: str, width: int) -> Weights:
    return {f"{name}.weight": np.ones(width, np.float32), f"{name}.bias": np.zeros(width, np.float32)}


def _uniform(random: np.random.Generator, shape: tuple[int, ...], fan: int) -> Array:
    return random.uniform(-(fan**-0.5), fan**-0.5, shape).astype(np.float32)


def _normal(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return (0.02 * random.standard_normal(shape)).astype(np.float32)
