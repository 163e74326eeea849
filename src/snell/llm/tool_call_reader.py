"""ToolCallReader: takes the calls out of a text that appears piece by piece.

A call's name and the pieces of its arguments come as soon as they are certain. Texts that follow the grammar of their
tools hold only what the reader knows; a call that was cut short in its arguments is no call, and no text either.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field

from snell.llm.generation import ToolCall, ToolCallDelta
from snell.llm.tool_calls import ToolCallForm

__all__ = ["ToolCallReader"]


class ToolCallReader:
    """``calls`` are those that are complete."""

    def __init__(self, form: ToolCallForm) -> None:
        self._form = form
        self._before, self._held = "", ""
        self._begun = False
        self._open: _OpenCall | None = None
        self.calls: list[ToolCall] = []

    @property
    def is_cut(self) -> bool:
        """Whether a call has begun whose arguments have not ended."""
        return self._open is not None

    def push(self, text: str) -> tuple[str, tuple[ToolCallDelta, ...]]:
        """What is text for certain, and what is a call for certain."""
        self._held += text
        shown = "" if self._begun else self._text()
        return shown, tuple(self._deltas()) if self._begun else ()

    def finish(self) -> str:
        """What was held back and is text after all: the beginning of a call that has no name yet."""
        rest, self._held = self._held, ""
        return "" if self.calls or self._open is not None else rest

    def _text(self) -> str:
        # Where calls begin depends on what was shown before them.
        text = self._before + self._held
        begin = self._form.begin(text)
        self._begun = begin is not None
        end = len(text) - self._form.held(text) if begin is None else begin
        shown, self._before, self._held = text[len(self._before) : end], text[:end], text[end:]
        return shown

    def _deltas(self) -> Iterator[ToolCallDelta]:
        while True:
            if self._open is None:
                header = self._form.header(self._held)
                if header is None:
                    return
                name, begin = header
                self._held = self._held[begin:]
                # Nine letters and digits: some templates insist on it.
                self._open = _OpenCall(secrets.token_hex(5)[:9], name)
                yield ToolCallDelta(len(self.calls), "", self._open.id, name)
            piece, self._held = self._open.take(self._held)
            if piece:
                yield ToolCallDelta(len(self.calls), piece)
            if not self._open.is_complete:
                return
            self.calls.append(self._open.call())
            self._open = None


@dataclass(slots=True)
class _OpenCall:
    """A call whose arguments, a JSON object, are being read."""

    id: str
    name: str
    is_complete: bool = False
    _pieces: list[str] = field(default_factory=list[str])
    _depth: int = 0
    _in_string: bool = False
    _escaped: bool = False

    def take(self, text: str) -> tuple[str, str]:
        """The part of the text that belongs to the object, and the rest."""
        end = next((place for place, character in enumerate(text, 1) if self._ends(character)), len(text))
        self._pieces.append(text[:end])
        return text[:end], text[end:]

    def call(self) -> ToolCall:
        """The complete call."""
        return ToolCall(self.id, self.name, json.loads("".join(self._pieces)))

    def _ends(self, character: str) -> bool:
        """Whether the object ends with this character."""
        if self._in_string:
            self._in_string = self._escaped or character != '"'
            self._escaped = character == "\\" and not self._escaped
        elif character == '"':
            self._in_string = True
        elif character in "{[":
            self._depth += 1
        elif character in "}]":
            self._depth -= 1
            self.is_complete = self._depth == 0
        return self.is_complete
