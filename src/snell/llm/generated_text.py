"""One text in the making: given the logits after its last token, the next chunk; and what has come so far.

It draws the token, ends the text at an end-of-text token, a stop string or the limit, and keeps the account.  What
computes the logits, alone or in a batch, is the caller's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from snell.llm.generation import Chunk, FinishReason, TokenLogprob, ToolCall
from snell.llm.sampling import Sampler, log_probabilities
from snell.llm.text_stream import TextStream

if TYPE_CHECKING:
    from snell.llm.constraint import Constraint
    from snell.llm.tool_calls import ToolCallReader

__all__ = ["GeneratedText", "GenerationPlan"]


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


class GeneratedText:
    """``finish`` is why the text ended, "cancelled" until it has."""

    def __init__(self, plan: GenerationPlan, sampler: Sampler, text: TextStream) -> None:
        self.plan = plan
        self._sampler, self._text = sampler, text
        self.written: list[str] = []
        self.ids: list[int] = []
        self.logprobs: list[TokenLogprob] = []
        self.finish: FinishReason = "cancelled"
        self.tool_calls: tuple[ToolCall, ...] = ()

    def take(self, logits: npt.NDArray[np.float32]) -> Chunk:
        """Draw the next token; the chunk has a ``finish_reason`` where it is the last one."""
        token = self._next(logits)
        if token is None or token in self.plan.end_ids:
            return self._last("", (), (), "stop")
        self.ids.append(token)
        listed = () if self.plan.logprobs is None else (_logprob(token, logits, self.plan.logprobs),)
        self.logprobs.extend(listed)
        text = self._read(self._text.push(token))
        if self._text.stopped_by is not None:
            return self._last(text, (token,), listed, "stop")
        if len(self.ids) == self.plan.max_tokens:
            return self._last(text, (token,), listed, "length")
        self.written.append(text)
        return Chunk(text, (token,), listed)

    def end_at_limit(self) -> Chunk:
        """The last chunk of a text that may have no token at all."""
        return self._last("", (), (), "length")

    def close(self) -> None:
        """Nothing more is drawn: a constraint's thread ends.  Needed where nothing was drawn as well."""
        if self.plan.constraint is not None:
            self.plan.constraint.close()

    def _next(self, logits: npt.NDArray[np.float32]) -> int | None:
        """The next token; None where a constrained text is complete."""
        constraint = self.plan.constraint
        if constraint is None:
            return self._sampler.sample(logits)
        allowed = constraint.allowed()
        if allowed is None:
            return None
        token = self._sampler.sample(logits, allowed)
        if token not in self.plan.end_ids:
            constraint.accept(token)
        return token

    def _last(self, text: str, ids: tuple[int, ...], listed: tuple[TokenLogprob, ...], reason: FinishReason) -> Chunk:
        text += self._read(self._text.finish())
        # What was held back may complete a stop string only now.
        self.finish = "stop" if self._text.stopped_by is not None else reason
        if self.plan.tool_calls is not None:
            rest, self.tool_calls = self.plan.tool_calls.finish()
            text += rest
            self.finish = "tool_calls" if self.tool_calls else self.finish
        self.written.append(text)
        return Chunk(text, ids, listed, self.finish, self.tool_calls)

    def _read(self, text: str) -> str:
        """What of the text is to be shown."""
        return text if self.plan.tool_calls is None else self.plan.tool_calls.push(text)


def _logprob(token: int, logits: npt.NDArray[np.float32], count: int) -> TokenLogprob:
    values = log_probabilities(logits)
    top = np.argsort(-values, kind="stable")[:count]
    return TokenLogprob(token, float(values[token]), tuple((int(id_), float(values[id_])) for id_ in top))
