"""Decisions about grouping: the questions that have two defensible answers, and what was answered.

    Grouping ::= Decision*           Decision ::= question, subject, answer       "store 3fa2b1c09d11 no"

The passes ask a `Decider` wherever their costs decide and the other answer is legal, too.  It gives the usual answer,
except where a grouping says otherwise, and remembers what it was asked: each of these answered differently is a
neighbour of the grouping.  A subject is a word for the structure that the question is about, so that one decision holds
for all equal layers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from snell.errors import FileFormatError

__all__ = ["HEURISTIC_GROUPING", "Decider", "Decision", "Grouping", "Question", "grouping_from_text"]


class Question(Enum):
    """What is asked: whether a value is stored rather than worked out where it is read, whether a stage runs in its
    producers' kernel, whether a chain of reductions runs as a stream, whether a kernel shares an earlier dispatch."""

    STORE = "store"
    JOIN = "join"
    STREAM = "stream"
    SHARE = "share"


@dataclass(frozen=True, slots=True)
class Decision:
    """An answer."""

    question: Question
    subject: str
    answer: bool

    def __str__(self) -> str:
        return f"{self.question.value} {self.subject} {'yes' if self.answer else 'no'}"

    @property
    def opposite(self) -> Decision:
        """The other answer."""
        return Decision(self.question, self.subject, not self.answer)


@dataclass(frozen=True, slots=True)
class Grouping:
    """Answers that differ from the heuristics' (none: all by heuristics)."""

    decisions: tuple[Decision, ...] = ()

    def __str__(self) -> str:
        return "\n".join(map(str, self.decisions))

    def changed(self, decision: Decision) -> Grouping:
        """With one more answer."""
        return Grouping((*self.decisions, decision))


HEURISTIC_GROUPING = Grouping()


def grouping_from_text(text: str) -> Grouping:
    """The grouping that `str` shows; FileFormatError for anything else."""
    return Grouping(tuple(_decision(line) for line in text.splitlines()))


def _decision(line: str) -> Decision:
    words = line.split(" ")
    questions = {question.value: question for question in Question}
    if len(words) != 3 or words[0] not in questions or words[2] not in ("yes", "no"):
        raise FileFormatError(f"expected a decision such as 'store 3fa2b1c09d11 no', received {line!r}")
    return Decision(questions[words[0]], words[1], words[2] == "yes")


class Decider:
    """Answers the questions of one lowering.  Subjects are worked out only where it listens or has answers of its own."""

    def __init__(self, grouping: Grouping = HEURISTIC_GROUPING, *, listens: bool = False) -> None:
        self._answers = {(d.question, d.subject): d.answer for d in grouping.decisions}
        self._listens = listens
        self._asked: dict[tuple[Question, str], bool] = {}

    def __call__(self, question: Question, subject: Callable[[], str], usual: bool) -> bool:
        """The answer to a question whose usual answer the heuristics give."""
        if not self._listens and not self._answers:
            return usual
        key = question, subject()
        answer = self._answers.get(key, usual)
        self._asked.setdefault(key, answer)
        return answer

    @property
    def asked(self) -> tuple[Decision, ...]:
        """What was answered, in the order in which it was first asked."""
        return tuple(Decision(question, subject, answer) for (question, subject), answer in self._asked.items())
