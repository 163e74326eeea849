"""From what a user calls a model to the file or folder to open, with a progress bar while one is installed."""

from pathlib import Path

from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from snell.cli.console import errors
from snell.config import Config
from snell.errors import ModelNotFoundError
from snell.store import CATALOGUE, ModelStore, Stage
from snell.store import Progress as Report

__all__ = ["install", "model_path", "model_store"]


def model_store(config: Config) -> ModelStore:
    """The models installed for this user."""
    return ModelStore(config.data_dir / "models")


def model_path(model: str, config: Config, *, offline: bool = False) -> Path:
    """The path itself if it exists, else the model of that short name, installed on its first use."""
    path = Path(model).expanduser()
    if path.exists():
        return path
    if model in CATALOGUE:
        return install(model, config, offline=offline)
    raise ModelNotFoundError(
        f"{model!r}: no such file or folder, and the short names are {', '.join(CATALOGUE)}; check the spelling"
    )


def install(name: str, config: Config, *, offline: bool = False) -> Path:
    """Install a model if it is missing, announcing the size and showing progress."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    # A bar that is taken away again leaves an empty line where it cannot be drawn.
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as progress:
        bars = _Bars(progress)
        return model_store(config).install(name, offline=offline, progress=bars.show)


class _Bars:
    """One bar a stage, made when the stage begins."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._bars: dict[Stage, TaskID] = {}

    def show(self, report: Report) -> None:
        if report.stage is Stage.DONE:
            return
        if report.stage not in self._bars:
            if report.stage is Stage.DOWNLOAD:
                errors.print(f"{report.model} is fetched on its first use: {report.total_bytes / 1e6:.0f} MB")
            self._bars[report.stage] = self._progress.add_task(report.stage.value, total=report.total_bytes)
        self._progress.update(self._bars[report.stage], completed=report.done_bytes)
