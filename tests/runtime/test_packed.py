"""Packed weights come back from disk as they were made, or not at all."""

from pathlib import Path

import numpy as np
import pytest

from snell.dtypes import bf16, f32, u8
from snell.runtime.cache import Cache
from snell.runtime.packed import PackedWeights
from snell.runtime.program import BufferSlot, Role
from snell.targets import ALIASING

SLOTS = (
    BufferSlot("codes", Role.OUTPUT, u8, (3, 7001)),
    BufferSlot("scales", Role.OUTPUT, f32, (5,)),
    BufferSlot("none", Role.OUTPUT, f32, (0, 4)),
    BufferSlot("wide", Role.OUTPUT, bf16, (64, 33)),
)


@pytest.fixture
def weights(tmp_path: Path) -> PackedWeights:
    return PackedWeights(Cache(tmp_path, 1 << 20))


def arrays() -> dict[str, np.ndarray]:
    random = np.random.default_rng(3)
    return {slot.name: random.integers(0, 250, slot.shape).astype(slot.dtype.numpy) for slot in SLOTS}


def test_arrays_come_back_equal_at_different_places_of_a_page(weights: PackedWeights) -> None:
    made = arrays()
    weights.put("k", made)
    found = weights.get("k", SLOTS)
    assert found is not None
    assert list(found) == list(made)
    for name, array in made.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        assert np.array_equal(found[name], array)
        assert not found[name].flags.writeable
    places = [found[name].__array_interface__["data"][0] % ALIASING for name in ("codes", "scales", "wide")]
    assert len(set(places)) == 3
    assert all(place % 64 == 0 for place in places)


def test_another_key_and_other_slots_find_nothing(weights: PackedWeights) -> None:
    weights.put("k", arrays())
    assert weights.get("other", SLOTS) is None
    assert weights.get("k", SLOTS[:2]) is None
    weights.put("k", arrays())
    assert weights.get("k", (BufferSlot("codes", Role.OUTPUT, u8, (3, 7002)), *SLOTS[1:])) is None


@pytest.mark.parametrize("place", [0, 3, 20, 60, 5000, 12000, -1])
def test_a_file_with_a_changed_byte_is_dropped(weights: PackedWeights, tmp_path: Path, place: int) -> None:
    weights.put("k", arrays())
    path = weights.cache.path("k")
    data = bytearray(path.read_bytes())
    data[place] ^= 0x41
    path.unlink()
    path.write_bytes(data)
    assert weights.get("k", SLOTS) is None
    assert not path.exists()


@pytest.mark.parametrize("kept", [0, 5, 40, 4096, 9000, -1])
def test_a_cut_file_is_dropped(weights: PackedWeights, kept: int) -> None:
    weights.put("k", arrays())
    path = weights.cache.path("k")
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data[:kept])
    assert weights.get("k", SLOTS) is None
    assert not path.exists()


def test_what_would_fill_the_folder_is_not_kept(tmp_path: Path) -> None:
    small = PackedWeights(Cache(tmp_path, 30_000))
    small.put("k", arrays())
    assert small.get("k", SLOTS) is None
    assert list(tmp_path.rglob("*")) == []
