"""What an installation tells while it runs: the command line draws it, a library caller may ignore it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

__all__ = ["Progress", "ProgressCallback", "Stage", "silent"]


class Stage(Enum):
    """What is being done."""

    DOWNLOAD = "download"
    VERIFY = "verify"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Progress:
    """``done_bytes`` of ``total_bytes`` of this stage are finished; the first report announces the size (0 done)."""

    model: str
    stage: Stage
    done_bytes: int
    total_bytes: int


ProgressCallback = Callable[[Progress], None]


def silent(progress: Progress) -> None:
    """The callback of a caller that wants no reports."""
