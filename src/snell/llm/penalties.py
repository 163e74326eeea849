"""Penalties: tokens that were used become less likely.

``repetition`` divides positive scores of tokens of the prompt and the text, and multiplies negative ones
(https://arxiv.org/abs/1909.05858); ``frequency`` is taken off a score for each time that the text has the token, and
``presence`` once if it has it. 1, 0 and 0 change nothing.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Penalties", "UsedTokens"]


@dataclass(frozen=True, slots=True)
class Penalties:
    """The three numbers."""

    repetition: float = 1.0
    frequency: float = 0.0
    presence: float = 0.0

    @property
    def neutral(self) -> bool:
        """Whether they change nothing."""
        return self == Penalties()


class UsedTokens:
    """The tokens of a prompt, and how often each token was written since."""

    def __init__(self, prompt: Sequence[int] = ()) -> None:
        self._prompt = frozenset(prompt)
        self._written: Counter[int] = Counter()

    def add(self, token_id: int) -> None:
        """A token was written."""
        self._written[token_id] += 1

    def penalise(self, scores: npt.NDArray[np.float64], penalties: Penalties) -> None:
        """Change the scores f64 (vocab,) in place."""
        if penalties.repetition != 1.0:
            used = np.fromiter(self._prompt | self._written.keys(), np.intp)
            used = used[used < scores.size]  # a tokenizer may have more ids than the model has logits
            values = scores[used]
            scores[used] = np.where(values > 0, values / penalties.repetition, values * penalties.repetition)
        if penalties.frequency or penalties.presence:
            written = np.fromiter(self._written.keys(), np.intp, len(self._written))
            counts = np.fromiter(self._written.values(), np.float64, len(self._written))
            scores[written] -= penalties.frequency * counts + penalties.presence
