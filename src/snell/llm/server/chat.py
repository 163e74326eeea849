"""``/v1/chat/completions``: the answer to a conversation."""

from collections.abc import Mapping
from typing import Any, cast

from snell.llm.generated_text import GeneratedText
from snell.llm.server.answers import ChatAnswer
from snell.llm.server.fields import Fields
from snell.llm.server.generation_fields import Delivery, delivery, sampling_options
from snell.llm.server.request_error import RequestError
from snell.llm.server.service import Service

__all__ = ["chat_texts"]

_MOST_TOP = 20


def chat_texts(fields: Fields, service: Service) -> tuple[list[GeneratedText], ChatAnswer, Delivery]:
    """The texts to generate for a request, and how to answer with them."""
    model, _ = service.generator()
    how = delivery(fields)
    messages = _messages(fields.needed("messages"))
    limit = _limit(fields)
    logprobs = fields.flag("logprobs")
    top = fields.whole("top_logprobs", 0, 0, _MOST_TOP)
    if top and not logprobs:
        raise RequestError(400, "top_logprobs: only where logprobs is true", "top_logprobs")
    options = [sampling_options(fields, limit, top if logprobs else None, choice) for choice in range(how.choices)]
    _refuse_unsupported(fields)
    fields.end()
    first = service.planned(messages, options[0])
    ids = list(first.plan.prompt)
    texts = [first, *(service.planned(ids, option) for option in options[1:])]
    return texts, ChatAnswer(service.settings.name, model.tokenizer, logprobs=logprobs), how


def _limit(fields: Fields) -> int | None:
    newer, older = fields.value("max_completion_tokens"), fields.value("max_tokens")
    name = "max_tokens" if newer is None else "max_completion_tokens"
    return None if newer is None and older is None else fields.whole(name, 1, 1, 2**31)


def _refuse_unsupported(fields: Fields) -> None:
    """Each of these asks for something in the answer that would silently be missing."""
    fields.neutral("tools", [], instead="describe them in the prompt")
    fields.neutral("tool_choice", "none", "auto")
    fields.neutral("functions", [])
    fields.neutral("function_call", "none", "auto")
    fields.neutral("response_format", {"type": "text"}, instead="ask for the format in the prompt")
    fields.neutral("modalities", ["text"])
    fields.ignored("parallel_tool_calls")


def _messages(given: object) -> list[dict[str, Any]]:
    if not isinstance(given, list) or not given:
        raise RequestError(400, "messages: expected a list of at least one message", "messages")
    return [_message(place, message) for place, message in enumerate(cast("list[Any]", given))]


def _message(place: int, message: Any) -> dict[str, Any]:
    name = f"messages[{place}]"
    if not isinstance(message, Mapping) or not isinstance(cast("Mapping[str, Any]", message).get("role"), str):
        raise RequestError(400, f"{name}: expected an object with a role", name)
    parts = cast("Mapping[str, Any]", message)
    # Templates know of "system"; the newer name means the same.
    role = "system" if parts["role"] == "developer" else parts["role"]
    return {**parts, "role": role, "content": _content(name, parts.get("content"))}


def _content(name: str, content: object) -> str:
    """A message's text, whether it came whole or in parts."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if isinstance(content, list):
        parts = cast("list[Any]", content)
        if all(isinstance(part, Mapping) and isinstance(part.get("text"), str) for part in parts):
            return "".join(part["text"] for part in parts)
    raise RequestError(400, f"{name}.content: expected a string, or parts of type text", f"{name}.content")
