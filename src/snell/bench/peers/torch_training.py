"""Training steps of PyTorch, eager or compiled with the optimizer inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

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

Compile = Callable[[Callable[[], Any]], Callable[[], Any]]


def training_step(model: TrainModel, threads: int, compile_: Compile) -> Timed:
    """One step on the same batch again and again, in f32."""
    torch.set_num_threads(threads)
    step = compile_(_stepper(model))
    return Timed(lambda: float(step().detach()))


def training_losses(model: TrainModel, steps: int) -> list[float]:
    """The losses of the first steps."""
    step = _stepper(model)
    return [float(step().detach()) for _ in range(steps)]


def _stepper(model: TrainModel) -> Callable[[], Any]:
    module = network(model)
    if model in (TrainModel.GPT, TrainModel.GPT_BF16):
        optimizer: Any = torch.optim.AdamW(module.parameters(), RATE, weight_decay=WEIGHT_DECAY)
    else:
        optimizer = torch.optim.Adam(module.parameters(), RATE)
    inputs, wanted = training_batch(model)
    x, classes = torch.from_numpy(inputs), torch.from_numpy(wanted).long().flatten()

    def step() -> Any:
        optimizer.zero_grad(set_to_none=True)
        logits = module(x)
        loss = functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), classes)
        loss.backward()
        optimizer.step()
        return loss

    return step


def network(model: TrainModel) -> nn.Module:
    """The module with the initial weights."""
    weights = {name: torch.from_numpy(array) for name, array in initial_weights(model).items()}
    match model:
        case TrainModel.MLP:
            layers: list[nn.Module] = []
            for k in range(len(MLP_WIDTHS) - 1):
                layers += [*([nn.ReLU()] if k else []), _linear(weights, f"layer{k}")]
            return nn.Sequential(*layers)
        case TrainModel.LSTM:
            return _Lstm(weights)
        case _:
            return _Gpt(weights)


def _linear(weights: dict[str, Any], name: str) -> nn.Linear:
    weight = weights[f"{name}.weight"]
    layer = nn.Linear(*weight.shape, bias=f"{name}.bias" in weights)
    with torch.no_grad():
        layer.weight.copy_(weight.T)
        if layer.bias is not None:
            layer.bias.copy_(weights[f"{name}.bias"])
    return layer


class _Lstm(nn.Module):
    def __init__(self, weights: dict[str, Any]) -> None:
        super().__init__()
        self.layer = nn.LSTM(LSTM.inputs, LSTM.hidden, batch_first=True)
        self.head = _linear(weights, "head")
        with torch.no_grad():
            for name in ("weight_ih", "weight_hh"):
                getattr(self.layer, f"{name}_l0").copy_(weights[name].T)
            for name in ("bias_ih", "bias_hh"):
                getattr(self.layer, f"{name}_l0").copy_(weights[name])

    def forward(self, x: Any) -> Any:
        return self.head(self.layer(x)[0][:, -1])


class _Block(nn.Module):
    def __init__(self, weights: dict[str, Any], name: str) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(GPT.width), nn.LayerNorm(GPT.width)
        # One product for queries, keys and values, as is usual.
        joined = {
            f"qkv.{part}": torch.cat([weights[f"{name}{which}.{part}"] for which in ("q", "k", "v")], -1)
            for part in ("weight", "bias")
        }
        self.qkv = _linear(joined, "qkv")
        self.out, self.up, self.down = (_linear(weights, name + part) for part in ("out", "up", "down"))

    def forward(self, x: Any) -> Any:
        texts, tokens, _ = x.shape
        shape = (texts, tokens, 3, GPT.heads, GPT.width // GPT.heads)
        q, k, v = self.qkv(self.norm1(x)).view(shape).permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(texts, tokens, GPT.width))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class _Gpt(nn.Module):
    def __init__(self, weights: dict[str, Any]) -> None:
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(weights["embedding"].clone(), freeze=False)
        self.positions = nn.Parameter(weights["positions"].clone())
        self.blocks = nn.Sequential(*[_Block(weights, f"block{layer}.") for layer in range(GPT.layers)])
        self.norm = nn.LayerNorm(GPT.width)
        self.head = _linear(weights, "head")

    def forward(self, tokens: Any) -> Any:
        return self.head(self.norm(self.blocks(self.embedding(tokens) + self.positions)))
