"""MNIST and the data sets that copy its files (Fashion-MNIST, KMNIST): four idx files, or one .npz.

Source: LeCun, Cortes and Burges, "The MNIST database of handwritten digits".
"""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from snell.errors import FileFormatError, ModelNotFoundError
from snell.train.data.idx import load_idx

__all__ = ["LabelledImages", "load_mnist"]

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
_PARTS = (("train-images", 3), ("train-labels", 1), ("t10k-images", 3), ("t10k-labels", 1))
_NPZ_NAMES = ("x_train", "y_train", "x_test", "y_test")


@dataclass(frozen=True, slots=True, eq=False)
class LabelledImages:
    """Images u8 (n, channels, height, width) and labels u8 (n,), for training and for testing."""

    train_images: Bytes
    train_labels: Bytes
    test_images: Bytes
    test_labels: Bytes


def load_mnist(path: str | os.PathLike[str]) -> LabelledImages:
    """From a folder with `train-images-idx3-ubyte` and its three companions (plain or .gz), or from an .npz.

    Images are (n, 1, 28, 28).  Raises ModelNotFoundError naming the file that is missing, FileFormatError where images and
    labels do not belong together.
    """
    place = Path(path)
    arrays = _from_npz(place) if place.suffix == ".npz" else [_from_folder(place, *part) for part in _PARTS]
    for images, labels, name in ((arrays[0], arrays[1], "train"), (arrays[2], arrays[3], "test")):
        if images.ndim != 3 or labels.shape != images.shape[:1] or images.dtype != np.uint8:
            raise FileFormatError(
                f"{place}: expected u8 images (n, height, width) with n labels for {name}, "
                f"received {images.dtype}{images.shape} and {labels.shape}"
            )
    return LabelledImages(
        arrays[0][:, None], arrays[1].astype(np.uint8), arrays[2][:, None], arrays[3].astype(np.uint8)
    )


def _from_folder(folder: Path, stem: str, rank: int) -> np.ndarray[Any, Any]:
    # Both `-` and `.` before `idx` are in use.
    names = [f"{stem}{separator}idx{rank}-ubyte{end}" for separator in "-." for end in ("", ".gz")]
    for name in names:
        if (folder / name).is_file():
            return load_idx(folder / name)
    raise ModelNotFoundError(f"{folder}: expected one of {', '.join(names)}, found none; put MNIST's idx files there")


def _from_npz(file: Path) -> list[np.ndarray[Any, Any]]:
    if not file.is_file():
        raise ModelNotFoundError(f"{file}: expected an .npz file, found no file at this path")
    try:
        with np.load(file, allow_pickle=False) as archive:
            missing = [name for name in _NPZ_NAMES if name not in archive]
            if missing:
                raise FileFormatError(f"{file}: expected arrays {', '.join(_NPZ_NAMES)}; missing {', '.join(missing)}")
            return [archive[name] for name in _NPZ_NAMES]
    except (zipfile.BadZipFile, ValueError, EOFError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{file}: is no whole .npz file: {error}; fetch it again") from error
