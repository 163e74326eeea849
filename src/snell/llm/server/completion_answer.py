"""CompletionAnswer: ``text_completion``, with the prompt repeated before it where that was asked for."""

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from snell.llm.generated_text import GeneratedText
from snell.llm.generation import Chunk
from snell.llm.server.answers import usage
from snell.llm.server.logprobs import Listed, completion_logprobs
from snell.llm.tokenizer import Tokenizer

__all__ = ["CompletionAnswer", "Echo"]


@dataclass(frozen=True, slots=True)
class Echo:
    """A prompt that is repeated before its text, and its tokens where log-probabilities were asked for."""

    text: str = ""
    listed: tuple[Listed, ...] = ()


class CompletionAnswer:
    """``echoes`` are those of the texts, in their order; every ``per_prompt`` texts have one prompt."""

    def __init__(
        self, model: str, tokenizer: Tokenizer, echoes: Sequence[Echo], per_prompt: int, *, logprobs: bool
    ) -> None:
        self._tokenizer, self._logprobs = tokenizer, logprobs
        self._echoes, self._per_prompt = echoes, per_prompt
        self._offsets = [0 if echo.listed else len(echo.text) for echo in echoes]
        self._head = {
            "id": f"cmpl-{uuid.uuid4().hex}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": model,
        }

    def whole(self, texts: Sequence[GeneratedText]) -> dict[str, Any]:
        choices = [
            self._choice(index, echo.text + "".join(text.written), (*echo.listed, *text.logprobs), text.finish)
            for index, (echo, text) in enumerate(zip(self._echoes, texts, strict=True))
        ]
        return {**self._head, "choices": choices, "usage": usage(texts, self._per_prompt)}

    def opening(self, choices: int) -> list[dict[str, Any]]:
        return [
            {**self._head, "choices": [self._choice(index, echo.text, echo.listed, None)]}
            for index, echo in enumerate(self._echoes[:choices])
            if echo.text
        ]

    def piece(self, index: int, chunk: Chunk) -> dict[str, Any] | None:
        if not chunk.text and not chunk.logprobs and chunk.finish_reason is None:
            return None
        return {**self._head, "choices": [self._choice(index, chunk.text, chunk.logprobs, chunk.finish_reason)]}

    def closing(self, texts: Sequence[GeneratedText]) -> dict[str, Any]:
        return {**self._head, "choices": [], "usage": usage(texts, self._per_prompt)}

    def _choice(self, index: int, text: str, listed: Sequence[Listed], finish: str | None) -> dict[str, Any]:
        logprobs = None
        if self._logprobs and listed:
            logprobs, self._offsets[index] = completion_logprobs(listed, self._tokenizer, self._offsets[index])
        return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish}
