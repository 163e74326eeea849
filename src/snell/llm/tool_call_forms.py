"""The forms in which models write tool calls: Hermes' and Qwen's, Llama 3's, and Mistral's two.

Each is shown by a model's chat template; ``tool_call_form`` tells by what the template's text has in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from snell.errors import UnsupportedError
from snell.llm.tool_calls import CallRules, Literal, Tool, ToolCallForm

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


def _named_object(arguments_key: str) -> re.Pattern[str]:
    """The beginning of an object with a name, up to the object of its arguments."""
    return re.compile(rf'\{{\s*"name":\s*("(?:[^"\\]|\\.)*")\s*,\s*"{arguments_key}":\s*(?=\{{)')


_ARGUMENTS, _PARAMETERS = _named_object("arguments"), _named_object("parameters")
_BEFORE_ARGUMENTS = re.compile(r"\[TOOL_CALLS\]\s*([^\[{]*?)\s*\[ARGS\]\s*(?=\{)")


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

    def grammar(self, rules: CallRules, literal: Literal) -> str:
        """Rules."""
        more = rf'("\n" {literal("<tool_call>")} call)* "\n"?' if rules.parallel else ""
        calls = (
            f"tool_{place}: {literal(_named(tool, 'arguments'))} arguments_{place} {literal('}' + _CLOSED)}"
            for place, tool in enumerate(rules.tools)
        )
        start = _start_marked(rules, literal, "<tool_call>", lambda begin: f"{begin} call {more}")
        return "\n".join([start, f"call: {_any(rules)}", *calls])

    def header(self, text: str) -> tuple[str, int] | None:
        """The name of an object."""
        return _quoted_name(_ARGUMENTS.search(text))


@dataclass(frozen=True, slots=True)
class ListedCalls(_Marked):
    """Mistral to 2024: ``[TOOL_CALLS][{"name": …, "arguments": {…}}, …]``."""

    names: ClassVar[tuple[str, ...]] = ("[TOOL_CALLS]",)

    def grammar(self, rules: CallRules, literal: Literal) -> str:
        """Rules."""
        more = '(", " call)*' if rules.parallel else ""
        calls = (
            f"tool_{place}: {literal(_named(tool, 'arguments').lstrip())} arguments_{place} {literal('}')}"
            for place, tool in enumerate(rules.tools)
        )
        start = _start_marked(rules, literal, "[TOOL_CALLS]", lambda begin: f'{begin} / ?/ "[" call {more} "]"')
        return "\n".join([start, f"call: {_any(rules)}", *calls])

    def header(self, text: str) -> tuple[str, int] | None:
        """The name of an object."""
        return _quoted_name(_ARGUMENTS.search(text))


@dataclass(frozen=True, slots=True)
class NamedCalls(_Marked):
    """Mistral since 2025: ``[TOOL_CALLS]name[ARGS]{…}``, once or more."""

    names: ClassVar[tuple[str, ...]] = ("[TOOL_CALLS]", "[ARGS]")

    def grammar(self, rules: CallRules, literal: Literal) -> str:
        """Rules."""
        more = f"({literal('[TOOL_CALLS]')} call)*" if rules.parallel else ""
        calls = (
            f"tool_{place}: {literal(tool.name + '[ARGS]')} arguments_{place}" for place, tool in enumerate(rules.tools)
        )
        start = _start_marked(rules, literal, "[TOOL_CALLS]", lambda begin: f"{begin} call {more}")
        return "\n".join([start, f"call: {_any(rules)}", *calls])

    def header(self, text: str) -> tuple[str, int] | None:
        """The name between the markers."""
        found = _BEFORE_ARGUMENTS.search(text)
        return None if found is None else (found[1], found.end())


@dataclass(frozen=True, slots=True)
class WholeCall:
    """Llama 3: the answer is ``{"name": …, "parameters": {…}}``, or is text that does not begin with a brace."""

    names: ClassVar[tuple[str, ...]] = ("<|python_tag|>",)

    def grammar(self, rules: CallRules, literal: Literal) -> str:
        """Rules."""
        tag = f"{literal('<|python_tag|>')}? " if "<|python_tag|>" in literal.tokenizer.control_tokens else ""
        # Piece by piece, as JSON is read: a longer piece would hide an answer in JSON that begins as it does.
        calls = (
            rf"""tool_{place}: "{{" "\"name\"" ":" " "? {json.dumps(json.dumps(tool.name))} "," " "? """
            rf""""\"parameters\"" ":" " "? arguments_{place} "}}" """
            for place, tool in enumerate(rules.tools)
        )
        return "\n".join([*_start(rules, f"{tag}({_any(rules)})", "TEXT?", r"TEXT: /[^{\s](.|\n)*/"), *calls])

    def begin(self, text: str) -> int | None:
        """The first character, where it is a brace."""
        return 0 if text.lstrip().startswith(("{", "<|python_tag|>")) else None

    def held(self, text: str) -> int:
        """White space before anything else, and the beginning of the tag."""
        return len(text) if "<|python_tag|>".startswith(text.lstrip()) else 0

    def header(self, text: str) -> tuple[str, int] | None:
        """The name of the object."""
        return _quoted_name(_PARAMETERS.search(text))


_CLOSED = "\n</tool_call>"


def _start_marked(rules: CallRules, literal: Literal, marker: str, calls: Callable[[str], str]) -> str:
    """The rule ``start`` of a form with a marker; ``calls`` are those that the given rule begins."""
    if rules.required or rules.answer is not None:
        return "\n".join(_start(rules, calls(literal(marker))))
    return "\n".join(_start(rules, calls("trigger"), "TEXT", literal.trigger(marker), _ANY_TEXT))


def _start(rules: CallRules, calls: str, text: str = "", *text_rules: str) -> list[str]:
    if rules.required:
        return [f"start: {calls}"]
    if rules.answer is not None:
        return [f"start: answer | {calls}"]
    return [f"start: {text} | {calls}", *text_rules]


def _named(tool: Tool, arguments_key: str) -> str:
    return f'\n{{"name": {json.dumps(tool.name)}, "{arguments_key}": '


def _any(rules: CallRules) -> str:
    return " | ".join(f"tool_{place}" for place in range(len(rules.tools)))


def _quoted_name(found: re.Match[str] | None) -> tuple[str, int] | None:
    return None if found is None else (json.loads(found[1]), found.end())
