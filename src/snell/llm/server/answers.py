"""The shapes of answers: what a chat completion and a text completion look like, whole and as pieces of a stream."""

import time
import uuid
from collections.abc import Sequence
from typing import Any, Protocol

from snell.llm.generated_text import GeneratedText
from snell.llm.generation import Chunk
from snell.llm.server.logprobs import chat_logprobs, completion_logprobs
from snell.llm.tokenizer import Tokenizer

__all__ = ["Answer", "ChatAnswer", "CompletionAnswer", "usage"]


class Answer(Protocol):
    """How one request's texts are written down."""

    def whole(self, texts: Sequence[GeneratedText]) -> dict[str, Any]:
        """The answer when all texts have ended."""
        ...

    def opening(self, choices: int) -> list[dict[str, Any]]:
        """What a stream begins with."""
        ...

    def piece(self, index: int, chunk: Chunk) -> dict[str, Any]:
        """The part of a stream that a chunk is."""
        ...

    def closing(self, texts: Sequence[GeneratedText]) -> dict[str, Any]:
        """The part of a stream that tells the usage."""
        ...


def usage(texts: Sequence[GeneratedText], per_prompt: int) -> dict[str, int]:
    """Numbers of tokens of all texts; a prompt counts once however many choices it has."""
    prompt = sum(len(text.plan.prompt) for text in texts[::per_prompt])
    completion = sum(len(text.ids) for text in texts)
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


class ChatAnswer:
    """``chat.completion`` and ``chat.completion.chunk``."""

    def __init__(self, model: str, tokenizer: Tokenizer, *, logprobs: bool) -> None:
        self._tokenizer, self._logprobs = tokenizer, logprobs
        self._head = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": model}

    def whole(self, texts: Sequence[GeneratedText]) -> dict[str, Any]:
        choices = [
            {
                "index": index,
                "message": {"role": "assistant", "content": "".join(text.written), "refusal": None},
                "logprobs": chat_logprobs(text.logprobs, self._tokenizer) if self._logprobs else None,
                "finish_reason": text.finish,
            }
            for index, text in enumerate(texts)
        ]
        return {**self._head, "object": "chat.completion", "choices": choices, "usage": usage(texts, len(texts))}

    def opening(self, choices: int) -> list[dict[str, Any]]:
        return [self._delta(index, {"role": "assistant", "content": ""}, None, None) for index in range(choices)]

    def piece(self, index: int, chunk: Chunk) -> dict[str, Any]:
        listed = chat_logprobs(chunk.logprobs, self._tokenizer) if self._logprobs and chunk.logprobs else None
        return self._delta(index, {"content": chunk.text} if chunk.text else {}, listed, chunk.finish_reason)

    def closing(self, texts: Sequence[GeneratedText]) -> dict[str, Any]:
        return {**self._head, "object": "chat.completion.chunk", "choices": [], "usage": usage(texts, len(texts))}

    def _delta(self, index: int, delta: dict[str, Any], logprobs: object, finish: str | None) -> dict[str, Any]:
        choice = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
        return {**self._head, "object": "chat.completion.chunk", "choices": [choice]}


class CompletionAnswer:
    """``text_completion``; ``echoes`` are the prompts, one a text, where they are repeated before it."""

    def __init__(
        self, model: str, tokenizer: Tokenizer, echoes: Sequence[str], per_prompt: int, *, logprobs: bool
    ) -> None:
        self._tokenizer, self._logprobs = tokenizer, logprobs
        self._echoes, self._per_prompt = echoes, per_prompt
        self._offsets = [len(echo) for echo in echoes]
        self._head = {
            "id": f"cmpl-{uuid.uuid4().hex}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": model,
        }

    def whole(self, texts: Sequence[GeneratedText]) -> dict[str, Any]:
        choices = [
            self._choice(index, self._echoes[index] + "".join(text.written), text.logprobs, text.finish)
            for index, text in enumerate(texts)
        ]
        return {**self._head, "choices": choices, "usage": usage(texts, self._per_prompt)}

    def opening(self, choices: int) -> list[dict[str, Any]]:
        return [
            {**self._head, "choices": [self._choice(index, self._echoes[index], (), None)]}
            for index in range(choices)
            if self._echoes[index]
        ]

    def piece(self, index: int, chunk: Chunk) -> dict[str, Any]:
        return {**self._head, "choices": [self._choice(index, chunk.text, chunk.logprobs, chunk.finish_reason)]}

    def closing(self, texts: Sequence[GeneratedText]) -> dict[str, Any]:
        return {**self._head, "choices": [], "usage": usage(texts, self._per_prompt)}

    def _choice(self, index: int, text: str, listed: Sequence[Any], finish: str | None) -> dict[str, Any]:
        logprobs = None
        if self._logprobs and listed:
            logprobs = completion_logprobs(listed, self._tokenizer, self._offsets[index])
            self._offsets[index] += sum(map(len, logprobs["tokens"]))
        return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish}
