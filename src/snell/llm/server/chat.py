"""``/v1/chat/completions``: the answer to a conversation."""

from collections.abc import Mapping
from typing import Any, cast

from snell.llm.chat_template import known_roles
from snell.llm.generated_text import GeneratedText
from snell.llm.server.chat_answer import ChatAnswer
from snell.llm.server.fields import Fields
from snell.llm.server.generation_fields import Delivery, Demands, delivery, sampling_options
from snell.llm.server.messages import read_messages
from snell.llm.server.request_error import RequestError, unsupported
from snell.llm.server.service import Service

__all__ = ["chat_texts"]

_MOST_TOP = 20
_MOST_TOOLS = 128
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")


def chat_texts(fields: Fields, service: Service) -> tuple[list[GeneratedText], ChatAnswer, Delivery]:
    """The texts to generate for a request, and how to answer with them."""
    model, _ = service.generator()
    how = delivery(fields)
    service.check_texts(how.choices, "n")
    template = "" if model.parts.template is None else model.parts.template.text
    messages = read_messages(fields.needed("messages"), known_roles(template))
    limit = _limit(fields)
    logprobs = fields.flag("logprobs")
    top = fields.whole("top_logprobs", 0, 0, _MOST_TOP)
    if top and not logprobs:
        raise RequestError(400, "top_logprobs: only where logprobs is true", "top_logprobs")
    demands = _demands(fields, template)
    listed = top if logprobs else None
    options = [sampling_options(fields, limit, listed, choice, demands) for choice in range(how.choices)]
    _refuse_unsupported(fields)
    fields.end()
    texts = service.planned(messages, options, split_thinking=True)
    return texts, ChatAnswer(service.settings.name, model.tokenizer, logprobs=logprobs), how


def _limit(fields: Fields) -> int | None:
    newer, older = fields.value("max_completion_tokens"), fields.value("max_tokens")
    name = "max_tokens" if newer is None else "max_completion_tokens"
    return None if newer is None and older is None else fields.whole(name, 1, 1, 2**31)


def _demands(fields: Fields, template: str) -> Demands:
    """What the text may be, and what the template is told."""
    tools = fields.value("tools")
    if tools is not None and (not isinstance(tools, list) or len(cast("list[Any]", tools)) > _MOST_TOOLS):
        raise RequestError(400, f"tools: expected a list of at most {_MOST_TOOLS} tools", "tools")
    for place, tool in enumerate(cast("list[Any]", tools or [])):
        kind = cast("Mapping[str, Any]", tool).get("type") if isinstance(tool, Mapping) else None
        if kind != "function":
            name = f"tools[{place}].type"
            raise RequestError(400, f"{name}: expected 'function', received {kind!r:.80}", name)
    return {
        "tools": tools or None,
        "tool_choice": fields.value("tool_choice"),
        "parallel_tool_calls": fields.flag("parallel_tool_calls", True),
        "json_schema": _schema(fields),
        "template_variables": _template_variables(fields, template),
    }


def _schema(fields: Fields) -> Mapping[str, Any] | None:
    fields.means("response_format", "json_schema")
    match fields.value("response_format"):
        case None | {"type": "text"}:
            return None
        case {"type": "json_object"}:
            return {"type": "object"}
        case {"type": "json_schema", "json_schema": {"schema": Mapping() as schema}}:
            return cast("Mapping[str, Any]", schema)
        case received:
            raise RequestError(
                400,
                "response_format: expected {'type': 'text'}, {'type': 'json_object'} or {'type': 'json_schema', "
                f"'json_schema': {{'name': …, 'schema': {{…}}}}}}, received {received!r:.200}",
                "response_format",
            )


def _template_variables(fields: Fields, template: str) -> Mapping[str, Any] | None:
    """``chat_template_kwargs``, and ``reasoning_effort`` in the words of the template."""
    fields.means("chat_template_kwargs", "template_variables")
    given = fields.value("chat_template_kwargs")
    if fields.value("reasoning_effort") is None:
        return given
    effort = fields.text("reasoning_effort", "", _EFFORTS)
    if "reasoning_effort" in template:
        asked: dict[str, Any] = {"reasoning_effort": effort}
    elif "enable_thinking" in template:
        asked = {"enable_thinking": effort != "none"}
    else:
        raise unsupported("reasoning_effort", "the model's chat template knows of none, leave it out")
    return asked if given is None else {**asked, **given} if isinstance(given, dict) else given


def _refuse_unsupported(fields: Fields) -> None:
    """Each of these asks for something in the answer that would silently be missing."""
    fields.neutral("functions", [], instead="use tools")
    fields.neutral("function_call", "none", "auto", instead="use tool_choice")
    fields.neutral("modalities", ["text"])
    fields.neutral("verbosity", "medium")
