"""What a user sees while schedules are searched: time, candidates and the best so far; nothing where there is no terminal."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from snell.search.tuning import Moment

__all__ = ["tuning_bar"]


@contextmanager
def tuning_bar(console: Console, seconds: float) -> Generator[Callable[[Moment], None] | None]:
    """What to give ``tune`` as its ``progress``; ``seconds`` is the budget of all its programs."""
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("taking the first times", total=seconds)
        begun = [0.0, 0.0]  # seconds of the programs before this one, and of this one

        def show(moment: Moment) -> None:
            if moment.seconds < begun[1]:
                begun[0] += begun[1]
            begun[1] = moment.seconds
            text = f"{moment.candidates} candidates, {100 * moment.ratio:.1f} % of the time"
            progress.update(bar, completed=begun[0] + begun[1], description=text)

        yield show
