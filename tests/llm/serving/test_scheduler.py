"""Which text runs and what is computed next, with times that are told."""

import pytest

from snell.errors import ConfigError, ContextLengthError
from snell.llm.serving.cache_pool import CachePool, Pages
from snell.llm.serving.refusals import QueueFullError
from snell.llm.serving.scheduler import Decode, Limits, Prefill, Scheduler, Work
from snell.llm.serving.text_cache import TextCache

PROMPT = list(range(10))


def scheduler(budget: int = 10_000, **limits: int) -> Scheduler:
    return Scheduler(Limits(**limits), CachePool(budget, Pages(1, 1), lambda: TextCache({})))


def worked(one: Scheduler, times: int, seconds: dict[type, float]) -> list[Work]:
    """The next works, each of which takes the seconds of its kind."""
    done: list[Work] = []
    for _ in range(times):
        work = one.next_work()
        assert work is not None
        one.done(work, seconds[type(work)])
        done.append(work)
    return done


SAME = {Prefill: 1.0, Decode: 1.0}


def test_there_is_nothing_to_do_without_texts() -> None:
    assert scheduler().next_work() is None


def test_a_prompt_is_read_in_chunks_and_then_written_token_by_token() -> None:
    one = scheduler(chunk=4)
    one.submit(1, PROMPT, 5)
    assert worked(one, 5, SAME) == [Prefill(1, 0, 4), Prefill(1, 4, 8), Prefill(1, 8, 10), Decode((1,)), Decode((1,))]


def test_texts_begin_in_the_order_in_which_they_came() -> None:
    one = scheduler(places=2)
    for text in (1, 2, 3):
        one.submit(text, PROMPT, 5)
    reads = [work.text for work in worked(one, 12, SAME) if isinstance(work, Prefill)]
    assert reads == [1, 2]
    assert (one.waiting, one.running) == (1, 2)
    one.end(1)
    assert one.next_work() == Prefill(3, 0, 10)


def test_a_text_joins_those_that_are_being_written() -> None:
    one = scheduler()
    one.submit(1, PROMPT, 5)
    worked(one, 2, SAME)
    one.submit(2, PROMPT[::-1], 5)
    assert worked(one, 2, SAME) == [Prefill(2, 0, 10), Decode((1, 2))]


@pytest.mark.parametrize("seconds", [0.3, 1.0, 7.0])
def test_running_texts_keep_half_of_their_rate_while_a_long_prompt_is_read(seconds: float) -> None:
    one = scheduler(busy_chunk=8)
    one.submit(1, PROMPT, 5)
    worked(one, 2, SAME)
    one.submit(2, list(range(800)), 5)
    works = worked(one, 100, {Prefill: seconds, Decode: 1.0})
    writing = sum(isinstance(work, Decode) for work in works)
    reading = sum(isinstance(work, Prefill) for work in works) * seconds
    assert reading <= writing + seconds  # the last chunk may not be paid for yet
    assert reading > 0


def test_chunks_are_small_only_while_texts_are_written() -> None:
    one = scheduler(chunk=8, busy_chunk=2)
    one.submit(1, PROMPT, 5)
    assert one.next_work() == Prefill(1, 0, 8)
    worked(one, 2, SAME)
    one.submit(2, PROMPT[::-1], 5)
    assert one.next_work() == Prefill(2, 0, 2)


def test_a_text_without_memory_waits_until_another_ends_and_none_passes_it() -> None:
    one = scheduler(budget=30)
    one.submit(1, PROMPT, 10)
    one.submit(2, PROMPT, 10)
    one.submit(3, [5], 1)
    assert [work for work in worked(one, 5, SAME) if isinstance(work, Prefill)] == [Prefill(1, 0, 10)]
    assert one.waiting == 2
    one.end(1)
    assert one.next_work() == Prefill(2, 0, 10)


def test_a_text_that_could_never_have_memory_is_refused() -> None:
    with pytest.raises(ContextLengthError, match="cache memory"):
        scheduler(budget=15).submit(1, PROMPT, 6)


def test_a_full_queue_refuses() -> None:
    one = scheduler(waiting=2)
    one.submit(1, PROMPT, 5)
    one.submit(2, PROMPT, 5)
    with pytest.raises(QueueFullError, match="try again"):
        one.submit(3, PROMPT, 5)


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_a_text_may_end_while_it_waits_is_read_or_is_written(steps: int) -> None:
    one = scheduler(chunk=4)
    one.submit(1, PROMPT, 5)
    worked(one, steps, SAME)
    one.end(1)
    assert (one.waiting, one.running, one.next_work()) == (0, 0, None)


def test_limits_are_at_least_one() -> None:
    with pytest.raises(ConfigError, match="places"):
        Limits(places=0)
