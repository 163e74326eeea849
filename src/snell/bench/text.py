"""What the quality of language models is judged on: a text and how much of it, the same for every implementation.

Unless a file is named, the text is the reference of the Python language that CPython's own ``pydoc_data`` carries: half
a megabyte of English, on every machine.  Workers are told by variables of their environment.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics

from snell.errors import ConfigError

__all__ = ["CONTEXT", "JudgedText", "windows"]

CONTEXT = 512
DEFAULT_PREDICTIONS = 20_000

_FILE, _PREDICTIONS = "SNELL_BENCH_TEXT", "SNELL_BENCH_PREDICTIONS"


@dataclass(frozen=True, slots=True)
class JudgedText:
    """``file`` None is the default text; at least so many ``predictions`` of a next token are judged."""

    file: Path | None = None
    predictions: int = DEFAULT_PREDICTIONS

    @staticmethod
    def from_environment(environ: Mapping[str, str]) -> "JudgedText":
        """What ``environment`` said."""
        file = environ.get(_FILE)
        return JudgedText(None if file is None else Path(file), int(environ.get(_PREDICTIONS, DEFAULT_PREDICTIONS)))

    def environment(self) -> dict[str, str]:
        """Variables that tell a worker."""
        told = {} if self.file is None else {_FILE: str(self.file.absolute())}
        return told | {_PREDICTIONS: str(self.predictions)}

    def read(self) -> str:
        """The text; ConfigError where the file is none."""
        if self.file is None:
            return "\n\n".join(topics[name] for name in sorted(topics))
        try:
            return self.file.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"--text: expected a file of UTF-8 text, received {self.file} ({error})") from error


def windows(ids: Sequence[int], beginning: Sequence[int], predictions: int) -> list[list[int]]:
    """Texts of CONTEXT tokens, each begun as the model's texts begin, with at least so many next tokens in all.

    ConfigError where the ids do not suffice.
    """
    length = CONTEXT - len(beginning)
    count = -(-predictions // (CONTEXT - 1))
    if len(ids) < count * length:
        raise ConfigError(
            f"{predictions} predictions need a text of {count * length} tokens, received one of {len(ids)}; "
            "give a longer --text, or ask for fewer --predictions"
        )
    return [[*beginning, *ids[start : start + length]] for start in range(0, count * length, length)]
