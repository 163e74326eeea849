"""Arrays for results: aligned, and large ones at different places of a page."""

import numpy as np
import pytest

from snell.runtime.arena import ALIGNMENT
from snell.runtime.buffers import address, aligned_empty
from snell.targets import ALIASING


@pytest.mark.parametrize("count", [0, 1, 17, 5000, 1 << 20])
def test_arrays_are_aligned_and_whole(count: int) -> None:
    array, start = aligned_empty((count,), np.dtype(np.float32), 4 * count)
    assert start == address(array)
    assert start % ALIGNMENT == 0
    array[...] = 1.0
    assert array.sum() == count


def test_large_arrays_made_one_after_the_other_begin_at_different_places_of_a_page() -> None:
    made = [aligned_empty((1 << 16,), np.dtype(np.float32), 4 << 16) for _ in range(4)]
    assert len({start % ALIASING for _, start in made}) == 4


def test_large_arrays_do_not_begin_where_those_of_numpy_do() -> None:
    _, start = aligned_empty((1 << 16,), np.dtype(np.float32), 4 << 16)
    assert min(start % ALIASING, -start % ALIASING) >= 2 * ALIGNMENT
