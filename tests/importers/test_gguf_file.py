"""Reading the header of a GGUF file: what a good file holds, and what is said about a bad one."""

import struct
import time
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.importers.gguf_bytes import GGUFBytes, TensorEntry, array_key, scalar_key, text, text_key, texts_key
from tests.models import smollm2_path

from snell.errors import FileFormatError, ModelNotFoundError, SnellError, UnsupportedError
from snell.importers.gguf import GGUFFile, Quantisation, StringArray, read_gguf

F32 = Quantisation.F32.type_id


def read(tmp_path: Path, content: bytes | GGUFBytes) -> GGUFFile:
    path = tmp_path / "model.gguf"
    path.write_bytes(content if isinstance(content, bytes) else content.build())
    return read_gguf(path)


def good_file() -> GGUFBytes:
    return GGUFBytes(
        keys=[scalar_key("a.count", "u32", 7), text_key("a.name", "é"), texts_key("a.words", ["x", "yy"])],
        tensors=[TensorEntry("w", (2, 3), F32, np.arange(6, dtype="<f4").tobytes())],
    )


@pytest.mark.parametrize(
    ("kind", "value"),
    [("u8", 255), ("i8", -1), ("u16", 65535), ("i16", -2), ("u32", 2**32 - 1), ("i32", -3), ("f32", 0.5),
     ("bool", 1), ("u64", 2**64 - 1), ("i64", -4), ("f64", 0.1)],
)  # fmt: skip
def test_a_scalar_of_each_type_is_read(tmp_path: Path, kind: str, value: float) -> None:
    assert read(tmp_path, GGUFBytes(keys=[scalar_key("k", kind, value)])).metadata["k"] == value


