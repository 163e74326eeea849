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

from snell.llm.generation import Chunk, FinishReason, TokenLogprob, ToolCall, ToolCallDelta
from snell.llm.sampling import Sampler, likeliest, log_probabilities
from snell.llm.text_stream import TextStream

if TYPE_CHECKING:
    from snell.llm.constraint import Constraint
    from snell.llm.thinking import ThinkingReader
    from snell.llm.tool_call_reader import ToolCallReader

__all__ = ["GeneratedText", "GenerationPlan", "token_logprob"]


@dataclass(frozen=True, slots=True, eq=False)
class GenerationPlan:
    """What to generate: the prompt's ids, at most so many tokens, the ids that end it, and alternatives to list.

    A text may have to follow a ``constraint``, and may hold calls, which ``tool_calls`` reads.  Thinking before it, which
    ``thinking`` reads, is free of the constraint; ``think`` is the token that begins it, where it is one token.
    """

    prompt: Sequence[int]
    max_tokens: int
    end_ids: frozenset[int]
    logprobs: int | None
    constraint: Constraint | None = None
    tool_calls: ToolCallReader | None = None
    thinking: ThinkingReader | None = None
    think: int | None = None


@dataclass(frozen=True, slots=True)
class _Read:
    """What a piece of text is made of."""

    text: str
    thinking: str
    deltas: tuple[ToolCallDelta, ...]


class GeneratedText:
    """``finish`` is why the text ended, "cancelled" until it has."""

    def __init__(self, plan: GenerationPlan, sampler: Sampler, text: TextStream) -> None:
        self.plan = plan
        self._sampler, self._text = sampler, text
        self.written: list[str] = []
        self.thinking: list[str] = []
        self.ids: list[int] = []
        self.logprobs: list[TokenLogprob] = []
        self.finish: FinishReason = "cancelled"
        self.tool_call_deltas: list[ToolCallDelta] = []

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls that are complete."""
        return () if self.plan.tool_calls is None else tuple(self.plan.tool_calls.calls)

    def take(self, logits: npt.NDArray[np.float32]) -> Chunk:
        """Draw the next token; the chunk has a ``finish_reason`` where it is the last one."""
        token = self._next(logits)
        if token is None or token in self.plan.end_ids:
            return self._last("", (), (), "stop")
        self.ids.append(token)
        listed = () if self.plan.logprobs is None else (token_logprob(token, logits, self.plan.logprobs),)
        self.logprobs.extend(listed)
        text = self._text.push(token)
        if self._text.stopped_by is not None:
            return self._last(text, (token,), listed, "stop")
        if len(self.ids) == self.plan.max_tokens:
            return self._last(text, (token,), listed, "length")
        read = self._read(text)
        return Chunk(read.text, (token,), listed, tool_call_deltas=read.deltas, thinking=read.thinking)

    def end_at_limit(self) -> Chunk:
        """The last chunk of a text that may have no token at all."""
        return self._last("", (), (), "length")

    def close(self) -> None:
        """Nothing more is drawn: a constraint's thread ends.  Needed where nothing was drawn as well."""
        if self.plan.constraint is not None:
            self.plan.constraint.close()

    def _next(self, logits: npt.NDArray[np.float32]) -> int | None:
        """The next token; None where a constrained text is complete."""
        constraint, thinking = self.plan.constraint, self.plan.thinking
        if constraint is None:
            return self._sampler.sample(logits)
        if thinking is not None and thinking.is_thinking:
            return self._sampler.sample(logits, _all_but(self.plan.end_ids, logits.size))
        allowed = constraint.allowed()
        if allowed is None:
            return None
        think = self.plan.think if thinking is not None and thinking.is_undecided and not self.ids else None
        if think is not None:
            allowed = allowed.copy()
            allowed[think] = True
        token = self._sampler.sample(logits, allowed)
        if token not in self.plan.end_ids and token != think:
            constraint.accept(token)
        return token

    def _last(self, text: str, ids: tuple[int, ...], listed: tuple[TokenLogprob, ...], reason: FinishReason) -> Chunk:
        read = self._read(text + self._text.finish(), final=True)
        # What was held back may complete a stop string only now.
        self.finish = "stop" if self._text.stopped_by is not None else reason
        reader = self.plan.tool_calls
        if reader is not None and reader.calls and not reader.is_cut:
            self.finish = "tool_calls"
        return Chunk(read.text, ids, listed, self.finish, self.tool_calls, read.deltas, read.thinking)

    def _read(self, text: str, *, final: bool = False) -> _Read:
        """What of the text is thinking, what the answer, and what calls; it is kept as well."""
        thought, deltas = "", tuple[ToolCallDelta, ...]()
        if (thinking := self.plan.thinking) is not None:
            thought, text = thinking.push(text)
            if final:
                held_thought, held_text = thinking.finish()
                thought, text = thought + held_thought, text + held_text
        if (calls := self.plan.tool_calls) is not None:
            text, deltas = calls.push(text)
            text += calls.finish() if final else ""
        self.thinking.append(thought)
        self.written.append(text)
        self.tool_call_deltas.extend(deltas)
        return _Read(text, thought, deltas)


def token_logprob(token: int, logits: npt.NDArray[np.float32], count: int) -> TokenLogprob:
    """ln p of a token under the logits (vocab,), and the ``count`` likeliest tokens there."""
    values = log_probabilities(logits)
    return TokenLogprob(
        token, float(values[token]), tuple((int(id_), float(values[id_])) for id_ in likeliest(values, count))
    )


def _all_but(ids: frozenset[int], size: int) -> npt.NDArray[np.bool_]:
    allowed = np.ones(size, np.bool_)
    allowed[[id_ for id_ in ids if id_ < size]] = False
    return allowed
