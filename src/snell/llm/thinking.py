"""Thinking: what a model writes for itself before it answers, told apart from the answer.

Models that think put it between two tags, which their chat templates name; some templates write the first one themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

__all__ = ["ThinkingReader", "ThinkingTags", "thinking_tags"]


@dataclass(frozen=True, slots=True)
class ThinkingTags:
    """The texts of the two tags."""

    open: str
    close: str


_KNOWN = (
    ThinkingTags("<think>", "</think>"),
    ThinkingTags("[THINK]", "[/THINK]"),
    ThinkingTags("<seed:think>", "</seed:think>"),
)


def thinking_tags(template: str) -> ThinkingTags | None:
    """The tags that a chat template names; None where it names none."""
    return next((tags for tags in _KNOWN if tags.close in template), None)


class _State(Enum):
    UNDECIDED = auto()
    THINKING = auto()
    ANSWERING = auto()


class ThinkingReader:
    """Takes an answer piece by piece; ``begun`` where the prompt ends with the first tag.

    White space around the tags belongs to neither part.
    """

    def __init__(self, tags: ThinkingTags, *, begun: bool) -> None:
        self.tags = tags
        self._state = _State.THINKING if begun else _State.UNDECIDED
        self._held = ""
        self._is_empty = True  # nothing of the part that is being read has been given out

    @property
    def is_thinking(self) -> bool:
        """Whether the next token is part of the thinking."""
        return self._state is _State.THINKING

    @property
    def is_undecided(self) -> bool:
        """Whether the model may still begin to think."""
        return self._state is _State.UNDECIDED

    def push(self, text: str) -> tuple[str, str]:
        """What is thinking for certain, and what is the answer for certain."""
        self._held += text
        if self._state is _State.UNDECIDED:
            self._decide()
        thought = self._thought() if self._state is _State.THINKING else ""
        return thought, self._answer() if self._state is _State.ANSWERING else ""

    def finish(self) -> tuple[str, str]:
        """What was held back, at the end of the text."""
        rest, self._held = self._held, ""
        if self._state is _State.THINKING:
            return rest.rstrip(), ""
        return "", rest

    def _decide(self) -> None:
        begin = self._held.lstrip()
        if begin.startswith(self.tags.open):
            self._state, self._held = _State.THINKING, begin.removeprefix(self.tags.open)
        elif not self.tags.open.startswith(begin):
            self._state, self._is_empty = _State.ANSWERING, False

    def _thought(self) -> str:
        at = self._held.find(self.tags.close)
        if at >= 0:
            thought, self._held = self._held[:at].rstrip(), self._held[at + len(self.tags.close) :]
            self._state = _State.ANSWERING
            thought = thought.lstrip() if self._is_empty else thought
            self._is_empty = True
            return thought
        return self._given(len(self._held) - _begun(self._held, self.tags.close))

    def _answer(self) -> str:
        if not self._is_empty:
            answer, self._held = self._held, ""
            return answer
        self._held = self._held.lstrip()
        return self._given(len(self._held))

    def _given(self, end: int) -> str:
        """The held text up to there, but for white space at its ends that may be the end of the part."""
        text = self._held[:end]
        if self._state is _State.THINKING:
            text = text.rstrip()
        self._held = self._held[len(text) :]
        text = text.lstrip() if self._is_empty else text
        self._is_empty = self._is_empty and not text
        return text


def _begun(text: str, tag: str) -> int:
    """Length of the longest end of the text with which the tag begins."""
    return next((n for n in range(min(len(tag) - 1, len(text)), 0, -1) if tag.startswith(text[-n:])), 0)
