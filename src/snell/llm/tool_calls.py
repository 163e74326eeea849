"""Tool calls in a model's text: the grammar that a call must follow, and the calls that a text holds.

A model writes calls in the form that it was trained on, which its chat template shows (``tool_call_form``). A tool is
described as OpenAI's interface does it: ``{"type": "function", "function": {"name", "description", "parameters"}}``.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from snell.errors import ConfigError
from snell.llm.constraint import bounded_schema
from snell.llm.generation import ToolCall
from snell.llm.tokenizer import Tokenizer

__all__ = ["Tool", "ToolCallForm", "ToolCallReader", "read_tools", "tool_call", "tools_grammar"]


@dataclass(frozen=True, slots=True)
class Tool:
    """A function's name and the JSON schema of its arguments."""

    name: str
    parameters: Mapping[str, Any]


class ToolCallForm(Protocol):
    """How a family of models writes calls; ``names`` are the control tokens that are part of it."""

    @property
    def names(self) -> tuple[str, ...]:
        """Texts of the tokens that are to be read, control tokens or not."""
        ...

    def grammar(self, tools: Sequence[Tool], literal: Literal) -> str:
        """Lark rules without those of the arguments: free text, or calls with ``arguments_0``, ``arguments_1``, …"""
        ...

    def begin(self, text: str) -> int | None:
        """Where the calls of the text begin, or None."""
        ...

    def held(self, text: str) -> int:
        """How many characters at the end of the text may be the beginning of a call."""
        ...

    def read(self, text: str) -> list[ToolCall] | None:
        """The calls of a text that begins with one; None where it is none."""
        ...


@dataclass(frozen=True, slots=True)
class Literal:
    """Writes fixed text in a grammar: control tokens by their id, the rest as a string."""

    tokenizer: Tokenizer

    def __call__(self, text: str) -> str:
        pieces = self.tokenizer.split_control(text)
        return " ".join(f"<[{p}]>" if isinstance(p, int) else json.dumps(p, ensure_ascii=False) for p in pieces)

    def trigger(self, marker: str) -> str:
        """The rule ``trigger``: any text up to the marker."""
        lazy = "" if marker in self.tokenizer.control_tokens else "[lazy]"
        return f"trigger{lazy}: TEXT {self(marker)}"


def read_tools(tools: Sequence[Mapping[str, Any]]) -> list[Tool]:
    """The tools that a caller described; what is no description is a ConfigError."""
    found: list[Tool] = []
    for tool in cast("Sequence[object]", tools):
        function = cast("Mapping[str, Any]", tool).get("function") if isinstance(tool, Mapping) else None
        name = cast("Mapping[str, Any]", function).get("name") if isinstance(function, Mapping) else None
        if not isinstance(name, str) or not name:
            raise ConfigError(
                "tools: expected {'type': 'function', 'function': {'name': …, 'parameters': {…}}}, received "
                + repr(tool)
            )
        parameters = cast("Mapping[str, Any]", function).get("parameters") or {"type": "object", "properties": {}}
        if not isinstance(parameters, Mapping):
            raise ConfigError(f"tools: the parameters of {name!r}: expected a JSON schema, received {parameters!r}")
        found.append(Tool(name, cast("Mapping[str, Any]", parameters)))
    if not found:
        raise ConfigError("tools: expected at least one tool, received none; leave the option out")
    return found


def tools_grammar(form: ToolCallForm, tools: Sequence[Tool], tokenizer: Tokenizer) -> str:
    """The grammar of texts in which every call is one of the tools' with arguments of its schema."""
    schemas = (json.dumps(bounded_schema(tool.parameters)) for tool in tools)
    arguments = (f"arguments_{place}: %json {schema}" for place, schema in enumerate(schemas))
    return "\n".join([form.grammar(tools, Literal(tokenizer)), *arguments, ""])


def tool_call(value: object, arguments_key: str) -> ToolCall | None:
    """The call that a JSON object with a name and arguments is."""
    if not isinstance(value, Mapping):
        return None
    call = cast("Mapping[str, Any]", value)
    name, arguments = call.get("name"), call.get(arguments_key)
    if not isinstance(name, str) or not isinstance(arguments, Mapping):
        return None
    # Nine letters and digits: some templates insist on it.
    return ToolCall(secrets.token_hex(5)[:9], name, dict(cast("Mapping[str, Any]", arguments)))


class ToolCallReader:
    """Takes a text piece by piece; what may be a call is held back until the end."""

    def __init__(self, form: ToolCallForm) -> None:
        self._form = form
        self._text = ""
        self._shown = 0
        self._begun = False

    def push(self, text: str) -> str:
        """The text that can be shown already."""
        self._text += text
        if self._begun:
            return ""
        begin = self._form.begin(self._text)
        self._begun = begin is not None
        start = self._shown
        self._shown = len(self._text) - self._form.held(self._text) if begin is None else begin
        return self._text[start : self._shown]

    def finish(self) -> tuple[str, tuple[ToolCall, ...]]:
        """The rest of the text, and its calls; a call that was cut short is text."""
        rest = self._text[self._shown :]
        calls = self._form.read(rest) if self._begun else None
        return ("", tuple(calls)) if calls else (rest, ())