@pytest.mark.parametrize("kind", ["u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "u64", "i64", "f64"])
def test_an_array_of_each_scalar_type_is_read(tmp_path: Path, kind: str) -> None:
    value = read(tmp_path, GGUFBytes(keys=[text_key("odd", "x"), array_key("k", kind, [1, 0, 1])])).metadata["k"]
    assert isinstance(value, np.ndarray)
    assert value.tolist() == [1, 0, 1]


def test_the_shape_of_a_tensor_is_in_numpy_order(tmp_path: Path) -> None:
    info = read(tmp_path, good_file()).tensors["w"]
    assert (info.shape, info.rows, info.columns, info.nbytes) == ((2, 3), 2, 3, 24)


def test_the_offset_of_a_tensor_counts_from_the_start_of_the_file(tmp_path: Path) -> None:
    file = read(tmp_path, good_file())
    info = file.tensors["w"]
    assert file.data[info.offset : info.offset + info.nbytes].view("<f4").tolist() == [0, 1, 2, 3, 4, 5]


def test_a_version_2_file_is_read_like_a_version_3_file(tmp_path: Path) -> None:
    content = good_file()
    content.version = 2
    assert read(tmp_path, content).metadata["a.name"] == "é"


def test_the_bytes_are_mapped_and_read_only(tmp_path: Path) -> None:
    data = read(tmp_path, good_file()).data
    with pytest.raises(ValueError, match="read-only"):
        data[0] = 1


@given(st.lists(st.one_of(st.text(max_size=5), st.text(alphabet="aé\0", max_size=600)), max_size=60))
def test_an_array_of_any_strings_is_read_back(tmp_path_factory: pytest.TempPathFactory, words: list[str]) -> None:
    value = read(tmp_path_factory.mktemp("gguf"), GGUFBytes(keys=[texts_key("k", words)])).metadata["k"]
    assert isinstance(value, StringArray)
    assert (value.to_list(), value[:], len(value)) == (words, words, len(words))


def test_many_strings_beyond_one_search_window_are_read_back(tmp_path: Path) -> None:
    words = [f"w{index}" * (1 + 40 * (index % 97 == 0)) for index in range(30_000)]
    value = read(tmp_path, GGUFBytes(keys=[texts_key("k", words)])).metadata["k"]
    assert list(value) == words  # type: ignore[arg-type]


def test_a_string_array_of_nothing_but_empty_strings_is_read_in_linear_time(tmp_path: Path) -> None:
    value = read(tmp_path, GGUFBytes(keys=[texts_key("k", [""] * 20_000)])).metadata["k"]
    assert list(value) == [""] * 20_000  # type: ignore[arg-type]


def damaged_files() -> dict[str, tuple[bytes, str]]:
    """Name -> the file and what its error has to name."""
    good = good_file().build()
    header = GGUFBytes().build()[:24]
    huge = struct.pack("<Q", 2**63)

    def with_tensor(*entry: object, **parts: object) -> bytes:
        return GGUFBytes(tensors=[TensorEntry(*entry, **parts)]).build()  # type: ignore[arg-type]

    def with_key(key: bytes) -> bytes:
        return GGUFBytes(keys=[key]).build()

    return {
        "an empty file": (b"", "empty file"),
        "bad magic": (b"GGML" + good[4:], "magic"),
        "a file of 37 bytes": (with_key(text_key("general.architecture", "llama"))[:37], "metadata key 0 of 1"),
        "a header cut short": (good[:12], "number of tensors"),
        "an empty key": (with_key(scalar_key("", "u8", 1)), "metadata key 0 of 1"),
        "a key that is not UTF-8": (with_key(scalar_key(b"\xff\xfe", "u8", 1)), "UTF-8"),
        "a key that appears twice": (GGUFBytes(keys=[scalar_key("k", "u8", 1)] * 2).build(), "'k'"),
        "an unknown value type": (with_key(text("k") + struct.pack("<IQ", 99, 0)), "'k'.*value type 99"),
        "an unknown array type": (with_key(text("k") + struct.pack("<IIQ", 9, 99, 0)), "'k'.*array type 99"),
        "an array of arrays": (with_key(text("k") + struct.pack("<IIQ", 9, 9, 0)), "'k'.*array type 9"),
        "an array longer than the file": (with_key(text("k") + struct.pack("<II", 9, 12) + huge), "'k'"),
        "more strings than fit": (with_key(text("k") + struct.pack("<II", 9, 8) + huge), "'k'"),
        "a string longer than the file": (with_key(text("k") + struct.pack("<I", 8) + huge), "'k'"),
        "a string of an array beyond the file": (with_key(text("k") + struct.pack("<IIQ", 9, 8, 1) + huge), "'k'"),
        "a boolean of 2": (with_key(text("k") + struct.pack("<IB", 7, 2)), "'k'"),
        "a boolean of 2 in an array": (
            with_key(array_key("k", "u8", [2]).replace(b"\0\0\0\0\1", b"\7\0\0\0\1")),
            "'k'",
        ),
        "more tensors than fit": (header[:8] + huge + header[16:], "number of tensors"),
        "more keys than fit": (header[:16] + huge, "number of metadata keys"),
        "an empty tensor name": (with_tensor("", (1,), F32, b"\0" * 4), "tensor 0 of 1"),
        "a tensor name that is not UTF-8": (with_tensor(b"\xff", (1,), F32, b"\0" * 4), "tensor 0 of 1.*UTF-8"),
        "a tensor that appears twice": (GGUFBytes(tensors=[TensorEntry("w", (1,), F32, b"\0" * 4)] * 2).build(), "'w'"),
        "a dimension of 0": (with_tensor("w", (2, 0), F32, b""), "'w'.*dimension of 0"),
        "five dimensions": (with_tensor("w", (1,) * 5, F32, b"\0" * 4), "'w'.*5 dimensions"),
        "an unknown tensor type": (with_tensor("w", (1,), 200, b"\0" * 4), "'w'.*type 200"),
        "a row that is no whole number of blocks": (with_tensor("w", (33,), 2, b"\0" * 36), "'w'.*32"),
        "an extent that overflows": (with_tensor("w", (2**62, 2**62), F32, b"\0" * 4), "'w'.*cut short"),
        "data cut short": (good[:-12], "'w'.*cut short"),
        "an offset behind the file": (with_tensor("w", (1,), F32, b"\0" * 4, offset=2**40), "'w'.*cut short"),
        "an offset off the alignment": (with_tensor("w", (1,), F32, b"\0" * 64, offset=4), "'w'.*alignment 32"),
        "an alignment of 0": (with_key(scalar_key("general.alignment", "u32", 0)), "'general.alignment'"),
        "an alignment of 24": (with_key(scalar_key("general.alignment", "u32", 24)), "'general.alignment'"),
        "an alignment that is text": (with_key(text_key("general.alignment", "32")), "'general.alignment'"),
    }


@pytest.mark.parametrize("name", damaged_files())
def test_a_damaged_file_is_an_error_that_names_the_place_and_the_size(tmp_path: Path, name: str) -> None:
    content, named = damaged_files()[name]
    with pytest.raises(FileFormatError, match=named) as caught:
        read(tmp_path, content)
    assert f"{len(content)} bytes" in str(caught.value)
    assert name == "an empty file" or "offset" in str(caught.value)


@given(st.data())
def test_a_file_cut_or_changed_anywhere_never_fails_with_another_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bytearray(good_file().build())
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=3)):
        content[place] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.integers(0, len(content)))]
    try:
        file = read(tmp_path_factory.mktemp("gguf"), bytes(content))
    except SnellError as error:
        assert str(error)  # noqa: PT017
    else:
        assert all(info.offset + info.nbytes <= file.data.size for info in file.tensors.values())


