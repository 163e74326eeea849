"""Scheduler: which texts run, and what is computed next; pure decisions, told how long things took.

Texts wait in the order in which they came until there is a place and memory for them.  Prompts are read one after the
other, in chunks.  While texts are being written, a chunk is small and is paid for: as many seconds of decoding follow,
so what runs keeps at least half of its rate however long a new prompt is.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, assert_never

from snell.errors import ConfigError, ContextLengthError
from snell.llm.serving.refusals import QueueFullError

__all__ = ["Decode", "Limits", "Memory", "Prefill", "Scheduler", "Work"]


@dataclass(frozen=True, slots=True)
class Limits:
    """``places``: texts decoded at once; ``waiting``: texts that may wait; tokens of a chunk when idle and busy."""

    places: int = 4
    waiting: int = 64
    chunk: int = 128
    busy_chunk: int = 32

    def __post_init__(self) -> None:
        for name in ("places", "waiting", "chunk", "busy_chunk"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}: expected at least 1, received {getattr(self, name)}")


@dataclass(frozen=True, slots=True)
class Prefill:
    """Read the prompt's tokens from ``start`` to ``end``."""

    text: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Decode:
    """One more token for each of the texts."""

    texts: tuple[int, ...]


Work = Prefill | Decode


class Memory(Protocol):
    """What gives caches to texts: a ``CachePool``."""

    def ever_fits(self, positions: int, /) -> bool:
        """Whether so many positions are possible at all."""
        ...

    def take(self, text: int, prompt: Sequence[int], positions: int, /) -> int | None:
        """Positions of the prompt that are there already, or None where the text must wait."""
        ...

    def release(self, text: int, /) -> None:
        """The text ended."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    text: int
    prompt: Sequence[int]
    positions: int


class Scheduler:
    """Used by one thread at a time."""

    def __init__(self, limits: Limits, memory: Memory) -> None:
        self.limits = limits
        self._memory = memory
        self._queue: deque[_Waiting] = deque()
        self._reading: Prefill | None = None  # the whole rest of the prompt being read
        self._writing: dict[int, None] = {}
        self._owed = 0.0

    @property
    def waiting(self) -> int:
        """Texts that have not begun."""
        return len(self._queue)

    @property
    def running(self) -> int:
        """Texts that have."""
        return len(self._writing) + (self._reading is not None)

    def submit(self, text: int, prompt: Sequence[int], max_tokens: int) -> None:
        """A text waits from now on.  QueueFullError; ContextLengthError where no memory could ever hold it."""
        positions = len(prompt) + max_tokens
        if not self._memory.ever_fits(positions):
            raise ContextLengthError(
                f"a prompt of {len(prompt)} tokens and max_tokens={max_tokens} need more cache memory than the server "
                "may use; shorten the prompt, ask for fewer tokens, or start the server with a larger --cache-memory"
            )
        if len(self._queue) >= self.limits.waiting:
            raise QueueFullError(f"{len(self._queue)} requests are waiting, which is the limit; try again later")
        self._queue.append(_Waiting(text, prompt, positions))

    def next_work(self) -> Work | None:
        """What to compute now; None where there is nothing."""
        if self._reading is None:
            self._admit()
        rest = self._reading
        if rest is not None and not (self._writing and self._owed > 0):
            size = self.limits.busy_chunk if self._writing else self.limits.chunk
            return Prefill(rest.text, rest.start, min(rest.end, rest.start + size))
        return Decode(tuple(self._writing)) if self._writing else None

    def done(self, work: Work, seconds: float) -> None:
        """The work took so long; texts that ended by it are to be ended after this call."""
        match work:
            case Prefill():
                self._owed = self._owed + seconds if self._writing else 0.0
                rest = self._reading
                if rest is not None and rest.text == work.text:
                    read = work.end == rest.end
                    self._reading = None if read else Prefill(rest.text, work.end, rest.end)
                    if read:
                        self._writing[work.text] = None
            case Decode():
                self._owed = max(0.0, self._owed - seconds)
            case _:
                assert_never(work)

    def end(self, text: int) -> None:
        """The text ended, or is not wanted any more; in whatever state it is."""
        if self._reading is not None and self._reading.text == text:
            self._reading = None
        elif text in self._writing:
            del self._writing[text]
        else:
            self._queue = deque(one for one in self._queue if one.text != text)
            return
        self._memory.release(text)

    def _admit(self) -> None:
        if self._queue and len(self._writing) < self.limits.places:
            first = self._queue[0]
            shared = self._memory.take(first.text, first.prompt, first.positions)
            if shared is not None:
                self._queue.popleft()
                self._reading = Prefill(first.text, shared, len(first.prompt))
