"""MNIST and CIFAR are read from the files that they come in, and damaged files are named."""

from __future__ import annotations

import gzip
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from snell.errors import DTypeError, FileFormatError, ModelNotFoundError
from snell.train.data import load_array_pickle, load_cifar10, load_cifar100, load_idx, load_mnist, save_idx

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", ["u1", "i1", "i2", "i4", "f4", "f8"])
def test_an_idx_file_holds_what_was_saved(dtype: str, tmp_path: Path) -> None:
    array = RANDOM.integers(0, 100, (3, 4, 5)).astype(dtype)
    save_idx(tmp_path / "a", array)
    found = load_idx(tmp_path / "a")
    np.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype


def test_the_header_of_an_idx_file_is_the_published_one(tmp_path: Path) -> None:
    save_idx(tmp_path / "labels", np.asarray([5, 0, 4], np.uint8))
    assert (tmp_path / "labels").read_bytes().hex() == "00000801" + "00000003" + "050004"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "begins with 0 0"),
        (b"\0\0\x08\x03\0\0", "3 extents"),
        (b"\0\0\x07\x01\0\0\0\x01\0", "begins with 0 0"),
        (b"\0\0\x08\x01\0\0\0\x05ab", "expected 13 bytes"),
        (b"\x1f\x8b\x08\0broken", "damaged"),
    ],
)
def test_a_damaged_idx_file_is_named(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(FileFormatError, match=said):
        load_idx(tmp_path / "x")


def test_idx_files_hold_no_other_types(tmp_path: Path) -> None:
    with pytest.raises(DTypeError, match="uint64"):
        save_idx(tmp_path / "x", np.zeros(3, np.uint64))


def write_mnist(folder: Path, zipped: bool) -> dict[str, np.ndarray]:
    arrays = {
        "train-images-idx3-ubyte": RANDOM.integers(0, 256, (7, 28, 28)).astype(np.uint8),
        "train-labels-idx1-ubyte": RANDOM.integers(0, 10, 7).astype(np.uint8),
        "t10k-images-idx3-ubyte": RANDOM.integers(0, 256, (3, 28, 28)).astype(np.uint8),
        "t10k-labels-idx1-ubyte": RANDOM.integers(0, 10, 3).astype(np.uint8),
    }
    for name, array in arrays.items():
        save_idx(folder / name, array)
        if zipped:
            (folder / f"{name}.gz").write_bytes(gzip.compress((folder / name).read_bytes()))
            (folder / name).unlink()
    return arrays


@pytest.mark.parametrize("zipped", [False, True])
def test_mnist_is_read_from_its_four_files(zipped: bool, tmp_path: Path) -> None:
    arrays = write_mnist(tmp_path, zipped)
    found = load_mnist(tmp_path)
    assert found.train_images.shape == (7, 1, 28, 28)
    np.testing.assert_array_equal(found.train_images[:, 0], arrays["train-images-idx3-ubyte"])
    np.testing.assert_array_equal(found.test_labels, arrays["t10k-labels-idx1-ubyte"])


def test_mnist_is_read_from_an_npz(tmp_path: Path) -> None:
    images, labels = RANDOM.integers(0, 256, (4, 28, 28)).astype(np.uint8), np.arange(4, dtype=np.uint8)
    np.savez(tmp_path / "mnist.npz", x_train=images, y_train=labels, x_test=images[:2], y_test=labels[:2])
    found = load_mnist(tmp_path / "mnist.npz")
    assert found.test_images.shape == (2, 1, 28, 28)
    assert found.train_labels.tolist() == [0, 1, 2, 3]
    (tmp_path / "mnist.npz").write_bytes(b"PK\x03\x04 cut short")
    with pytest.raises(FileFormatError, match="fetch it again"):
        load_mnist(tmp_path / "mnist.npz")


def test_a_missing_file_of_mnist_is_named(tmp_path: Path) -> None:
    write_mnist(tmp_path, zipped=False)
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(ModelNotFoundError, match="t10k-labels-idx1-ubyte"):
        load_mnist(tmp_path)


def test_images_and_labels_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    write_mnist(tmp_path, zipped=False)
    save_idx(tmp_path / "train-labels-idx1-ubyte", np.zeros(6, np.uint8))
    with pytest.raises(FileFormatError, match=r"7 labels|n labels"):
        load_mnist(tmp_path)


def cifar_rows(count: int, label_bytes: int) -> np.ndarray:
    rows = RANDOM.integers(0, 256, (count, label_bytes + 3072)).astype(np.uint8)
    rows[:, :label_bytes] %= 10
    return rows


def test_cifar_10_is_read_from_binary_files(tmp_path: Path) -> None:
    parts = [cifar_rows(2, 1) for _ in range(6)]
    for name, rows in zip([*(f"data_batch_{k}.bin" for k in range(1, 6)), "test_batch.bin"], parts, strict=True):
        (tmp_path / name).write_bytes(rows.tobytes())
    found = load_cifar10(tmp_path)
    assert found.train_images.shape == (10, 3, 32, 32)
    np.testing.assert_array_equal(found.train_images[2, 1, 0], parts[1][0, 1 + 1024 : 1 + 1024 + 32])
    np.testing.assert_array_equal(found.test_labels, parts[5][:, 0])
    (tmp_path / "test_batch.bin").write_bytes(b"short")
    with pytest.raises(FileFormatError, match="rows of 3073 bytes, found 5"):
        load_cifar10(tmp_path)


def test_cifar_100_has_the_fine_labels(tmp_path: Path) -> None:
    rows = cifar_rows(3, 2)
    for name in ("train.bin", "test.bin"):
        (tmp_path / name).write_bytes(rows.tobytes())
    np.testing.assert_array_equal(load_cifar100(tmp_path).test_labels, rows[:, 1])


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_cifar_10_is_read_from_pickles_of_any_protocol(protocol: int, tmp_path: Path) -> None:
    images = RANDOM.integers(0, 256, (2, 3072)).astype(np.uint8)
    batch = {b"data": images, b"labels": [3, 4], b"batch_label": b"one of six", b"filenames": [b"a.png", b"b.png"]}
    for name in (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"):
        (tmp_path / name).write_bytes(pickle.dumps(batch, protocol))
    found = load_cifar10(tmp_path)
    np.testing.assert_array_equal(found.test_images, images.reshape(-1, 3, 32, 32))
    assert found.train_labels.tolist() == [3, 4] * 5


@pytest.mark.parametrize("dtype", ["u1", "<i4", ">i4", "<f8", ">f4", "?"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_arrays_of_numbers_come_out_of_a_pickle_as_they_went_in(dtype: str, order: str, protocol: int) -> None:
    array = np.asarray(RANDOM.integers(0, 2, (3, 5)), dtype, order=order)
    found = load_array_pickle(pickle.dumps([array, {"x": (array, 1.5, None, "text")}], protocol))
    np.testing.assert_array_equal(found[0], array)
    np.testing.assert_array_equal(found[1]["x"][0], array)
    assert found[1]["x"][1:] == (1.5, None, "text")
    assert found[0].dtype == array.dtype.newbyteorder("=")


class Calls:
    """Pickles as a call of a function."""

    def __init__(self, function: object, *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return self.call


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(Calls(os.mkdir, "made_by_a_pickle"), id="a call"),
        pytest.param({"x": [Calls(eval, "1 + 1")]}, id="a call inside"),
        pytest.param(np.asarray([{}], object), id="an array of objects"),
        pytest.param(np.dtype("f4"), id="a dtype"),
        pytest.param(np.ndarray, id="a class"),
        pytest.param({1, 2}, id="a set"),
        pytest.param(np.asarray(["text"]), id="an array of texts"),
    ],
)
@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_a_pickle_of_anything_else_is_refused_and_not_run(
    value: object, protocol: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileFormatError, match="pickle of arrays"):
        load_array_pickle(pickle.dumps(value, protocol))
    assert not list(tmp_path.iterdir())


def test_a_damaged_pickle_is_refused_wherever_it_is_cut_or_changed() -> None:
    data = pickle.dumps({b"data": np.arange(6, dtype=np.uint8), b"labels": [1, 2]}, 2)
    for length in range(len(data)):
        with pytest.raises(FileFormatError):
            load_array_pickle(data[:length])
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 0x15
        try:
            load_array_pickle(bytes(changed))
        except FileFormatError:
            continue


def test_an_array_that_claims_more_elements_than_it_has_is_refused() -> None:
    content = pickle.dumps(np.arange(4, dtype=np.uint8), 2)
    lied = content.replace(b"K\x04\x85", b"K\x7f\x85")
    assert lied != content
    with pytest.raises(FileFormatError, match="4 bytes"):
        load_array_pickle(lied)
