"""Files with flipped, cut and added bytes: read, or refused by a typed error; never a crash or a huge allocation."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.importers.test_gguf_file import good_file
from tests.llm.tiny_models import tiny_llama, write_gguf_llama

from snell.errors import SnellError
from snell.importers.gguf import read_gguf
from snell.importers.safetensors import load_safetensors, save_safetensors
from snell.llm import load

FUZZ = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
MOST_BYTES = 32 << 20

# Most damage goes near the start, where a file's lengths, kinds and offsets are.
PLACES = st.one_of(st.integers(0, 300), st.integers(0, 1 << 20))
DAMAGE = st.tuples(
    st.lists(st.tuples(PLACES, st.integers(0, 255)), max_size=6),
    st.one_of(st.none(), PLACES),
    st.binary(max_size=40),
)


def damaged(content: bytes, damage: tuple[list[tuple[int, int]], int | None, bytes]) -> bytes:
    replaced, cut, added = damage
    data = bytearray(content)
    for place, value in replaced:
        data[place % len(data)] = value
    return bytes(data if cut is None else data[: cut % len(data)]) + added


def assert_read_or_refused(read: Callable[[], object]) -> None:
    tracemalloc.start()
    try:
        read()
    except SnellError:
        pass  # refused
    finally:
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert most < MOST_BYTES


@FUZZ
@given(damage=DAMAGE)
def test_a_damaged_gguf_file_is_read_or_refused(tmp_path: Path, damage) -> None:
    path = tmp_path / "fuzz.gguf"
    path.write_bytes(damaged(good_file().build(), damage))
    assert_read_or_refused(lambda: read_gguf(path))


@FUZZ
@given(damage=DAMAGE)
def test_a_damaged_safetensors_file_is_read_or_refused(tmp_path: Path, damage) -> None:
    path = tmp_path / "fuzz.safetensors"
    save_safetensors(path, {"a": np.ones((2, 3), np.float32), "b": np.arange(4)})
    path.write_bytes(damaged(path.read_bytes(), damage))
    assert_read_or_refused(lambda: {name: np.array(array) for name, array in load_safetensors(path).items()})


@pytest.fixture(scope="module")
def model_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write_gguf_llama(tmp_path_factory.mktemp("tiny") / "tiny.gguf", tiny_llama()).read_bytes()


@FUZZ
@given(damage=DAMAGE)
def test_a_damaged_model_is_opened_or_refused(tmp_path: Path, model_bytes: bytes, damage) -> None:
    path = tmp_path / "fuzz.gguf"
    path.write_bytes(damaged(model_bytes, damage))
    assert_read_or_refused(lambda: load(path))
