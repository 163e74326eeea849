"""Losses of snell and PyTorch from the same weights and data, step by step; the largest relative differences.

PYTHONPATH=src python benchmarks/loss_curves.py [mlp|gpt|lstm] [steps]

AdamW with weight decay, clipping by the global norm and linear warm-up, a new batch each step.  PyTorch runs in f32 and
in f64, so that what f32 itself loses is beside what lies between the two libraries.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch

import snell as sn
from snell.bench.peers import snell_training, torch_training
from snell.bench.training import TrainModel, training_batch

RATE, DECAY, NORM, WARM_UP = 1e-3, 0.1, 1.0, 20


def batch_of(model: TrainModel, step: int) -> tuple[Any, Any]:
    """New inputs of the benchmark's shapes, with something to learn that a few hundred steps don't learn by heart."""
    x, _ = training_batch(model)
    random = np.random.default_rng(step)
    if x.dtype == np.float32:
        x = random.standard_normal(x.shape, np.float32)
        return x, x.reshape(len(x), -1, x.shape[-1])[:, -1, :10].argmax(-1).astype(np.int32)
    start = random.integers(0, 1000, (x.shape[0], 1), dtype=np.int32)
    texts = (start + 7 * np.arange(x.shape[1] + 1, dtype=np.int32)) % 1000
    return texts[:, :-1], texts[:, 1:]


def losses_of_torch(model: TrainModel, steps: int, dtype: torch.dtype) -> list[float]:
    module = torch_training.network(model).to(dtype)
    optimizer = torch.optim.AdamW(module.parameters(), RATE, weight_decay=DECAY)
    found: list[float] = []
    for step in range(steps):
        x, classes = (torch.from_numpy(one) for one in batch_of(model, step))
        x = x.to(dtype) if x.is_floating_point() else x
        optimizer.param_groups[0]["lr"] = RATE * min(1.0, step / WARM_UP)
        optimizer.zero_grad()
        logits = module(x)
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), classes.long().flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), NORM)
        optimizer.step()
        found.append(float(loss.detach()))
    return found


def losses_of_snell(model: TrainModel, steps: int) -> list[float]:
    layers, params = snell_training.network(model)
    schedule = sn.optim.lr_schedule.warm_up(WARM_UP, sn.optim.lr_schedule.constant(RATE))
    optimizer = sn.optim.chain(sn.optim.clip_by_norm(NORM), sn.optim.adamw(schedule, weight_decay=DECAY))
    ts = sn.train.TrainState.create(layers, params, layers.init(sn.random.key(0))[1], optimizer)
    found: list[float] = []
    for step in range(steps):
        result, ts = sn.train.step(ts, batch_of(model, step), sn.losses.cross_entropy)
        found.append(float(result.loss))
    return found


def main() -> None:
    model = TrainModel(sys.argv[1] if len(sys.argv) > 1 else "mlp")
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    snell = np.array(losses_of_snell(model, steps))
    single, double = (np.array(losses_of_torch(model, steps, dtype)) for dtype in (torch.float32, torch.float64))
    lines = [
        f"{model.value}, {steps} steps, loss {double[0]:.4f} to {double[-1]:.4f}; largest relative difference (step)"
    ]
    for name, a, b in (
        ("snell f32, torch f32", snell, single),
        ("torch f32, torch f64", single, double),
        ("snell f32, torch f64", snell, double),
    ):
        gaps = np.abs(a - b) / np.maximum(np.abs(b), 1e-30)
        lines.append(f"{name}: {gaps.max():.1e} ({int(gaps.argmax())}); absolute {np.abs(a - b).max():.1e}")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
