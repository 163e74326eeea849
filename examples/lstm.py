"""An LSTM reads sequences and tells their classes: here, whether a noisy wave has one of three shapes.

The recurrence is a `scan`: one step is compiled, and its gradient costs as much time as the sequence is long.

Run with `python examples/lstm.py`.
"""

import sys
from typing import Any

import numpy as np

import snell as sn

CLASSES = 3


def waves(count: int, length: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Sines, squares and saws of random phase and period with noise: f32 (n, length, 1), and which is which, i32 (n,)."""
    random = np.random.default_rng(seed)
    phase = random.uniform(0, 1, (count, 1)) + np.arange(length) / random.uniform(8, 16, (count, 1))
    kinds = random.integers(0, CLASSES, count)
    shapes = np.stack([np.sin(2 * np.pi * phase), np.sign(np.sin(2 * np.pi * phase)), 2 * (phase % 1) - 1])
    clean = shapes[kinds, np.arange(count)]
    noisy = clean + 0.1 * random.standard_normal(clean.shape)
    return noisy[..., None].astype(np.float32), kinds.astype(np.int32)


def objective(model: Any, params: Any, state: Any, batch: Any, *, train: bool) -> Any:
    """Cross-entropy, and the share of sequences that are told right."""
    logits, state = model(batch[0], params, state, train=train)
    accuracy = (logits.argmax(-1) == batch[1]).astype("f32").mean()
    return sn.losses.cross_entropy(logits, batch[1]), state, {"accuracy": accuracy}


def learn(steps: int = 400, length: int = 48, hidden: int = 48) -> float:
    """Train on 2,000 waves; gives the accuracy on others."""
    model = sn.nn.Chain(
        reader=sn.nn.Recurrence(sn.nn.LSTMCell(1, hidden), return_sequence=False), head=sn.nn.Linear(hidden, CLASSES)
    )
    params, state = model.init(sn.random.key(0))
    optimizer = sn.optim.chain(sn.optim.clip_by_norm(1.0), sn.optim.adam(5e-3))
    ts = sn.train.TrainState.create(model, params, state, optimizer)
    loader = sn.train.DataLoader(waves(2000, length), 64, key=0, drop_last=True)
    _, ts = sn.train.fit(ts, loader, objective, steps=steps)
    return sn.train.evaluate(ts, [waves(500, length, seed=1)], objective)["accuracy"]


def main() -> None:
    """Learn the shapes, and say how well."""
    sys.stdout.write(f"accuracy on new waves: {learn():.2%}\n")


if __name__ == "__main__":
    main()
