"""What generating returns: the text with its tokens, why it ended, what it cost; and the chunks of a stream."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Chunk", "FinishReason", "Generation", "Timings", "TokenLogprob", "ToolCall", "ToolCallDelta", "Usage"]

FinishReason = Literal["stop", "length", "tool_calls", "cancelled"]


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """ln p of a chosen token under the unmodified distribution, and the likeliest tokens there with theirs."""

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Usage:
    """Numbers of tokens; an end-of-text token counts in neither."""

    prompt_tokens: int
    completion_tokens: int

    @property
    def total_tokens(self) -> int:
        """Prompt and completion."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds until the prompt was read, and seconds of the ``decode_steps`` that fed one token each after it."""

    prefill_seconds: float
    decode_seconds: float
    decode_steps: int

    @property
    def decode_tokens_per_second(self) -> float:
        """Rate of the steps after the first token; 0 where there were none."""
        return self.decode_steps / self.decode_seconds if self.decode_seconds else 0.0


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that the model wants to be called; ``id`` goes into the message that answers it."""

    id: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A piece of a call that is being written: first its ``id`` and ``name``, then its arguments' JSON in pieces.

    ``index`` numbers the calls of a text.
    """

    index: int
    arguments: str = ""
    id: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """One token's part of a stream; the text may be "" while a character or a stop string is incomplete.

    The last chunk has a ``finish_reason`` and all tool calls, and no token where an end-of-text token ended the text.
    ``thinking`` is what the model thinks before its answer, where its chat template has tags for it.
    """

    text: str
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()
    finish_reason: FinishReason | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_deltas: tuple[ToolCallDelta, ...] = ()
    thinking: str = ""


@dataclass(frozen=True, slots=True)
class Generation:
    """A finished text; ``str(generation)`` is ``text``.  ``logprobs`` is None unless asked for.

    ``tool_calls`` are what the model wants called, where it was given tools; they are no part of ``text``.
    Nor is ``thinking``, what the model wrote for itself before its answer to messages; "" where it wrote none.
    """

    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    logprobs: tuple[TokenLogprob, ...] | None
    usage: Usage
    timings: Timings
    tool_calls: tuple[ToolCall, ...] = ()
    thinking: str = ""

    def __str__(self) -> str:
        return self.text
