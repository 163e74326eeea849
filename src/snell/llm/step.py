"""The interface of a model's programs: names of inputs, outputs and sizes, and what a step may return."""

from enum import Enum

__all__ = ["LENGTHS", "PAST", "POSITIONS", "RESULT", "TEXTS", "TOKENS", "StepResult", "text_past", "text_prefix"]

TOKENS, LENGTHS, PAST, TEXTS, RESULT, POSITIONS = "tokens", "lengths", "past", "texts", "result", "positions"


class StepResult(Enum):
    """What a step returns: f32 (vocabulary,), (tokens, vocabulary) or (tokens, d)."""

    LAST_LOGITS = "last_logits"
    ALL_LOGITS = "all_logits"
    HIDDEN = "hidden"


def text_prefix(text: int) -> str:
    """What the names of a text's cache arrays begin with in a program of several texts."""
    return f"text.{text}."


def text_past(text: int) -> str:
    """The size that says how many positions a text of several has."""
    return f"{PAST}.{text}"
