"""A small GPT has PyTorch's losses at each of 200 steps, with weight decay, clipping by the global norm and warm-up."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.nn import functional

import snell as sn
from snell import nn

LAYERS, WIDTH, HEADS, LENGTH, BATCH, VOCABULARY = 2, 32, 2, 12, 4, 40
RATE, DECAY, NORM, WARM_UP, STEPS = 3e-3, 0.1, 1.0, 20, 200


def network() -> nn.Chain:
    attention = nn.Chain(norm=nn.LayerNorm(WIDTH), attention=nn.MultiHeadAttention(WIDTH, HEADS, causal=True))
    hidden = nn.Chain(
        norm=nn.LayerNorm(WIDTH), up=nn.Linear(WIDTH, 4 * WIDTH, sn.gelu), down=nn.Linear(4 * WIDTH, WIDTH)
    )
    block = nn.Chain(attention=nn.SkipConnection(attention), hidden=nn.SkipConnection(hidden))
    return nn.Chain(
        embedding=nn.Embedding(VOCABULARY, WIDTH), positions=nn.LearnedPositions(LENGTH, WIDTH),
        block0=block, block1=block, norm=nn.LayerNorm(WIDTH), head=nn.Linear(WIDTH, VOCABULARY, bias=False),
    )  # fmt: skip


def logits_by_torch(p: Any, tokens: torch.Tensor) -> torch.Tensor:
    """The same network on the same tree of parameters."""

    def norm(p: Any, x: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(x, (WIDTH,), p["weight"], p["bias"])

    def linear(p: Any, x: torch.Tensor) -> torch.Tensor:
        return x @ p["weight"] + p["bias"]

    def heads(x: torch.Tensor) -> torch.Tensor:
        return x.reshape(BATCH, LENGTH, HEADS, WIDTH // HEADS).transpose(1, 2)

    x = p["embedding"]["weight"][tokens] + p["positions"]["weight"]
    for name in ("block0", "block1"):
        own = p[name]["attention"]["layer"]
        y = norm(own["norm"], x)
        q, k, v = (heads(linear(own["attention"][part], y)) for part in ("q_proj", "k_proj", "v_proj"))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + linear(own["attention"]["out_proj"], mixed.transpose(1, 2).reshape(BATCH, LENGTH, WIDTH))
        own = p[name]["hidden"]["layer"]
        x = x + linear(own["down"], functional.gelu(linear(own["up"], norm(own["norm"], x))))
    return norm(p["norm"], x) @ p["head"]["weight"]


def batch_of(step: int) -> tuple[np.ndarray, np.ndarray]:
    """Texts that repeat themselves, so that there is something to learn."""
    random = np.random.default_rng(step)
    texts = np.tile(random.integers(0, VOCABULARY, (BATCH, 4), dtype=np.int32), (1, LENGTH // 4 + 1))
    return texts[:, :LENGTH], texts[:, 1 : LENGTH + 1]


def losses_by_torch(params: Any) -> list[float]:
    leaves = sn.tree.map(lambda leaf: torch.tensor(leaf, requires_grad=True), params)
    optimizer = torch.optim.AdamW(sn.tree.leaves(leaves), lr=RATE, weight_decay=DECAY)
    found: list[float] = []
    for step in range(STEPS):
        tokens, following = (torch.from_numpy(one).long() for one in batch_of(step))
        optimizer.param_groups[0]["lr"] = RATE * min(1.0, step / WARM_UP)
        optimizer.zero_grad()
        loss = functional.cross_entropy(logits_by_torch(leaves, tokens).flatten(0, 1), following.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(sn.tree.leaves(leaves), NORM)
        optimizer.step()
        found.append(float(loss.detach()))
    return found


def losses_by_snell(params: Any) -> list[float]:
    schedule = sn.optim.lr_schedule.warm_up(WARM_UP, sn.optim.lr_schedule.constant(RATE))
    optimizer = sn.optim.chain(sn.optim.clip_by_norm(NORM), sn.optim.adamw(schedule, weight_decay=DECAY))
    model = network()
    ts = sn.train.TrainState.create(model, params, model.init(sn.random.key(0))[1], optimizer)
    found: list[float] = []
    for step in range(STEPS):
        result, ts = sn.train.step(ts, batch_of(step), sn.losses.cross_entropy)
        found.append(float(result.loss))
    return found


def test_a_gpt_has_the_losses_of_pytorch_at_200_steps() -> None:
    params = sn.tree.map(np.asarray, network().init(sn.random.key(1))[0])
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        expected = np.array(losses_by_torch(params))
    finally:
        torch.set_num_threads(threads)
    found = np.array(losses_by_snell(params))
    assert expected[-20:].mean() < 0.9 * expected[:20].mean()
    assert np.abs(found / expected - 1).max() < 2e-5
