"""Tool calls: the tools that a caller describes, which of them may be called, and the grammar that a call must follow.

A model writes calls in the form that it was trained on, which its chat template shows (``tool_call_form``). A tool is
described as OpenAI's interface does it: ``{"type": "function", "function": {"name", "description", "parameters"}}``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from snell.errors import ConfigError
from snell.llm.constraint import bounded_schema
from snell.llm.tokenizer import Tokenizer

__all__ = ["CallRules", "Tool", "ToolCallForm", "call_rules", "read_tools", "tools_grammar"]

# OpenAI's letters, and those of names that other protocols put together out of parts.
_NAME = re.compile(r"[\w.:/\-]{1,128}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Tool:
    """A function's name and the JSON schema of its arguments."""

    name: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CallRules:
    """Which ``tools`` may be called: at least one call where ``required``, several where ``parallel``.

    Where no call is made the text is any, or JSON of the schema ``answer``.
    """

    tools: tuple[Tool, ...]
    required: bool = False
    parallel: bool = True
    answer: Mapping[str, Any] | str | None = None


class ToolCallForm(Protocol):
    """How a family of models writes calls; ``names`` are the control tokens that are part of it."""

    @property
    def names(self) -> tuple[str, ...]:
        """Texts of the tokens that are to be read, control tokens or not."""
        ...

    def grammar(self, rules: CallRules, literal: Literal) -> str:
        """Lark rules but for ``arguments_0``, ``arguments_1``, …, and ``answer`` where the rules have one."""
        ...

    def begin(self, text: str) -> int | None:
        """Where the calls of the text begin, or None."""
        ...

    def held(self, text: str) -> int:
        """How many characters at the end of the text may be the beginning of a call."""
        ...

    def header(self, text: str) -> tuple[str, int] | None:
        """The name in the first call of the text, and where its arguments begin; None where that is yet to come."""
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
    found = [_tool(tool) for tool in cast("Sequence[object]", tools)]
    if not found:
        raise ConfigError("tools: expected at least one tool, received none; leave the option out")
    names = [tool.name for tool in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"tools: expected a name for each tool, received {twice!r} twice; rename one of them")
    return found


def call_rules(
    tools: Sequence[Mapping[str, Any]],
    choice: object = None,
    *,
    parallel: bool = True,
    answer: Mapping[str, Any] | str | None = None,
) -> CallRules | None:
    """What ``tool_choice`` makes of the tools; None where none may be called.

    ``choice`` is "auto" (or None), "none", "required", ``{"type": "function", "function": {"name": …}}`` for one tool,
    or ``{"type": "allowed_tools", "allowed_tools": {"mode": "auto" or "required", "tools": […]}}`` for some.
    """
    known = read_tools(tools)
    mode, names = _chosen(choice)
    unknown = next((name for name in names or () if name not in {tool.name for tool in known}), None)
    if unknown is not None:
        raise ConfigError(
            f"tool_choice: expected one of the tools {', '.join(tool.name for tool in known)}, received {unknown!r}"
        )
    if mode == "none":
        return None
    allowed = tuple(tool for tool in known if names is None or tool.name in names)
    return CallRules(allowed, mode == "required", parallel, answer)


def tools_grammar(form: ToolCallForm, rules: CallRules, tokenizer: Tokenizer) -> str:
    """The grammar of texts in which every call is one of the tools' with arguments of its schema."""
    parts = [form.grammar(rules, Literal(tokenizer))]
    for place, tool in enumerate(rules.tools):
        parts.append(f"arguments_{place}: %json {json.dumps(bounded_schema(tool.parameters))}")
    if rules.answer is not None:
        parts.append(f"answer: %json {json.dumps(bounded_schema(rules.answer))}")
    return "\n".join([*parts, ""])


def _tool(tool: object) -> Tool:
    function = cast("Mapping[str, Any]", tool).get("function") if isinstance(tool, Mapping) else None
    name = cast("Mapping[str, Any]", function).get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str) or not name:
        raise ConfigError(
            "tools: expected {'type': 'function', 'function': {'name': …, 'parameters': {…}}}, received " + repr(tool)
        )
    if not _NAME.fullmatch(name):
        raise ConfigError(f"tools: expected a name of at most 128 letters, digits and _ - . : /, received {name!r}")
    parameters = cast("Mapping[str, Any]", function).get("parameters") or {"properties": {}}
    if not isinstance(parameters, Mapping):
        raise ConfigError(f"tools: the parameters of {name!r}: expected a JSON schema, received {parameters!r}")
    schema = cast("Mapping[str, Any]", parameters)
    if schema.get("type", "object") != "object":
        raise ConfigError(
            f"tools: the parameters of {name!r}: expected a JSON schema of type 'object', received {schema['type']!r}"
        )
    return Tool(name, {"type": "object", **schema})


def _chosen(choice: object) -> tuple[str, list[str] | None]:
    """The mode, and the names of the tools that may be called (None: all of them)."""
    match choice:
        case None:
            return "auto", None
        case "auto" | "none" | "required":
            return choice, None
        case {"type": "function", "function": {"name": str(name)}}:
            return "required", [name]
        case {
            "type": "allowed_tools",
            "allowed_tools": {"mode": "auto" | "required" as mode, "tools": [_, *_] as tools},
        }:
            return mode, [_named(tool) for tool in cast("list[object]", tools)]
        case _:
            raise _wrong_choice(choice)


def _named(tool: object) -> str:
    match tool:
        case {"type": "function", "function": {"name": str(name)}}:
            return name
        case _:
            raise _wrong_choice(tool)


def _wrong_choice(received: object) -> ConfigError:
    return ConfigError(
        "tool_choice: expected 'auto', 'none', 'required', {'type': 'function', 'function': {'name': …}} or "
        f"{{'type': 'allowed_tools', 'allowed_tools': {{'mode': …, 'tools': […]}}}}, received {received!r}"
    )
