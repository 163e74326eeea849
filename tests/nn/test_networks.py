"""Whole networks of these layers equal PyTorch's: a LeNet, a classifier of sequences, a block of a transformer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.nn.torch_layers import Case, Outcome, floats, outcomes

import snell as sn
from snell import nn


def nested(named: dict[str, np.ndarray]) -> Any:
    """Paths as nested dicts; matrices of linear layers transposed."""
    tree: dict[str, Any] = {}
    for path, value in named.items():
        *parents, leaf = path.split(".")
        place = tree
        for name in parents:
            place = place.setdefault(name, {})
        place[leaf] = value.T if value.ndim == 2 else value
    return tree


def lenet() -> nn.Chain:
    """LeNet-5 with maxima (LeCun et al., 1998)."""
    return nn.Chain(
        nn.Conv2d(1, 6, 5, padding=2), sn.relu, nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), sn.relu, nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), sn.relu, nn.Linear(120, 84), sn.relu, nn.Linear(84, 10),
    )  # fmt: skip


def torch_lenet() -> torch.nn.Module:
    kinds = torch.nn
    torch.manual_seed(0)
    return kinds.Sequential(
        kinds.Conv2d(1, 6, 5, padding=2), kinds.ReLU(), kinds.MaxPool2d(2),
        kinds.Conv2d(6, 16, 5), kinds.ReLU(), kinds.MaxPool2d(2),
        kinds.Flatten(), kinds.Linear(400, 120), kinds.ReLU(), kinds.Linear(120, 84), kinds.ReLU(), kinds.Linear(84, 10),
    ).double()  # fmt: skip


class Classifier(torch.nn.Module):
    """Sequences by the last outputs of both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(6, 8, batch_first=True, bidirectional=True)
        self.head = torch.nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        _, (hidden, _) = self.lstm(x)
        return self.head(torch.cat([hidden[0], hidden[1]], -1))


def of_classifier(named: dict[str, np.ndarray]) -> Any:
    directions = {"forward": "", "backward": "_reverse"}
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    lstm = {way: {name: named[f"lstm.{name}_l0{end}"].T for name in names} for way, end in directions.items()}
    return {"0": lstm, "head": {"weight": named["head.weight"].T, "bias": named["head.bias"]}}


class Block(torch.nn.Module):
    """Attention and a feed-forward network, each behind a norm and beside a residual path."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = torch.nn.LayerNorm(12), torch.nn.LayerNorm(12)
        self.attention = torch.nn.MultiheadAttention(12, 3, batch_first=True)
        self.wide, self.narrow = torch.nn.Linear(12, 24), torch.nn.Linear(24, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        y = self.before(x)
        x = x + self.attention(y, y, y, attn_mask=later)[0]
        return x + self.narrow(torch.nn.functional.gelu(self.wide(self.between(x))))


def of_block(named: dict[str, np.ndarray]) -> Any:
    packed = zip(
        np.split(named["attention.in_proj_weight"], 3), np.split(named["attention.in_proj_bias"], 3), strict=True
    )
    attention = {
        name: {"weight": weight.T, "bias": bias}
        for name, (weight, bias) in zip(("q_proj", "k_proj", "v_proj"), packed, strict=True)
    }
    by_name = nested({name: value for name, value in named.items() if "in_proj" not in name})
    attention["out_proj"] = by_name["attention"]["out_proj"]
    return {
        "0": {"layer": {"norm": by_name["before"], "attention": attention}},
        "1": {"layer": {"norm": by_name["between"], "wide": by_name["wide"], "narrow": by_name["narrow"]}},
    }


BLOCK = nn.Chain(
    nn.SkipConnection(nn.Chain(norm=nn.LayerNorm(12), attention=nn.MultiHeadAttention(12, 3, causal=True))),
    nn.SkipConnection(nn.Chain(norm=nn.LayerNorm(12), wide=nn.Linear(12, 24, sn.gelu), narrow=nn.Linear(24, 12))),
)

CASES = {
    "lenet": Case(lenet(), torch_lenet(), floats(2, 1, 28, 28), nested),
    "a classifier of sequences": Case(
        nn.Chain(nn.Bidirectional(nn.LSTMCell(6, 8), return_sequence=False), head=nn.Linear(16, 3)),
        Classifier().double(),
        floats(3, 9, 6),
        of_classifier,
    ),
    "a block of a transformer": Case(BLOCK, Block().double(), floats(2, 7, 12), of_block),
}


@pytest.fixture(scope="module")
def found() -> dict[str, Outcome]:
    return outcomes(CASES)


@pytest.mark.parametrize("name", CASES)
def test_a_network_and_its_gradients_equal_pytorch(name: str, found: dict[str, Outcome]) -> None:
    found[name].check()


def test_a_summary_counts_a_lenet() -> None:
    total = nn.summary(lenet(), (8, 1, 28, 28)).total
    assert total.parameters == 61706
    products = 28 * 28 * 6 * 25 + 10 * 10 * 16 * 150 + 400 * 120 + 120 * 84 + 84 * 10
    assert total.flops == pytest.approx(8 * 2 * products, rel=0.2)
