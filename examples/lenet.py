"""A small convolutional network, after LeNet-5 (LeCun et al., 1998), learns MNIST: 99 % of the test images.

Run with `python examples/lenet.py FOLDER`, a folder with MNIST's idx files (or an .npz with x_train, y_train, x_test, y_test).
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import snell as sn


def lenet() -> sn.nn.Chain:
    """Images (n, 1, 28, 28) → logits (n, 10)."""
    return sn.nn.Chain(
        sn.nn.Conv2d(1, 16, 5, sn.relu, padding="same"),
        sn.nn.MaxPool2d(2),
        sn.nn.Conv2d(16, 32, 5, sn.relu, padding="same"),
        sn.nn.MaxPool2d(2),
        sn.nn.Flatten(),
        sn.nn.Linear(32 * 7 * 7, 120, sn.relu),
        sn.nn.Linear(120, 84, sn.relu),
        head=sn.nn.Linear(84, 10),
    )


def objective(model: Any, params: Any, state: Any, batch: Any, *, train: bool) -> Any:
    """Cross-entropy, and the share of images that are recognised."""
    images, labels = batch
    logits, state = model(images.astype("f32") / 255.0, params, state, train=train)
    accuracy = (logits.argmax(-1) == labels).astype("f32").mean()
    return sn.losses.cross_entropy(logits, labels), state, {"accuracy": accuracy}


def train(path: Path, epochs: int = 5, batch_size: int = 128) -> float:
    """Train on the data at `path`; gives the accuracy on its test images."""
    data = sn.train.data.load_mnist(path)
    model = lenet()
    params, state = model.init(sn.random.key(0))
    batches = sn.train.DataLoader((data.train_images, data.train_labels), batch_size, key=0)
    tests = sn.train.DataLoader((data.test_images, data.test_labels), 1000)
    rate = sn.optim.lr_schedule.cosine(2e-3, steps=epochs * len(batches))
    ts = sn.train.TrainState.create(model, params, state, sn.optim.adam(rate))
    _, ts = sn.train.fit(ts, batches, objective, epochs=epochs)
    return sn.train.evaluate(ts, tests, objective)["accuracy"]


def main() -> None:
    """Read the arguments, train, and say how well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder with MNIST's idx files, or an .npz")
    parser.add_argument("--epochs", type=int, default=5)
    options = parser.parse_args()
    sys.stdout.write(f"accuracy on the test images: {train(options.data, options.epochs):.2%}\n")


if __name__ == "__main__":
    main()
