"""Runner: the thread that generates texts for everyone.

``submit`` takes a job from any thread and returns its number; chunks come through the job's ``emit``.  A job that was
taken is carried on until its text ends, its deadline passes or it is cancelled; an error of one job is no other's.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, assert_never

import numpy as np
import numpy.typing as npt

from snell.errors import SnellError
from snell.llm.generation import Chunk
from snell.llm.serving.cache_pool import CachePool, Pages
from snell.llm.serving.job import Job
from snell.llm.serving.refusals import RequestTimeoutError, ShuttingDownError
from snell.llm.serving.scheduler import Decode, Limits, Prefill, Scheduler, Work
from snell.llm.serving.text_cache import TextCache

__all__ = ["Load", "Runner", "TextPrograms"]

Logits = npt.NDArray[np.float32]


class TextPrograms(Protocol):
    """The passes of a model: ``BatchPrograms``, or in tests something that needs none."""

    @property
    def pages(self) -> Pages:
        """How the memory of caches is counted."""
        ...

    def make(self) -> TextCache:
        """The cache of a text without any tokens."""
        ...

    def prefill(self, cache: TextCache, ids: Sequence[int], /) -> Logits:
        """Logits (vocabulary,) after the next tokens of a prompt."""
        ...

    def decode(self, caches: Sequence[TextCache], ids: Sequence[int], /) -> Logits:
        """Logits (texts, vocabulary) after one more token of each text."""
        ...


@dataclass(frozen=True, slots=True)
class Load:
    """What the runner does at a moment, and how many tokens it has seen since it began."""

    waiting: int
    running: int
    cache_bytes: int
    prompt_tokens: int
    reused_tokens: int
    generated_tokens: int


class Runner:
    """``start`` before the first job; ``close`` finishes what was taken."""

    def __init__(
        self,
        programs: TextPrograms,
        limits: Limits,
        cache_bytes: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._programs = programs
        self._pool = CachePool(cache_bytes, programs.pages, programs.make)
        self._scheduler = Scheduler(limits, self._pool)
        self._clock = clock
        self._jobs: dict[int, Job] = {}
        self._unwanted: set[int] = set()
        self._count = 0
        self._closing = False
        self._prompt_tokens = self._generated_tokens = 0
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="snell-runner", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def submit(self, job: Job) -> int:
        """Take a job.  QueueFullError, ContextLengthError or ShuttingDownError where it is not taken."""
        return self.submit_all([job])[0]

    def submit_all(self, jobs: Sequence[Job]) -> list[int]:
        """Take all of the jobs, or none."""
        numbers: list[int] = []
        with self._changed:
            if self._closing:
                raise ShuttingDownError("the server is shutting down; ask another one")
            try:
                for job in jobs:
                    self._count += 1
                    plan = job.text.plan
                    self._scheduler.submit(self._count, plan.prompt, plan.max_tokens)
                    self._jobs[self._count] = job
                    numbers.append(self._count)
            except SnellError:
                for number in numbers:
                    self._end(number)
                raise
            self._changed.notify()
        return numbers

    def cancel(self, number: int) -> None:
        """Stop the work on a job; nothing where it has ended."""
        with self._changed:
            if number in self._jobs:
                self._unwanted.add(number)
                self._changed.notify()

    def load(self) -> Load:
        """What is being done."""
        with self._changed:
            scheduler = self._scheduler
            return Load(
                scheduler.waiting,
                scheduler.running,
                self._pool.nbytes,
                self._prompt_tokens,
                self._pool.reused,
                self._generated_tokens,
            )

    def close(self) -> None:
        """Take no more jobs, and return when those that were taken have ended."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while (work := self._wait_for_work()) is not None:
            start = time.perf_counter()
            try:
                chunks = self._work(work)
            except Exception as error:  # whatever it is, the jobs it concerns must be told, and the others go on
                self._fail(_texts(work), error)
                continue
            self._settle(work, chunks, time.perf_counter() - start)

    def _wait_for_work(self) -> Work | None:
        """The next work, waiting until there is some; None when the runner closes and all is done."""
        with self._changed:
            while True:
                self._drop_unwanted()
                work = self._scheduler.next_work()
                if work is not None:
                    return work
                if self._closing and not self._jobs:
                    return None
                self._changed.wait()

    def _drop_unwanted(self) -> None:
        for number in self._unwanted & self._jobs.keys():
            self._end(number)
        self._unwanted.clear()
        now = self._clock()
        for number, job in list(self._jobs.items()):
            if now > job.deadline:
                self._end(number)
                job.emit(RequestTimeoutError("the request took longer than requests may; ask for fewer tokens"))

    def _work(self, work: Work) -> dict[int, Chunk | Exception]:
        """Compute, outside of the lock; the chunk of each text that has a new one."""
        match work:
            case Prefill(text, start, end):
                job = self._jobs[text]
                plan, cache = job.text.plan, self._pool.cache(text)
                logits = self._programs.prefill(cache, plan.prompt[start:end])
                self._prompt_tokens += end - start
                return {text: _next_chunk(job, logits)} if end == len(plan.prompt) else {}
            case Decode(texts):
                jobs = [self._jobs[text] for text in texts]
                logits = self._programs.decode(
                    [self._pool.cache(text) for text in texts], [job.text.ids[-1] for job in jobs]
                )
                return {text: _next_chunk(*pair) for text, *pair in zip(texts, jobs, logits, strict=True)}
            case _:
                assert_never(work)

    def _settle(self, work: Work, chunks: dict[int, Chunk | Exception], seconds: float) -> None:
        with self._changed:
            self._scheduler.done(work, seconds)
            emitted = [(self._jobs[text], chunk) for text, chunk in chunks.items()]
            for text, chunk in chunks.items():
                if isinstance(chunk, Chunk):
                    self._generated_tokens += len(chunk.token_ids)
                if isinstance(chunk, Exception) or chunk.finish_reason is not None:
                    self._end(text)
        for job, chunk in emitted:
            job.emit(chunk)

    def _fail(self, texts: Sequence[int], error: Exception) -> None:
        with self._changed:
            jobs = [self._jobs[text] for text in texts]
            for text in texts:
                self._end(text)
        for job in jobs:
            job.emit(error)

    def _end(self, number: int) -> None:
        self._scheduler.end(number)
        self._jobs.pop(number).text.close()


def _texts(work: Work) -> tuple[int, ...]:
    return work.texts if isinstance(work, Decode) else (work.text,)


def _next_chunk(job: Job, logits: Logits) -> Chunk | Exception:
    """The next chunk; whatever fails in drawing a token is this job's own and no other's of the same pass."""
    try:
        return job.text.take(logits) if job.text.plan.max_tokens else job.text.end_at_limit()
    except Exception as error:
        return error
