"""A bar on the terminal while a program is compiled, which for a language model takes seconds the first time."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from snell.cli.console import errors

__all__ = ["compile_progress"]


@contextmanager
def compile_progress() -> Generator[Callable[[int, int], None]]:
    """The callback for `load(progress=...)`; nothing is drawn where standard error is no terminal."""
    bar = _Bar()
    try:
        yield bar.show
    finally:
        bar.close()


class _Bar:
    """Drawn from a program's first report to its last, so that it never meets the text that the program writes."""

    def __init__(self) -> None:
        self._drawn: tuple[Progress, TaskID] | None = None

    def show(self, done: int, total: int) -> None:
        if not errors.is_terminal:
            return
        if self._drawn is None:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            progress = Progress(*columns, console=errors, transient=True)
            progress.start()
            self._drawn = progress, progress.add_task("compiling kernels", total=None)
        progress, task = self._drawn
        progress.update(task, completed=done, total=total or None)
        if 0 < total <= done:
            self.close()

    def close(self) -> None:
        if self._drawn is not None:
            self._drawn[0].stop()
            self._drawn = None
