"""Safetensors files: what is written is read back, and a damaged file is an error that names the place."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import load_file, save_file

from snell import dtypes
from snell.errors import DTypeError, FileFormatError, ModelNotFoundError
from snell.importers.safetensors import load_safetensors, save_safetensors

KINDS = ["?", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8"]


@given(st.dictionaries(st.text("ab.é", max_size=4), hnp.arrays(st.sampled_from(KINDS), hnp.array_shapes(max_dims=3))))
def test_arrays_of_any_dtype_and_shape_are_read_back(
    tmp_path_factory: pytest.TempPathFactory, arrays: dict[str, np.ndarray]
) -> None:
    path = tmp_path_factory.mktemp("st") / "a.safetensors"
    save_safetensors(path, arrays)
    loaded = load_safetensors(path)
    assert loaded.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(loaded[name], array)
        assert (loaded[name].dtype, loaded[name].shape) == (array.dtype, array.shape)


def test_bfloat16_is_read_back(tmp_path: Path) -> None:
    array = np.array([1.5, -2.0], dtypes.bf16.numpy)
    save_safetensors(tmp_path / "a", {"x": array})
    assert load_safetensors(tmp_path / "a")["x"].tolist() == [1.5, -2.0]


@pytest.mark.parametrize("array", [np.arange(6.0).reshape(2, 3).T, np.arange(4, dtype=">i4"), np.array(3.0)])
def test_views_big_endian_arrays_and_scalars_are_written_by_value(tmp_path: Path, array: np.ndarray) -> None:
    save_safetensors(tmp_path / "a", {"x": array})
    np.testing.assert_array_equal(load_safetensors(tmp_path / "a")["x"], array)


def test_the_safetensors_package_reads_what_was_written_and_the_reverse(tmp_path: Path) -> None:
    arrays = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "n": np.array([], np.int64)}
    save_safetensors(tmp_path / "ours", arrays, {"step": "3"})
    save_file(arrays, tmp_path / "theirs")
    for loaded in (load_file(tmp_path / "ours"), load_safetensors(tmp_path / "theirs")):
        np.testing.assert_array_equal(loaded["w"], arrays["w"])
        assert loaded["n"].shape == (0,)


def test_the_prefix_of_a_compiled_torch_module_is_taken_out_of_names(tmp_path: Path) -> None:
    save_safetensors(tmp_path / "a", {"_orig_mod.w": np.ones(1), "block._orig_mod.b": np.ones(1)})
    assert set(load_safetensors(tmp_path / "a")) == {"w", "block.b"}


def test_names_that_are_equal_without_the_prefix_are_refused(tmp_path: Path) -> None:
    save_safetensors(tmp_path / "a", {"_orig_mod.w": np.ones(1), "w": np.ones(1)})
    with pytest.raises(FileFormatError, match="'w'"):
        load_safetensors(tmp_path / "a")


def test_arrays_are_windows_over_the_file_and_read_only(tmp_path: Path) -> None:
    save_safetensors(tmp_path / "a", {"w": np.ones(3, np.float32)})
    array = load_safetensors(tmp_path / "a")["w"]
    assert not array.flags.owndata
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 2


def test_a_failed_write_leaves_the_older_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_safetensors(tmp_path / "a", {"w": np.ones(1)})

    def refuse(source: str, target: str) -> None:
        raise OSError("no space")

    monkeypatch.setattr("os.replace", refuse)
    with pytest.raises(OSError, match="no space"):
        save_safetensors(tmp_path / "a", {"w": np.zeros(1)})
    assert load_safetensors(tmp_path / "a")["w"].tolist() == [1]
    assert [file.name for file in tmp_path.iterdir()] == ["a"]


def test_a_dtype_that_the_format_lacks_is_named(tmp_path: Path) -> None:
    with pytest.raises(DTypeError, match=r"'w'.*complex"):
        save_safetensors(tmp_path / "a", {"w": np.ones(1, np.complex128)})


def entry(**changes: object) -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(8)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"", "empty file"),
        (b"1234", "header length"),
        (struct.pack("<Q", 2**60), "header"),
        (struct.pack("<Q", 2) + b"{x", "JSON"),
        (struct.pack("<Q", 2) + b"[]", "JSON object"),
        (entry(dtype="F99"), "'w'.*F99"),
        (entry(shape=[3]), "'w'.*8 bytes"),
        (entry(shape=[-2]), "'w'"),
        (entry(data_offsets=[0]), "'w'"),
        (entry(data_offsets=[8, 0]), "'w'"),
        (entry(shape="2"), "'w'"),
        (entry()[:-1], "'w'.*cut short"),
    ],
)
def test_a_damaged_file_is_an_error_that_names_the_place_and_the_size(
    tmp_path: Path, content: bytes, named: str
) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(FileFormatError, match=named) as caught:
        load_safetensors(tmp_path / "a")
    assert f"{len(content)} bytes" in str(caught.value)


def test_a_path_without_a_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match="nothing"):
        load_safetensors(tmp_path / "nothing")
