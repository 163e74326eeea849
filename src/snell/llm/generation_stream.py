"""A text being generated, chunk by chunk, on a cache of its own.

Iterating drives the model; ``close`` (or leaving the ``with`` block) stops the work.  ``result`` is what has come so
far, complete once the iteration ended.
"""

import time
from collections.abc import Generator, Iterator
from types import TracebackType
from typing import Self

from snell.llm.generated_text import GeneratedText
from snell.llm.generation import Chunk, Generation, Timings, Usage
from snell.llm.session import Session

__all__ = ["GenerationStream"]


class GenerationStream:
    """A closable iterator of ``Chunk``; ends with the chunk that has a ``finish_reason``."""

    def __init__(self, text: GeneratedText, session: Session) -> None:
        self._text, self._session = text, session
        self._prefill_seconds = self._decode_seconds = 0.0
        self._chunks = self._generate()

    def __iter__(self) -> Iterator[Chunk]:
        return self

    def __next__(self) -> Chunk:
        return next(self._chunks)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop generating; the result then says "cancelled" unless the text had ended."""
        self._chunks.close()
        self._text.close()

    @property
    def result(self) -> Generation:
        """Everything so far."""
        text, plan = self._text, self._text.plan
        return Generation(
            text="".join(text.written),
            token_ids=tuple(text.ids),
            finish_reason=text.finish,
            logprobs=None if plan.logprobs is None else tuple(text.logprobs),
            usage=Usage(len(plan.prompt), len(text.ids)),
            timings=Timings(self._prefill_seconds, self._decode_seconds, max(0, self._session.past - len(plan.prompt))),
            tool_calls=text.tool_calls,
            thinking="".join(text.thinking),
        )

    def _generate(self) -> Generator[Chunk, None, None]:
        try:
            yield from self._steps()
        finally:
            self._text.close()

    def _steps(self) -> Generator[Chunk, None, None]:
        start = time.perf_counter()
        logits = self._session.feed(self._text.plan.prompt)
        self._prefill_seconds = time.perf_counter() - start
        while len(self._text.ids) < self._text.plan.max_tokens:
            chunk = self._text.take(logits)
            yield chunk
            if chunk.finish_reason is not None:
                return
            start = time.perf_counter()
            logits = self._session.feed(chunk.token_ids)
            self._decode_seconds += time.perf_counter() - start
        yield self._text.end_at_limit()
