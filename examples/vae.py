"""A variational auto-encoder learns to draw digits (Kingma and Welling, 2014).

Run with `python examples/vae.py FOLDER`, a folder with MNIST's idx files (or an .npz).  The objective draws random numbers
from a key that the step gives it, so a resumed training draws the same ones.
"""

import argparse
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

import snell as sn


def objective(model: Any, params: Any, state: Any, images: Any, *, key: Any, train: bool) -> Any:
    """The negative evidence lower bound of an image, in nats."""
    x = images.reshape(images.shape[0], -1).astype("f32") / 255.0
    code, state = sn.nn.call_child(model.children(), "encoder", x, params, state, train=train)
    mean, log_variance = sn.chunk(code, 2, axis=-1)
    z = mean + sn.exp(log_variance * 0.5) * sn.random.normal(key, mean.shape)
    logits, state = sn.nn.call_child(model.children(), "decoder", z, params, state, train=train)
    drawn = sn.losses.binary_cross_entropy_with_logits(logits, x, reduction="none").sum(-1).mean()
    divergence = (sn.square(mean) + sn.exp(log_variance) - 1.0 - log_variance).sum(-1).mean() * 0.5
    return drawn + divergence, state, {"drawn": drawn, "divergence": divergence}


def model_of(pixels: int, hidden: int, latent: int) -> sn.nn.Chain:
    """Pixels → mean and logarithm of the variance of the code; code → logits of the pixels."""
    encoder = sn.nn.Chain(sn.nn.Linear(pixels, hidden, sn.relu), sn.nn.Linear(hidden, 2 * latent))
    decoder = sn.nn.Chain(sn.nn.Linear(latent, hidden, sn.relu), sn.nn.Linear(hidden, pixels))
    return sn.nn.Chain(encoder=encoder, decoder=decoder)


def train(path: Path, epochs: int = 10, hidden: int = 400, latent: int = 20, batch_size: int = 128) -> float:
    """Train on the data at `path`; gives the bound on its test images, in nats an image (about 105 after 10 epochs)."""
    data = sn.train.data.load_mnist(path)
    model = model_of(data.train_images[0].size, hidden, latent)
    params, state = model.init(sn.random.key(0))
    ts = sn.train.TrainState.create(model, params, state, sn.optim.adam(1e-3), key=sn.random.key(1))
    loader = sn.train.DataLoader(data.train_images, batch_size, key=0)
    _, ts = sn.train.fit(ts, loader, objective, epochs=epochs)
    bound = sn.train.evaluate(ts, sn.train.DataLoader(data.test_images, 500), objective)["loss"]
    _write_samples(model, ts.params, latent)
    return bound


def _write_samples(model: Any, params: Any, latent: int) -> None:
    """Two digits that were never seen, as characters."""
    codes = np.random.default_rng(0).standard_normal((2, latent)).astype(np.float32)
    decoder = model["decoder"]
    drawn = np.asarray(sn.compile(lambda z, p: sn.sigmoid(decoder(z, p, {})[0]))(codes, params["decoder"]))
    side = math.isqrt(drawn.shape[1])
    for image in drawn.reshape(-1, side, side):
        rows = ("".join(" .:*#"[int(value * 4.99)] for value in row) for row in image)
        sys.stdout.write("\n".join(rows) + "\n")


def main() -> None:
    """Read the arguments, train, and say how well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder with MNIST's idx files, or an .npz")
    parser.add_argument("--epochs", type=int, default=10)
    options = parser.parse_args()
    sys.stdout.write(f"bound on the test images: {train(options.data, options.epochs):.1f} nats\n")


if __name__ == "__main__":
    main()
