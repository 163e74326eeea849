"""A text being generated, chunk by chunk: sampling, ends of text, stop strings, and the account of it all.

Iterating drives the model; ``close`` (or leaving the ``with`` block) stops the work.  ``result`` is what has come so
far, complete once the iteration ended.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from snell.llm.generation import Chunk, FinishReason, Generation, Timings, TokenLogprob, ToolCall, Usage
from snell.llm.sampling import Sampler, log_probabilities
from snell.llm.session import Session
from snell.llm.text_stream import TextStream

if TYPE_CHECKING:
    from snell.llm.constraint import Constraint
    from snell.llm.tool_calls import ToolCallReader

__all__ = ["GenerationPlan", "GenerationStream"]


@dataclass(frozen=True, slots=True, eq=False)
class GenerationPlan:
    """What to generate: the prompt's ids, at most so many tokens, the ids that end it, and alternatives to list.

    A text may have to follow a ``constraint``, and may hold calls, which ``tool_calls`` reads.
    """

    prompt: Sequence[int]
    max_tokens: int
    end_ids: frozenset[int]
    logprobs: int | None
    constraint: Constraint | None = None
    tool_calls: ToolCallReader | None = None


class GenerationStream:
    """A closable iterator of ``Chunk``; ends with the chunk that has a ``finish_reason``."""

    def __init__(self, plan: GenerationPlan, session: Session, sampler: Sampler, text: TextStream) -> None:
        self._plan, self._session, self._sampler, self._text = plan, session, sampler, text
        self._written: list[str] = []
        self._ids: list[int] = []
        self._logprobs: list[TokenLogprob] = []
        self._finish: FinishReason = "cancelled"
        self._tool_calls: tuple[ToolCall, ...] = ()
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
        self._let_go()

    @property
    def result(self) -> Generation:
        """Everything so far."""
        return Generation(
            text="".join(self._written),
            token_ids=tuple(self._ids),
            finish_reason=self._finish,
            logprobs=None if self._plan.logprobs is None else tuple(self._logprobs),
            usage=Usage(len(self._plan.prompt), len(self._ids)),
            timings=Timings(
                self._prefill_seconds, self._decode_seconds, max(0, self._session.past - len(self._plan.prompt))
            ),
            tool_calls=self._tool_calls,
        )

    def _generate(self) -> Generator[Chunk, None, None]:
        try:
            yield from self._steps()
        finally:
            self._let_go()

    def _let_go(self) -> None:
        """Needed where the iteration never began as well."""
        if self._plan.constraint is not None:
            self._plan.constraint.close()

    def _steps(self) -> Generator[Chunk, None, None]:
        start = time.perf_counter()
        logits = self._session.feed(self._plan.prompt)
        self._prefill_seconds = time.perf_counter() - start
        while len(self._ids) < self._plan.max_tokens:
            token = self._next(logits)
            if token is None or token in self._plan.end_ids:
                yield self._last("", (), (), "stop")
                return
            chunk = self._taken(token, logits)
            yield chunk
            if chunk.finish_reason is not None:
                return
            start = time.perf_counter()
            logits = self._session.feed([token])
            self._decode_seconds += time.perf_counter() - start
        yield self._last("", (), (), "length")

    def _next(self, logits: npt.NDArray[np.float32]) -> int | None:
        """The next token; None where a constrained text is complete."""
        constraint = self._plan.constraint
        if constraint is None:
            return self._sampler.sample(logits)
        allowed = constraint.allowed()
        if allowed is None:
            return None
        token = self._sampler.sample(logits, allowed)
        if token not in self._plan.end_ids:
            constraint.accept(token)
        return token

    def _taken(self, token: int, logits: npt.NDArray[np.float32]) -> Chunk:
        """The chunk of an ordinary token, the last one where a stop string or the limit was reached."""
        self._ids.append(token)
        listed = () if self._plan.logprobs is None else (_logprob(token, logits, self._plan.logprobs),)
        self._logprobs.extend(listed)
        text = self._read(self._text.push(token))
        if self._text.stopped_by is not None:
            return self._last(text, (token,), listed, "stop")
        if len(self._ids) == self._plan.max_tokens:
            return self._last(text, (token,), listed, "length")
        self._written.append(text)
        return Chunk(text, (token,), listed)

    def _last(self, text: str, ids: tuple[int, ...], listed: tuple[TokenLogprob, ...], reason: FinishReason) -> Chunk:
        text += self._read(self._text.finish())
        # What was held back may complete a stop string only now.
        self._finish = "stop" if self._text.stopped_by is not None else reason
        if self._plan.tool_calls is not None:
            rest, self._tool_calls = self._plan.tool_calls.finish()
            text += rest
            self._finish = "tool_calls" if self._tool_calls else self._finish
        self._written.append(text)
        return Chunk(text, ids, listed, self._finish, self._tool_calls)

    def _read(self, text: str) -> str:
        """What of the text is to be shown."""
        return text if self._plan.tool_calls is None else self._plan.tool_calls.push(text)


def _logprob(token: int, logits: npt.NDArray[np.float32], count: int) -> TokenLogprob:
    values = log_probabilities(logits)
    top = np.argsort(-values, kind="stable")[:count]
    return TokenLogprob(token, float(values[token]), tuple((int(id_), float(values[id_])) for id_ in top))
