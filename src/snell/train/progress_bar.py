"""What a user sees while a loop trains: epoch, step, the losses and the time that is left; nothing without a terminal."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

__all__ = ["Show", "progress_bar"]

Show = Callable[[int, int | None, str], None]
"""(steps done, steps in all where that is known, text)."""


@contextmanager
def progress_bar(wanted: bool | None) -> Generator[Show]:
    """How to show where training stands.  `wanted` None means: where standard error is a terminal."""
    console = Console(stderr=True)
    if wanted is False or (wanted is None and not console.is_terminal):
        yield lambda done, total, text: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("compiling the first step", total=None)
        yield lambda done, total, text: progress.update(bar, completed=done, total=total, description=text)
