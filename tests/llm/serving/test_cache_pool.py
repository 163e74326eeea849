"""Memory for texts: reserved whole, reused by equal beginnings, given back in the order of use."""

import numpy as np

from snell.llm.serving.cache_pool import CachePool, Pages
from snell.llm.serving.text_cache import TextCache

POSITIONS = 64


def pool(budget: int) -> CachePool:
    """Four positions a page, ten bytes a page."""
    return CachePool(budget, Pages(4, 10), lambda: TextCache({"keys": np.zeros((1, POSITIONS, 1), np.int64)}))


def read(one: CachePool, text: int, prompt: list[int], more: int = 0) -> int | None:
    """Take memory and write what a pass over the prompt would, and then tokens by decoding."""
    shared = one.take(text, prompt, len(prompt) + more)
    if shared is not None:
        cache = one.cache(text)
        assert cache.past == shared
        cache.arrays["keys"][0, shared : len(prompt), 0] = prompt[shared:]
        cache.prefilled, cache.past = len(prompt), len(prompt) + more
    return shared


def test_memory_is_counted_in_whole_pages() -> None:
    assert [Pages(4, 10).bytes_of(positions) for positions in (0, 1, 4, 5)] == [0, 10, 10, 20]


def test_a_text_waits_where_the_running_ones_hold_the_memory() -> None:
    one = pool(30)
    assert read(one, 1, [1, 2, 3, 4], 4) == 0
    assert one.take(2, [5, 6, 7, 8], 8) is None
    assert one.nbytes == 20
    assert read(one, 3, [9]) == 0
    one.release(1)
    assert read(one, 2, [5, 6, 7, 8], 4) == 0


def test_a_prompt_that_begins_alike_starts_from_a_copy() -> None:
    one = pool(1000)
    read(one, 1, [1, 2, 3, 4, 5])
    one.release(1)
    assert read(one, 2, [1, 2, 3, 9, 9]) == 3
    assert one.cache(2).arrays["keys"][0, :5, 0].tolist() == [1, 2, 3, 9, 9]
    assert one.reused == 3


def test_a_text_that_still_runs_gives_its_beginning_too() -> None:
    one = pool(1000)
    read(one, 1, [1, 2, 3, 4, 5])
    assert read(one, 2, [1, 2, 3, 4, 5]) == 4


def test_decoded_positions_are_not_reused() -> None:
    one = pool(1000)
    read(one, 1, [1, 2], more=3)
    one.release(1)
    assert read(one, 2, [1, 2, 0, 0, 0, 7]) == 2


def test_the_last_token_of_a_prompt_is_always_left_to_compute() -> None:
    one = pool(1000)
    read(one, 1, [1, 2, 3])
    one.release(1)
    assert read(one, 2, [1, 2, 3]) == 2


def test_what_was_used_longest_ago_is_forgotten_first() -> None:
    one = pool(40)
    for text, first in enumerate((10, 20, 30)):
        read(one, text, [first, 1, 2, 3])
        one.release(text)
    assert read(one, 3, [10, 1, 2, 9]) == 3  # used again; 20 is the oldest now
    one.release(3)
    read(one, 4, [40, 1, 2, 3])
    one.release(4)
    assert one.nbytes <= 40
    assert read(one, 5, [20, 1, 2, 3]) == 0
    one.release(5)
    assert read(one, 6, [10, 1, 2, 3]) >= 3


def test_a_longer_text_replaces_what_its_own_beginning_left() -> None:
    one = pool(1000)
    read(one, 1, [1, 2, 3, 4])
    one.release(1)
    read(one, 2, [1, 2, 3, 4, 5, 6, 7, 8])
    one.release(2)
    assert one.nbytes == 20


def test_a_left_cache_is_taken_over_where_a_copy_does_not_fit() -> None:
    one = pool(40)
    read(one, 1, list(range(12)))
    one.release(1)
    assert read(one, 2, [*range(10), 99, 98, 97]) == 10
    assert one.nbytes == 40
    assert one.cache(2).arrays["keys"][0, :13, 0].tolist() == [*range(10), 99, 98, 97]


def test_the_budget_holds_whatever_comes() -> None:
    rng = np.random.default_rng(0)
    one, running = pool(100), list[int]()
    for text in range(300):
        prompt = rng.integers(0, 2, int(rng.integers(1, 16))).tolist()
        if read(one, text, prompt, int(rng.integers(0, 8))) is not None:
            running.append(text)
        assert one.nbytes <= one.budget
        if running and rng.random() < 0.6:
            one.release(running.pop(int(rng.integers(len(running)))))
        assert one.nbytes <= one.budget
