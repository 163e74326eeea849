"""The loop: epochs of steps, with validation, callbacks and a progress bar."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from snell import trees
from snell.errors import ConfigError
from snell.train.callbacks import Callback, EpochEnd, Event, StepEnd
from snell.train.data.loader import DataLoader
from snell.train.history import History, measured
from snell.train.progress_bar import Show, progress_bar
from snell.train.step import eval_step, step
from snell.train.train_state import TrainState

__all__ = ["evaluate", "fit"]


def fit(
    ts: TrainState,
    batches: Iterable[Any],
    objective: Callable[..., Any],
    *,
    epochs: int | None = None,
    steps: int | None = None,
    validation: Iterable[Any] | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool | None = None,
    debug: bool = False,
) -> tuple[History, TrainState]:
    """Train for `epochs` walks over `batches`, or until `steps` steps were made here, whichever ends first.

    `batches` is a `DataLoader` (which goes on from its position) or anything that can be walked over once an epoch;
    `validation` likewise, evaluated after each epoch.  A callback that returns True ends the training.  `progress` shows a
    bar (None: where standard error is a terminal); `debug` is that of `step`.  `ts` is donated.

    Gives the history, by step counted from the state's own, and the state.  Raises ConfigError where neither epochs nor
    steps are given, where they are below 1, or where an epoch has no batch.
    """
    if (epochs is None and steps is None) or any(count is not None and count < 1 for count in (epochs, steps)):
        raise ConfigError(f"fit expected epochs or steps of at least 1, received epochs={epochs} and steps={steps}")
    with progress_bar(progress) as show:
        loop = _Loop(ts, batches, objective, validation, callbacks, show, debug, _total(batches, epochs, steps))
        numbers: Iterable[int] = range(epochs) if epochs is not None else itertools.count()
        for _ in numbers:
            if loop.epoch(steps):
                break
    return loop.history, loop.ts


def evaluate(ts: TrainState, batches: Iterable[Any], objective: Callable[..., Any]) -> dict[str, float]:
    """The mean loss and metrics over batches, each counted by its number of rows; by name.

    Raises ConfigError where there is no batch.
    """
    totals: dict[str, float] = {}
    rows = 0
    for batch in batches:
        found = eval_step(ts, batch, objective)
        count = _rows(batch)
        rows += count
        for name, value in measured(found.loss, found.metrics).items():
            totals[name] = totals.get(name, 0.0) + value * count
    if not rows:
        raise ConfigError("evaluate expected at least one batch, received none (a generator is empty the second time)")
    return {name: total / rows for name, total in totals.items()}


@dataclass(slots=True)
class _Loop:
    """A training under way."""

    ts: TrainState
    batches: Iterable[Any]
    objective: Callable[..., Any]
    validation: Iterable[Any] | None
    callbacks: Sequence[Callback]
    show: Show
    debug: bool
    total: int | None
    history: History = field(default_factory=History)
    made: int = 0
    epochs: int = 0
    first: int = field(init=False)

    def __post_init__(self) -> None:
        self.first = int(self.ts.step)

    def epoch(self, limit: int | None) -> bool:
        """One walk over the batches; True where training is to end."""
        seen: list[Mapping[str, float]] = []
        ended = False
        number = self.batches.position["epoch"] if isinstance(self.batches, DataLoader) else self.epochs
        for batch in self.batches:
            values, ended = self._step(batch, number)
            seen.append(values)
            if ended or self.made == limit:
                ended = True
                break
        if not seen:
            raise ConfigError(
                "fit expected at least one batch an epoch, received none (a generator is empty after one)"
            )
        self.epochs += 1
        values = _means(seen)
        if self.validation is not None:
            found = evaluate(self.ts, self.validation, self.objective)
            self.history.add(self._number, found, "validation/")
            values |= {f"validation/{name}": value for name, value in found.items()}
            self.show(self.made, self.total, _text(number, values))
        return self._told(EpochEnd(self.ts, self._number, number, values, self._position())) or ended

    @property
    def _number(self) -> int:
        return self.first + self.made

    def _step(self, batch: Any, epoch: int) -> tuple[Mapping[str, float], bool]:
        result, self.ts = step(self.ts, batch, self.objective, debug=self.debug)
        self.made += 1
        values = measured(result.loss, result.metrics) | {"grad_norm": float(result.grad_norm)}
        self.history.add(self._number, values)
        self.show(self.made, self.total, _text(epoch, values))
        event = StepEnd(self.ts, self._number, epoch, result, values, self._position())
        return values, self._told(event)

    def _told(self, event: Event) -> bool:
        # Every callback hears of the event, also where an earlier one ends the training.
        answers = [callback(event) for callback in self.callbacks]
        return any(answer is True for answer in answers)

    def _position(self) -> Any:
        return self.batches.position if isinstance(self.batches, DataLoader) else None


def _means(values: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each value over the steps that have it; steps that were skipped have none that is finite."""
    names = dict.fromkeys(name for one in values for name in one)
    found: dict[str, float] = {}
    for name in names:
        finite = [one[name] for one in values if name in one and math.isfinite(one[name])]
        found[name] = sum(finite) / len(finite) if finite else math.nan
    return found


def _text(epoch: int, values: Mapping[str, float]) -> str:
    shown = [f"{name} {values[name]:.4f}" for name in ("loss", "validation/loss") if name in values]
    return f"epoch {epoch + 1}: {', '.join(shown)}"


def _rows(batch: Any) -> int:
    shapes = [np.shape(leaf) for leaf in trees.leaves(batch)]
    return next((shape[0] for shape in shapes if shape), 1)


def _total(batches: Any, epochs: int | None, steps: int | None) -> int | None:
    """The number of steps that there will be, where it is known."""
    try:
        length = len(batches) if isinstance(batches, Sized) else None
    except TypeError:  # a loader of a stream
        length = None
    known = [count for count in (steps, length * epochs if length and epochs else None) if count is not None]
    return min(known, default=None)
