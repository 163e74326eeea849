"""What ``run`` and ``chat`` share: the sampling options that were given, and writing a stream of text."""

from collections.abc import Iterable
from contextlib import closing
from typing import Any

from snell.cli.console import errors, output

__all__ = ["sampling", "write_chunks"]


def sampling(**options: Any) -> dict[str, Any]:
    """The options that were given; a model's own defaults hold for the others."""
    return {name: value for name, value in options.items() if value is not None}


def write_chunks(chunks: Any) -> str:
    """Write the text of each chunk as it comes and return all of it, the thinking to stderr; leaving early stops it."""
    with closing(chunks):
        return "".join(_written(chunks))


def _written(chunks: Iterable[Any]) -> Iterable[str]:
    for chunk in chunks:
        if chunk.thinking:
            errors.print(chunk.thinking, end="", style="dim", markup=False, highlight=False)
        output.out(chunk.text, end="", highlight=False)
        output.file.flush()
        yield chunk.text
    output.out()
