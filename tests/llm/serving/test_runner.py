"""The thread that generates: jobs are carried on, cancelled, timed out and kept apart; the model is a toy."""

import queue
import threading
import time
from collections.abc import Sequence

import numpy as np
import pytest

from snell.errors import SnellError
from snell.llm.generated_text import GeneratedText, GenerationPlan
from snell.llm.generation import Chunk
from snell.llm.sampling import Sampler, SamplingParams
from snell.llm.serving import Job, Limits, QueueFullError, RequestTimeoutError, Runner, ShuttingDownError
from snell.llm.serving.cache_pool import Pages
from snell.llm.serving.text_cache import TextCache
from snell.llm.text_stream import TextStream

VOCABULARY = 16
END = 15


class Letters:
    """Token i is the letter i."""

    def token_bytes(self, token_id: int, /) -> bytes:
        return bytes([ord("a") + token_id])

    def is_control(self, token_id: int, /) -> bool:
        return token_id == END


class Successor:
    """A model whose next token is the last one plus the first of the prompt, modulo 13; it can be held and broken."""

    pages = Pages(1, 1)

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.broken = False
        self.batches: list[int] = []

    def make(self) -> TextCache:
        return TextCache({"ids": np.zeros((1, 64, 1), np.int64)})

    def prefill(self, cache: TextCache, ids: Sequence[int]) -> np.ndarray:
        self.gate.wait(10)
        return self._written(cache, ids, prefilled=True)

    def decode(self, caches: Sequence[TextCache], ids: Sequence[int]) -> np.ndarray:
        self.gate.wait(10)
        if self.broken:
            raise RuntimeError("the program failed")
        self.batches.append(len(caches))
        return np.stack([self._written(cache, [id_]) for cache, id_ in zip(caches, ids, strict=True)])

    def _written(self, cache: TextCache, ids: Sequence[int], *, prefilled: bool = False) -> np.ndarray:
        row = cache.arrays["ids"][0, :, 0]
        row[cache.past : cache.past + len(ids)] = ids
        cache.past += len(ids)
        cache.prefilled = cache.past if prefilled else cache.prefilled
        logits = np.zeros(VOCABULARY, np.float32)
        logits[(row[cache.past - 1] + row[0]) % 13] = 10
        return logits


class Reader:
    """Receives the chunks of one job."""

    def __init__(self, prompt: list[int], max_tokens: int, seconds: float = 60.0, bias: int | None = None) -> None:
        params = SamplingParams(temperature=0.0, logit_bias=None if bias is None else {bias: 1.0})
        plan = GenerationPlan(prompt, max_tokens, frozenset({END}), None)
        self.text = GeneratedText(plan, Sampler(params), TextStream(Letters()))
        self.received: queue.Queue[Chunk | Exception] = queue.Queue()
        self.job = Job(self.text, self.received.put, time.monotonic() + seconds)

    def all(self) -> list[Chunk]:
        chunks: list[Chunk] = []
        while not chunks or chunks[-1].finish_reason is None:
            chunk = self.received.get(timeout=10)
            if isinstance(chunk, Exception):
                raise chunk
            chunks.append(chunk)
        return chunks


def expected(prompt: list[int], count: int) -> list[int]:
    ids = list(prompt)
    for _ in range(count):
        ids.append((ids[-1] + ids[0]) % 13)
    return ids[len(prompt) :]


def started(model: Successor, **limits: int) -> Runner:
    runner = Runner(model, Limits(**limits), 256)
    runner.start()
    return runner


def test_texts_that_run_together_are_each_their_own() -> None:
    model = Successor()
    runner = started(model, places=3)
    readers = [Reader([first, 4, 7], 9) for first in range(1, 9)]
    for reader in readers:
        runner.submit(reader.job)
    for first, reader in enumerate(readers, 1):
        reader.all()
        assert reader.text.ids == expected([first, 4, 7], 9)
    runner.close()
    assert max(model.batches) == 3


def test_nothing_that_was_taken_is_lost_when_the_runner_closes() -> None:
    model = Successor()
    model.gate.clear()
    runner = started(model, places=1)
    readers = [Reader([first], 5) for first in range(1, 6)]
    for reader in readers:
        runner.submit(reader.job)
    closing = threading.Thread(target=runner.close)
    closing.start()
    model.gate.set()
    closing.join(10)
    assert [len(reader.all()) for reader in readers] == [5] * 5
    with pytest.raises(ShuttingDownError):
        runner.submit(Reader([1], 1).job)


def test_a_full_queue_takes_none_of_several_jobs() -> None:
    model = Successor()
    model.gate.clear()
    runner = started(model, places=1, waiting=3)
    first = Reader([1], 2)
    runner.submit(first.job)
    while runner.load().running == 0:
        time.sleep(0.001)
    with pytest.raises(QueueFullError):
        runner.submit_all([Reader([1], 2).job for _ in range(4)])
    assert runner.load().waiting == 0
    model.gate.set()
    first.all()
    runner.close()


def test_a_cancelled_job_gives_its_place_to_the_next() -> None:
    model = Successor()
    model.gate.clear()
    runner = started(model, places=1)
    unwanted, next_one = Reader([1], 50), Reader([2], 3)
    number = runner.submit(unwanted.job)
    runner.submit(next_one.job)
    runner.cancel(number)
    model.gate.set()
    assert len(next_one.all()) == 3
    assert len(unwanted.text.ids) < 50
    runner.close()


def test_a_job_past_its_deadline_is_told_so() -> None:
    runner = started(Successor())
    late = Reader([1], 5, seconds=-1.0)
    runner.submit(late.job)
    with pytest.raises(RequestTimeoutError):
        late.all()
    runner.close()


def test_a_failure_is_told_to_those_it_concerns_and_the_runner_goes_on() -> None:
    model = Successor()
    runner = started(model)
    model.broken = True
    failing = Reader([1], 5)
    runner.submit(failing.job)
    with pytest.raises(RuntimeError, match="the program failed"):
        failing.all()
    model.broken = False
    fine = Reader([1], 5)
    runner.submit(fine.job)
    assert len(fine.all()) == 5
    runner.close()


def test_an_error_in_one_job_s_options_is_no_other_s() -> None:
    runner = started(Successor())
    wrong, fine = Reader([1], 5, bias=VOCABULARY + 3), Reader([2], 5)
    runner.submit_all([wrong.job, fine.job])
    with pytest.raises(SnellError, match="logit_bias"):
        wrong.all()
    assert len(fine.all()) == 5
    runner.close()


def test_the_load_counts_tokens_and_what_was_reused() -> None:
    runner = started(Successor())
    for _ in range(2):
        reader = Reader([3, 1, 4, 1], 5)
        runner.submit(reader.job)
        reader.all()
    runner.close()
    load = runner.load()
    assert (load.prompt_tokens, load.reused_tokens, load.waiting, load.running) == (5, 3, 0, 0)
    assert load.generated_tokens == 10


def test_a_text_of_no_tokens_ends_at_once() -> None:
    runner = started(Successor())
    reader = Reader([1, 2], 0)
    runner.submit(reader.job)
    assert [chunk.finish_reason for chunk in reader.all()] == ["length"]
    runner.close()