def test_a_string_that_is_not_utf8_is_an_error_when_it_is_read(tmp_path: Path) -> None:
    value = read(tmp_path, GGUFBytes(keys=[texts_key("k", [b"ok", b"\xff"])])).metadata["k"]
    assert isinstance(value, StringArray)
    assert value[0] == "ok"
    with pytest.raises(FileFormatError, match="string 1 of key 'k'"):
        value.to_list()


@pytest.mark.parametrize("version", [1, 4, 3 << 24])
def test_another_version_or_byte_order_is_unsupported(tmp_path: Path, version: int) -> None:
    with pytest.raises(UnsupportedError, match=r"version|big-endian"):
        read(tmp_path, GGUFBytes(version=version))


def test_a_path_without_a_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match=r"nothing\.gguf"):
        read_gguf(tmp_path / "nothing.gguf")


def test_the_header_of_smollm2_equals_what_the_gguf_package_reads() -> None:
    path = smollm2_path()
    file, judge = read_gguf(path), gguf.GGUFReader(path)
    assert {name: value for name, value in file.metadata.items() if isinstance(value, int | float | str)} == {
        name: field.contents()
        for name, field in judge.fields.items()
        if not name.startswith("GGUF.") and field.types[0] != gguf.GGUFValueType.ARRAY
    }
    merges = file.metadata["tokenizer.ggml.merges"]
    assert isinstance(merges, StringArray)
    assert merges[1000] == judge.fields["tokenizer.ggml.merges"].contents(1000)
    assert {name: (info.quantisation.type_id, info.shape, info.offset) for name, info in file.tensors.items()} == {
        tensor.name: (int(tensor.tensor_type), tuple(tensor.shape.tolist()[::-1]), int(tensor.data_offset))
        for tensor in judge.tensors
    }


def test_reading_the_header_of_smollm2_takes_no_step_for_each_string() -> None:
    # 8 ms on two cores of a Xeon; the gguf package takes 2 s. The bound leaves room for a busy machine.
    path = smollm2_path()
    times = []
    for _ in range(5):
        start = time.perf_counter()
        read_gguf(path)
        times.append(time.perf_counter() - start)
    assert min(times) < 0.1
