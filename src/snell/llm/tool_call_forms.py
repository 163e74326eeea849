"""The forms in which models write tool calls: Hermes' and Qwen's, Llama 3's, and Mistral's two.

Each is shown by a model's chat template; ``tool_call_form`` tells by what the template's text has in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from snell.errors import UnsupportedError
from snell.llm.generation import ToolCall
from snell.llm.tool_calls import Literal, Tool, ToolCallForm, tool_call

__all__ = ["ListedCalls", "NamedCalls", "TaggedCalls", "WholeCall", "tool_call_form"]

_ANY_TEXT = r"TEXT: /(.|\n)*/"


def tool_call_form(template: str) -> ToolCallForm:
    """The form that a chat template shows; an UnsupportedError where it is none of these."""
    if "<tool_call>" in template and "<function=" not in template and "<arg_key>" not in template:
        return TaggedCalls()
    if "[TOOL_CALLS]" in template:
        return NamedCalls() if "[ARGS]" in template else ListedCalls()
    if re.search(r'\\?"parameters\\?":', template) and re.search(r'\{\\?"name\\?":', template):
        return WholeCall()
    raise UnsupportedError(
        "tools: the model's chat template shows none of the known forms of tool calls (<tool_call> as Hermes and Qwen, "
        '[TOOL_CALLS] as Mistral, {"name": …, "parameters": …} as Llama 3); ask for JSON with json_schema instead'
    )


class _Marked:
    """Calls behind a marker, the first of the form's names."""

    __slots__ = ()
    names: ClassVar[tuple[str, ...]]

    def begin(self, text: str) -> int | None:
        """Where the first marker is."""
        at = text.find(self.names[0])
        return None if at < 0 else at

    def held(self, text: str) -> int:
        """Length of the longest end of the text with which the marker begins."""
        marker = self.names[0]
        return next((n for n in range(min(len(marker) - 1, len(text)), 0, -1) if marker.startswith(text[-n:])), 0)


@dataclass(frozen=True, slots=True)
class TaggedCalls(_Marked):
    """Hermes and Qwen: ``<tool_call>{"name": …, "arguments": {…}}</tool_call>``, once or more, after any text."""

    names: ClassVar[tuple[str, ...]] = ("<tool_call>", "</tool_call>")

    def grammar(self, tools: Sequence[Tool], literal: Literal) -> str:
        """Rules."""
        calls = (
            f"tool_{place}: {literal(_named(tool, 'arguments'))} arguments_{place} {literal('}' + _CLOSED)}"
            for place, tool in enumerate(tools)
        )
        return "\n".join(
            ["start: call* TEXT", f"call: trigger ({_any(tools)})", literal.trigger("<tool_call>"), *calls, _ANY_TEXT]
        )

    def read(self, text: str) -> list[ToolCall] | None:
        """Calls between tags, with nothing but white space around them."""
        pieces = re.split(r"</?tool_call>", text)
        if len(pieces) % 2 == 0 or any(piece.strip() for piece in pieces[::2]):
            return None
        return _all([tool_call(_json(piece), "arguments") for piece in pieces[1::2]])


@dataclass(frozen=True, slots=True)
class ListedCalls(_Marked):
    """Mistral to 2024: ``[TOOL_CALLS][{"name": …, "arguments": {…}}, …]``."""

    names: ClassVar[tuple[str, ...]] = ("[TOOL_CALLS]",)

    def grammar(self, tools: Sequence[Tool], literal: Literal) -> str:
        """Rules."""
        calls = (
            f"tool_{place}: {literal(_named(tool, 'arguments').lstrip())} arguments_{place} {literal('}')}"
            for place, tool in enumerate(tools)
        )
        return "\n".join(
            [
                "start: TEXT | list",
                'list: trigger / ?/ "[" call (", " call)* "]"',
                f"call: {_any(tools)}",
                literal.trigger("[TOOL_CALLS]"),
                *calls,
                _ANY_TEXT,
            ]
        )

    def read(self, text: str) -> list[ToolCall] | None:
        """The list after the marker."""
        value = _json(text.removeprefix("[TOOL_CALLS]"))
        return _all([tool_call(one, "arguments") for one in value]) if isinstance(value, list) else None


@dataclass(frozen=True, slots=True)
class NamedCalls(_Marked):
    """Mistral since 2025: ``[TOOL_CALLS]name[ARGS]{…}``, once or more."""

    names: ClassVar[tuple[str, ...]] = ("[TOOL_CALLS]", "[ARGS]")

    def grammar(self, tools: Sequence[Tool], literal: Literal) -> str:
        """Rules."""
        calls = (f"tool_{place}: {literal(tool.name + '[ARGS]')} arguments_{place}" for place, tool in enumerate(tools))
        return "\n".join(
            [
                "start: TEXT | calls",
                f"calls: trigger call ({literal('[TOOL_CALLS]')} call)*",
                f"call: {_any(tools)}",
                literal.trigger("[TOOL_CALLS]"),
                *calls,
                _ANY_TEXT,
            ]
        )

    def read(self, text: str) -> list[ToolCall] | None:
        """A name and JSON after each marker."""
        parts = (piece.partition("[ARGS]") for piece in text.split("[TOOL_CALLS]")[1:])
        return _all(
            [tool_call({"name": name.strip(), "arguments": _json(value)}, "arguments") for name, _, value in parts]
        )


@dataclass(frozen=True, slots=True)
class WholeCall:
    """Llama 3: the answer is ``{"name": …, "parameters": {…}}``, or is text that does not begin with a brace."""

    names: ClassVar[tuple[str, ...]] = ("<|python_tag|>",)

    def grammar(self, tools: Sequence[Tool], literal: Literal) -> str:
        """Rules."""
        tag = f"{literal('<|python_tag|>')}? " if "<|python_tag|>" in literal.tokenizer.control_tokens else ""
        calls = (
            f"tool_{place}: {literal(_named(tool, 'parameters').lstrip())} arguments_{place} {literal('}')}"
            for place, tool in enumerate(tools)
        )
        return "\n".join([f"start: TEXT? | {tag}({_any(tools)})", *calls, r"TEXT: /[^{\s](.|\n)*/"])

    def begin(self, text: str) -> int | None:
        """The first character, where it is a brace."""
        return 0 if text.lstrip().startswith(("{", "<|python_tag|>")) else None

    def held(self, text: str) -> int:
        """White space before anything else, and the beginning of the tag."""
        return len(text) if "<|python_tag|>".startswith(text.lstrip()) else 0

    def read(self, text: str) -> list[ToolCall] | None:
        """The object."""
        return _all([tool_call(_json(text.strip().removeprefix("<|python_tag|>")), "parameters")])


_CLOSED = "\n</tool_call>"


def _named(tool: Tool, arguments_key: str) -> str:
    return f'\n{{"name": {json.dumps(tool.name)}, "{arguments_key}": '


def _any(tools: Sequence[Tool]) -> str:
    return " | ".join(f"tool_{place}" for place in range(len(tools)))


def _json(text: str) -> object:
    """The value; None where the text is no JSON."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return None


def _all(calls: Sequence[ToolCall | None]) -> list[ToolCall] | None:
    """The calls, if every one is one."""
    found = list(_present(calls))
    return found if found and len(found) == len(calls) else None


def _present(calls: Sequence[ToolCall | None]) -> Iterator[ToolCall]:
    yield from (call for call in calls if call is not None)
