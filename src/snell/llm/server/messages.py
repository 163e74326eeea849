"""The messages of a conversation as a chat template wants them; whatever a message has that it may not is a 400."""

import json
from collections.abc import Collection, Mapping
from typing import Any, cast

from snell.llm.chat_template import wrong_role
from snell.llm.server.request_error import RequestError

__all__ = ["read_messages"]

_TO_TEMPLATE = ("name", "tool_call_id", "reasoning_content")
_KNOWN = frozenset({"role", "content", "tool_calls", "refusal", "annotations", *_TO_TEMPLATE})


def read_messages(given: object, roles: Collection[str]) -> list[dict[str, Any]]:
    """Messages with a role, one of ``roles``, with content as text, and with the arguments of calls as objects."""
    if not isinstance(given, list) or not given:
        raise RequestError(400, "messages: expected a list of at least one message", "messages")
    return [_message(f"messages[{place}]", one, roles) for place, one in enumerate(cast("list[Any]", given))]


def _message(name: str, given: object, roles: Collection[str]) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise RequestError(400, f"{name}: expected an object with a role", name)
    parts = {key: value for key, value in cast("dict[str, Any]", given).items() if value is not None}
    unknown = next((key for key in parts if key not in _KNOWN), None)
    if unknown is not None:
        raise RequestError(400, f"{name}.{unknown}: not supported by this server; leave it out", f"{name}.{unknown}")
    role = parts.get("role")
    if not isinstance(role, str) or role not in roles:
        raise RequestError(400, f"{name}.role: {wrong_role(role, roles)}", f"{name}.role")
    # Templates know of "system"; the newer name means the same.
    message: dict[str, Any] = {"role": "system" if role == "developer" else role}
    calls = _calls(f"{name}.tool_calls", parts.get("tool_calls"))
    if calls:
        message["tool_calls"] = calls
    message["content"] = _content(f"{name}.content", parts.get("content", parts.get("refusal")), may_lack=bool(calls))
    for key in _TO_TEMPLATE:
        if key in parts:
            message[key] = _text(f"{name}.{key}", parts[key])
    return message


def _content(name: str, content: object, *, may_lack: bool) -> str:
    """A message's text, whether it came whole or in parts."""
    if isinstance(content, str):
        return content
    if content is None and may_lack:
        return ""
    if isinstance(content, list):
        texts = [_part_text(part) for part in cast("list[object]", content)]
        if None not in texts:
            return "".join(cast("list[str]", texts))
    raise RequestError(400, f"{name}: expected a string, or parts of type text", name)


def _part_text(part: object) -> str | None:
    match part:
        case {"type": "text", "text": str(text)} | {"type": "refusal", "refusal": str(text)}:
            return text
        case _:
            return None


def _text(name: str, given: object) -> str:
    if not isinstance(given, str):
        raise RequestError(400, f"{name}: expected a string", name)
    return given


def _calls(name: str, given: object) -> list[dict[str, Any]]:
    if given is None:
        return []
    if not isinstance(given, list):
        raise RequestError(400, f"{name}: expected a list of calls", name)
    return [_call(f"{name}[{place}]", one) for place, one in enumerate(cast("list[object]", given))]


def _call(name: str, given: object) -> dict[str, Any]:
    """A call of an earlier turn: its arguments come as text, and templates write them as JSON themselves."""
    match given:
        case {"function": {"name": str(function), "arguments": str() | Mapping() as arguments}}:
            id_ = cast("Mapping[str, Any]", given).get("id")
        case _:
            raise RequestError(
                400, f"{name}: expected {{'id': …, 'type': 'function', 'function': {{'name', 'arguments'}}}}", name
            )
    call = {"type": "function", "function": {"name": function, "arguments": _arguments(name, arguments)}}
    return call if id_ is None else {"id": _text(f"{name}.id", id_), **call}


def _arguments(name: str, given: str | Mapping[str, Any]) -> Mapping[str, Any]:
    where = f"{name}.function.arguments"
    value: object = given
    if isinstance(given, str):
        try:
            value = json.loads(given or "{}")
        except (ValueError, RecursionError) as error:
            raise RequestError(
                400, f"{where}: expected the JSON of an object, received none: {error}", where
            ) from error
    if not isinstance(value, Mapping):
        raise RequestError(400, f"{where}: expected the JSON of an object, received another value", where)
    return cast("Mapping[str, Any]", value)
