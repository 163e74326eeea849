"""Callbacks: what else happens while a loop trains.

A callback is a function of an event, called after every step and at the end of every epoch; one that returns True ends the
training.  The event's state is the present one: the next step donates it, so what is kept has to be copied or saved.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from snell.deferred import deferred
from snell.errors import ConfigError
from snell.train.checkpoints import Checkpoints
from snell.train.step_program import StepResult
from snell.train.train_state import TrainState

if TYPE_CHECKING:
    import tensorboardX
else:
    tensorboardX = deferred("tensorboardX")  # noqa: N816 - the package's name

__all__ = ["Callback", "EarlyStopping", "EpochEnd", "Event", "SaveCheckpoints", "StepEnd", "TensorBoard"]


@dataclass(frozen=True, slots=True, eq=False)
class StepEnd:
    """A step was made: the state after it, its result and what it measured by name; `data` is the loader's position."""

    ts: TrainState
    step: int
    epoch: int
    result: StepResult
    values: Mapping[str, float]
    data: Any


@dataclass(frozen=True, slots=True, eq=False)
class EpochEnd:
    """An epoch ended: means over its steps, and of the validation under "validation/…"."""

    ts: TrainState
    step: int
    epoch: int
    values: Mapping[str, float]
    data: Any


Event = StepEnd | EpochEnd
Callback = Callable[[Event], bool | None]


@dataclass(slots=True)
class EarlyStopping:
    """Ends training when a value of the epochs has not fallen by more than `least` for `patience` epochs in a row.

    With `lower_is_better=False` it has to rise.  ConfigError at the first epoch that does not measure the value.
    """

    name: str = "validation/loss"
    patience: int = 3
    least: float = 0.0
    lower_is_better: bool = True
    best: float = field(default=math.inf, init=False)
    waited: int = field(default=0, init=False)

    def __call__(self, event: Event) -> bool:
        if not isinstance(event, EpochEnd):
            return False
        if self.name not in event.values:
            raise ConfigError(
                f"EarlyStopping waits for {self.name!r}, the epochs measure {', '.join(event.values)}; "
                "pass validation= to fit, or another name"
            )
        value = event.values[self.name] * (1.0 if self.lower_is_better else -1.0)
        if value < self.best - self.least:
            self.best, self.waited = value, 0
        else:
            self.waited += 1
        return self.waited >= self.patience


@dataclass(frozen=True, slots=True)
class SaveCheckpoints:
    """Saves the state and the loader's position every `every` steps, or at the end of each epoch (None)."""

    checkpoints: Checkpoints
    every: int | None = None

    def __call__(self, event: Event) -> None:
        due = isinstance(event, EpochEnd) if self.every is None else _is_due(event, self.every)
        if due:
            self.checkpoints.save(event.ts, event.data, {"epoch": event.epoch})


class TensorBoard:
    """Writes every `every`th step's values and all of the epochs' to event files that TensorBoard shows.

    Values of steps are under "step/…", of epochs under "epoch/…".  A context manager: leaving it closes the file.
    ConfigError where tensorboardX is not installed.
    """

    def __init__(self, folder: str | os.PathLike[str], every: int = 1) -> None:
        try:
            self._writer: Any = tensorboardX.SummaryWriter(os.fspath(folder))
        except ModuleNotFoundError:
            raise ConfigError(
                "TensorBoard logs need tensorboardX; install it with pip install 'snell[train]'"
            ) from None
        self._every = every

    def __call__(self, event: Event) -> None:
        kind = "epoch" if isinstance(event, EpochEnd) else "step"
        if kind == "step" and not _is_due(event, self._every):
            return
        for name, value in event.values.items():
            self._writer.add_scalar(f"{kind}/{name}", value, event.step)
        if kind == "epoch":
            self._writer.flush()

    def close(self) -> None:
        """Write what is left, and close the file."""
        self._writer.close()

    def __enter__(self) -> TensorBoard:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _is_due(event: Event, every: int) -> bool:
    return isinstance(event, StepEnd) and event.step % every == 0
