"""Job: one text to generate, and where its chunks go."""

from collections.abc import Callable
from dataclasses import dataclass

from snell.llm.generated_text import GeneratedText
from snell.llm.generation import Chunk

__all__ = ["Emit", "Job"]

# Called on the runner's thread, and must not wait; an exception is the last that is emitted.
Emit = Callable[[Chunk | Exception], None]


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """``text`` draws the tokens, under whatever constraints its sampler has; ``deadline`` is of the runner's clock."""

    text: GeneratedText
    emit: Emit
    deadline: float
