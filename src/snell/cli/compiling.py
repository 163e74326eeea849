"""What a user sees while a model is compiled, on its first use: a bar on a terminal, nothing elsewhere."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

__all__ = ["compile_bar"]


@contextmanager
def compile_bar(console: Console) -> Generator[Callable[[int, int], None] | None]:
    """What to give ``load`` as its ``progress``; the bar appears with the first call and goes with the block."""
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    progress = Progress(*columns, console=console, transient=True)
    try:
        yield _Bar(progress).show
    finally:
        progress.stop()


class _Bar:
    """One bar, made anew for each program: it moves without a measure until the number of kernels is known."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._bar: TaskID | None = None

    def show(self, done: int, total: int) -> None:
        if total == 0:
            self._begin()
        elif self._bar is not None:
            self._progress.update(self._bar, completed=done, total=total)

    def _begin(self) -> None:
        if self._bar is not None:
            self._progress.remove_task(self._bar)
        self._bar = self._progress.add_task("compiling for this machine, on first use", total=None)
        self._progress.start()
