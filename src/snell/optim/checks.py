"""Checks of what an optimizer is made with; a schedule is checked by what made it."""

from __future__ import annotations

from snell.errors import ConfigError
from snell.optim.hyperparameters import Hyperparameter, as_number
from snell.optim.lr_schedule.schedule import LrSchedule

__all__ = ["check_fractions", "check_range"]


def check_range(
    optimizer: str, *, low: float | None = 0.0, high: float | None = None, **values: Hyperparameter
) -> None:
    """ConfigError for what is no number from low to high."""
    for name, value in values.items():
        if isinstance(value, LrSchedule):
            continue
        number = float(as_number(f"{optimizer}: {name}", value))
        if (low is not None and number < low) or (high is not None and number > high):
            bounds = f"from {low:g} up" if low is not None else f"from {high:g} down"
            raise ConfigError(f"{optimizer}: {name} is a number {bounds}, received {value}")


def check_fractions(optimizer: str, **values: Hyperparameter) -> None:
    """ConfigError for what is no number of 0 ≤ x < 1."""
    for name, value in values.items():
        if not isinstance(value, LrSchedule) and not 0 <= float(as_number(f"{optimizer}: {name}", value)) < 1:
            raise ConfigError(f"{optimizer}: {name} is a number from 0 up to, but not, 1; received {value}")
