"""A transformer learns to write like a text, one character after another (Radford et al., 2019, for its shape).

Run with `python examples/char_gpt.py TEXT`, where TEXT is a file such as tinyshakespeare.txt.  With the sizes that are set here
it has 1.2 million parameters.  `--folder` keeps a checkpoint after every evaluation, and goes on from the last one.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import snell as sn

EVALUATED_WINDOWS = 64


@dataclass(frozen=True)
class Sizes:
    """The shape of the network and of its training."""

    layers: int = 6
    width: int = 128
    heads: int = 4
    context: int = 128
    batch: int = 32
    rate: float = 2e-3
    steps: int = 2000


def model_of(vocabulary: int, sizes: Sizes) -> sn.nn.Chain:
    """Tokens (n, context) → logits (n, context, vocabulary); norms stand before what they norm."""
    width = sizes.width
    attention = sn.nn.Chain(
        norm=sn.nn.LayerNorm(width), attention=sn.nn.MultiHeadAttention(width, sizes.heads, causal=True)
    )
    feed_forward = sn.nn.Chain(
        norm=sn.nn.LayerNorm(width), up=sn.nn.Linear(width, 4 * width, sn.gelu), down=sn.nn.Linear(4 * width, width)
    )
    block = sn.nn.Chain(attention=sn.nn.SkipConnection(attention), feed_forward=sn.nn.SkipConnection(feed_forward))
    return sn.nn.Chain(
        embedding=sn.nn.Embedding(vocabulary, width),
        positions=sn.nn.LearnedPositions(sizes.context, width),
        **{f"block{number}": block for number in range(sizes.layers)},
        norm=sn.nn.LayerNorm(width),
        head=sn.nn.Linear(width, vocabulary, bias=False),
    )


def prepared(text: str, sizes: Sizes) -> tuple[Any, sn.train.DataLoader, list[Any]]:
    """The vocabulary, a loader of random windows of the first nine tenths, and batches of the rest to evaluate."""
    vocabulary = sn.train.data.CharacterVocabulary.of(text)
    tokens = vocabulary.encode(text)
    split = len(tokens) * 9 // 10
    windows = sn.train.data.TextWindows(tokens[:split], sizes.context, stride=1)
    held_out = sn.train.data.TextWindows(tokens[split:], sizes.context)
    chosen = np.linspace(0, held_out.count - 1, min(EVALUATED_WINDOWS, held_out.count)).astype(np.int64)
    tests = list(sn.train.DataLoader(held_out.gather(chosen), sizes.batch))
    return vocabulary, sn.train.DataLoader(windows, sizes.batch, key=0, drop_last=True), tests


def train(text: str, sizes: Sizes, folder: Path | None = None, every: int = 250) -> tuple[list[float], Any, Any]:
    """Train; gives the losses on the held-out part, the state and the vocabulary."""
    vocabulary, loader, tests = prepared(text, sizes)
    model = model_of(vocabulary.size, sizes)
    params, state = model.init(sn.random.key(0))
    lr_schedule = sn.optim.lr_schedule
    rate = lr_schedule.warm_up(sizes.steps // 20, lr_schedule.cosine(sizes.rate, steps=sizes.steps))
    optimizer = sn.optim.chain(
        sn.optim.clip_by_norm(1.0), sn.optim.adamw(rate, weight_decay=0.1, decay_mask=["*.weight"])
    )
    ts = sn.train.TrainState.create(model, params, state, optimizer)
    checkpoints = None if folder is None else sn.train.Checkpoints(folder, keep=2)
    if checkpoints is not None and checkpoints.steps():
        restored = checkpoints.restore(ts)
        ts = restored.ts
        loader.seek(restored.data)
    losses: list[float] = []
    while int(ts.step) < sizes.steps:
        _, ts = sn.train.fit(
            ts, loader, sn.losses.cross_entropy, steps=min(every, sizes.steps - int(ts.step)), epochs=1
        )
        losses.append(sn.train.evaluate(ts, tests, sn.losses.cross_entropy)["loss"])
        sys.stdout.write(f"step {int(ts.step)}: {losses[-1]:.4f} nats a character on the held-out text\n")
        if checkpoints is not None:
            checkpoints.save(ts, loader.position)
    return losses, ts, vocabulary


def write(ts: Any, vocabulary: Any, sizes: Sizes, start: str, length: int, seed: int = 0) -> str:
    """Go on from `start`, drawing each character from the model's distribution."""
    tokens = vocabulary.encode(start).tolist()
    random = np.random.default_rng(seed)
    for _ in range(length):
        # One shape for every length, so that one program serves: what is behind the last token is not looked at.
        window = np.zeros((1, sizes.context), np.int32)
        seen = tokens[-sizes.context :]
        window[0, : len(seen)] = seen
        logits = np.asarray(sn.train.predict(ts, window))[0, len(seen) - 1].astype(np.float64)
        weights = np.exp(logits - logits.max())
        tokens.append(int(random.choice(vocabulary.size, p=weights / weights.sum())))
    return vocabulary.decode(tokens)


def main() -> None:
    """Read the arguments, train, and write a little."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", type=Path, help="a text file")
    parser.add_argument("--steps", type=int, default=Sizes.steps)
    parser.add_argument("--folder", type=Path, help="where checkpoints are kept")
    options = parser.parse_args()
    sizes = Sizes(steps=options.steps)
    _, ts, vocabulary = train(options.text.read_text(encoding="utf-8"), sizes, options.folder)
    sys.stdout.write(write(ts, vocabulary, sizes, "\n", 500) + "\n")


if __name__ == "__main__":
    main()
