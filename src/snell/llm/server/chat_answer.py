"""ChatAnswer: ``chat.completion`` and ``chat.completion.chunk``, with calls of tools and what the model thought."""

import time
import uuid
from collections.abc import Sequence
from typing import Any

from snell.llm.generated_text import GeneratedText
from snell.llm.generation import Chunk, ToolCallDelta
from snell.llm.server.answers import usage
from snell.llm.server.logprobs import chat_logprobs
from snell.llm.tokenizer import Tokenizer

__all__ = ["ChatAnswer"]


class ChatAnswer:
    """The pieces of a stream, joined, are the whole answer."""

    def __init__(self, model: str, tokenizer: Tokenizer, *, logprobs: bool) -> None:
        self._tokenizer, self._logprobs = tokenizer, logprobs
        self._head = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": model}

    def whole(self, texts: Sequence[GeneratedText]) -> dict[str, Any]:
        choices = [
            {
                "index": index,
                "message": _message(text),
                "logprobs": chat_logprobs(text.logprobs, self._tokenizer) if self._logprobs else None,
                "finish_reason": text.finish,
            }
            for index, text in enumerate(texts)
        ]
        return {**self._head, "object": "chat.completion", "choices": choices, "usage": usage(texts, len(texts))}

    def opening(self, choices: int) -> list[dict[str, Any]]:
        return [self._part(index, {"role": "assistant", "content": ""}, None, None) for index in range(choices)]

    def piece(self, index: int, chunk: Chunk) -> dict[str, Any] | None:
        delta: dict[str, Any] = {}
        if chunk.thinking:
            delta["reasoning_content"] = chunk.thinking
        if chunk.text:
            delta["content"] = chunk.text
        if chunk.tool_call_deltas:
            delta["tool_calls"] = list(map(_delta, chunk.tool_call_deltas))
        listed = chat_logprobs(chunk.logprobs, self._tokenizer) if self._logprobs and chunk.logprobs else None
        if not delta and listed is None and chunk.finish_reason is None:
            return None
        return self._part(index, delta, listed, chunk.finish_reason)

    def closing(self, texts: Sequence[GeneratedText]) -> dict[str, Any]:
        return {**self._head, "object": "chat.completion.chunk", "choices": [], "usage": usage(texts, len(texts))}

    def _part(self, index: int, delta: dict[str, Any], logprobs: object, finish: str | None) -> dict[str, Any]:
        choice = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
        return {**self._head, "object": "chat.completion.chunk", "choices": [choice]}


def _message(text: GeneratedText) -> dict[str, Any]:
    content, reasoning, calls = "".join(text.written), "".join(text.thinking), _calls(text.tool_call_deltas)
    message: dict[str, Any] = {"role": "assistant", "content": content or (None if calls else ""), "refusal": None}
    if reasoning:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = calls
    return message


def _delta(delta: ToolCallDelta) -> dict[str, Any]:
    if delta.name is None:
        return {"index": delta.index, "function": {"arguments": delta.arguments}}
    function = {"name": delta.name, "arguments": delta.arguments}
    return {"index": delta.index, "id": delta.id, "type": "function", "function": function}


def _calls(deltas: Sequence[ToolCallDelta]) -> list[dict[str, Any]]:
    """The calls as the model wrote them; the arguments of one that was cut short are no JSON, as with OpenAI."""
    return [
        {
            "id": head.id,
            "type": "function",
            "function": {
                "name": head.name,
                "arguments": "".join(delta.arguments for delta in deltas if delta.index == head.index),
            },
        }
        for head in deltas
        if head.name is not None
    ]
