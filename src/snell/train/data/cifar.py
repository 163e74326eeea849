"""CIFAR-10 and CIFAR-100: the binary files, or the Python pickles.

Source and formats: Krizhevsky, https://www.cs.toronto.edu/~kriz/cifar.html.  A binary row is one label byte (two in
CIFAR-100: coarse, fine) and 3·32·32 bytes of one image, channel by channel.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from snell.errors import FileFormatError, ModelNotFoundError
from snell.train.data.array_pickle import load_array_pickle
from snell.train.data.mnist import LabelledImages

__all__ = ["load_cifar10", "load_cifar100"]

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
_SHAPE = (3, 32, 32)
_IMAGE_BYTES = 3 * 32 * 32


@dataclass(frozen=True, slots=True)
class _Layout:
    """The files of one data set, in either format."""

    binary_train: tuple[str, ...]
    binary_test: str
    pickle_train: tuple[str, ...]
    pickle_test: str
    label_bytes: int
    labels_key: bytes


_CIFAR10 = _Layout(
    tuple(f"data_batch_{k}.bin" for k in range(1, 6)), "test_batch.bin",
    tuple(f"data_batch_{k}" for k in range(1, 6)), "test_batch", 1, b"labels",
)  # fmt: skip
_CIFAR100 = _Layout(("train.bin",), "test.bin", ("train",), "test", 2, b"fine_labels")


def load_cifar10(folder: str | os.PathLike[str]) -> LabelledImages:
    """Images u8 (n, 3, 32, 32) and labels 0..9, from `data_batch_1.bin` … or the pickles `data_batch_1` ….

    Raises ModelNotFoundError naming a file that is missing, FileFormatError for one that is damaged or a pickle with anything
    else than arrays, dicts, lists and bytes.
    """
    return _load(Path(folder), _CIFAR10)


def load_cifar100(folder: str | os.PathLike[str]) -> LabelledImages:
    """As `load_cifar10`, with the 100 fine labels, from `train.bin` and `test.bin` or the pickles `train` and `test`."""
    return _load(Path(folder), _CIFAR100)


def _load(folder: Path, layout: _Layout) -> LabelledImages:
    if (folder / layout.binary_test).is_file():
        parts = [_binary(folder / name, layout) for name in (*layout.binary_train, layout.binary_test)]
    else:
        parts = [_pickled(folder / name, layout) for name in (*layout.pickle_train, layout.pickle_test)]
    *train, (test_images, test_labels) = parts
    return LabelledImages(
        np.concatenate([images for images, _ in train]),
        np.concatenate([labels for _, labels in train]),
        test_images,
        test_labels,
    )


def _content(file: Path) -> bytes:
    if not file.is_file():
        raise ModelNotFoundError(f"{file}: expected a file of CIFAR, found no file at this path")
    return file.read_bytes()


def _binary(file: Path, layout: _Layout) -> tuple[Bytes, Bytes]:
    data = np.frombuffer(_content(file), np.uint8)
    row = layout.label_bytes + _IMAGE_BYTES
    if not data.size or data.size % row:
        raise FileFormatError(f"{file}: expected rows of {row} bytes, found {data.size} bytes; fetch the file again")
    rows = data.reshape(-1, row)
    images = rows[:, layout.label_bytes :].reshape(-1, *_SHAPE)
    return np.ascontiguousarray(images), rows[:, layout.label_bytes - 1].copy()


def _pickled(file: Path, layout: _Layout) -> tuple[Bytes, Bytes]:
    try:
        value = load_array_pickle(_content(file))
    except FileFormatError as error:
        raise FileFormatError(f"{file}: {error}") from error
    batch = cast("Mapping[Any, Any]", value) if isinstance(value, dict) else {}
    # Python 3 writes the keys as text, Python 2 as bytes.
    images = batch.get(b"data", batch.get("data"))
    labels = batch.get(layout.labels_key, batch.get(layout.labels_key.decode()))
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.shape[1:] != (_IMAGE_BYTES,):
        raise FileFormatError(f"{file}: expected u8 data (n, {_IMAGE_BYTES}) under 'data'")
    if not isinstance(labels, Sequence) or len(cast("Sequence[Any]", labels)) != len(images):
        raise FileFormatError(f"{file}: expected {len(images)} labels under {layout.labels_key.decode()!r}")
    return images.reshape(-1, *_SHAPE), np.asarray(labels, np.uint8)
