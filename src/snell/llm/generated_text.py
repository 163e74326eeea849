"""One text in the making: given the logits after its last token, the next chunk; and what has come so far.

It draws the token, ends the text at an end-of-text token, a stop string or the limit, and keeps the account.  What
computes the logits, alone or in a batch, is the caller's.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from snell.llm.generation import Chunk, FinishReason, TokenLogprob
from snell.llm.sampling import Sampler, log_probabilities
from snell.llm.text_stream import TextStream

__all__ = ["GeneratedText", "GenerationPlan"]


@dataclass(frozen=True, slots=True, eq=False)
class GenerationPlan:
    """What to generate: the prompt's ids, at most so many tokens, the ids that end it, and alternatives to list."""

    prompt: Sequence[int]
    max_tokens: int
    end_ids: frozenset[int]
    logprobs: int | None


class GeneratedText:
    """``finish`` is why the text ended, "cancelled" until it has."""

    def __init__(self, plan: GenerationPlan, sampler: Sampler, text: TextStream) -> None:
        self.plan = plan
        self._sampler, self._text = sampler, text
        self.written: list[str] = []
        self.ids: list[int] = []
        self.logprobs: list[TokenLogprob] = []
        self.finish: FinishReason = "cancelled"

    def take(self, logits: npt.NDArray[np.float32]) -> Chunk:
        """Draw the next token; the chunk has a ``finish_reason`` where it is the last one."""
        token = self._sampler.sample(logits)
        if token in self.plan.end_ids:
            return self._last("", (), (), "stop")
        self.ids.append(token)
        listed = () if self.plan.logprobs is None else (_logprob(token, logits, self.plan.logprobs),)
        self.logprobs.extend(listed)
        text = self._text.push(token)
        if self._text.stopped_by is not None:
            return self._last(text, (token,), listed, "stop")
        if len(self.ids) == self.plan.max_tokens:
            return self._last(text, (token,), listed, "length")
        self.written.append(text)
        return Chunk(text, (token,), listed)

    def end_at_limit(self) -> Chunk:
        """The last chunk of a text that may have no token at all."""
        return self._last("", (), (), "length")

    def _last(self, text: str, ids: tuple[int, ...], listed: tuple[TokenLogprob, ...], reason: FinishReason) -> Chunk:
        text += self._text.finish()
        # What was held back may complete a stop string only now.
        self.finish = "stop" if self._text.stopped_by is not None else reason
        self.written.append(text)
        return Chunk(text, ids, listed, self.finish)


def _logprob(token: int, logits: npt.NDArray[np.float32], count: int) -> TokenLogprob:
    values = log_probabilities(logits)
    top = np.argsort(-values, kind="stable")[:count]
    return TokenLogprob(token, float(values[token]), tuple((int(id_), float(values[id_])) for id_ in top))
