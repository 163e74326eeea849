"""The interface of a model's programs: names of inputs, outputs and sizes, and what a step may return."""

from enum import Enum

__all__ = ["LENGTHS", "PAST", "RESULT", "TEXTS", "TOKENS", "StepResult"]

TOKENS, LENGTHS, PAST, TEXTS, RESULT = "tokens", "lengths", "past", "texts", "result"


class StepResult(Enum):
    """What a step returns: f32 (vocabulary,), (tokens, vocabulary) or (tokens, d)."""

    LAST_LOGITS = "last_logits"
    ALL_LOGITS = "all_logits"
    HIDDEN = "hidden"
