"""Constants as bytes for the cache: every dtype and shape comes back, aligned and without a copy."""

import numpy as np
import pytest

from snell.llm.constants import constants_from_bytes, constants_to_bytes

ARRAYS = {
    "rotary.same": np.arange(12, dtype=np.float32).reshape(3, 4),
    "mask": np.array([True, False, True]),
    "ids": np.array([[7]], np.int64),
    "scalar": np.array(2.5, np.float16),
    "empty": np.empty((0, 3), np.float32),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_comes_back_as_it_was(name: str) -> None:
    found = constants_from_bytes(constants_to_bytes(ARRAYS))[name]
    assert (found.shape, found.dtype) == (ARRAYS[name].shape, ARRAYS[name].dtype)
    np.testing.assert_array_equal(found, ARRAYS[name])


def test_the_arrays_lie_in_the_bytes_and_cannot_be_written() -> None:
    data = constants_to_bytes(ARRAYS)
    found = constants_from_bytes(data)
    assert list(found) == list(ARRAYS)
    assert all(np.shares_memory(array, np.frombuffer(data, np.uint8)) for array in found.values() if array.size)
    assert not any(array.flags.writeable for array in found.values())
    assert all(array.flags.aligned for array in found.values())


def test_no_arrays_are_no_arrays() -> None:
    assert constants_from_bytes(constants_to_bytes({})) == {}
