"""What answers have in common: whole, and as the pieces of a stream."""

from collections.abc import Sequence
from typing import Any, Protocol

from snell.llm.generated_text import GeneratedText
from snell.llm.generation import Chunk

__all__ = ["Answer", "usage"]


class Answer(Protocol):
    """How one request's texts are written down."""

    def whole(self, texts: Sequence[GeneratedText]) -> dict[str, Any]:
        """The answer when all texts have ended."""
        ...

    def opening(self, choices: int) -> list[dict[str, Any]]:
        """What a stream begins with."""
        ...

    def piece(self, index: int, chunk: Chunk) -> dict[str, Any] | None:
        """The part of a stream that a chunk is; None where it has nothing to tell yet."""
        ...

    def closing(self, texts: Sequence[GeneratedText]) -> dict[str, Any]:
        """The part of a stream that tells the usage."""
        ...


def usage(texts: Sequence[GeneratedText], per_prompt: int) -> dict[str, int]:
    """Numbers of tokens of all texts; a prompt counts once however many choices it has."""
    prompt = sum(len(text.plan.prompt) for text in texts[::per_prompt])
    completion = sum(len(text.ids) for text in texts)
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
