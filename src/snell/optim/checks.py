"""Checks of what an optimizer is made with; a schedule is checked by what made it."""

from __future__ import annotations

from snell.errors import ConfigError
from snell.optim.hyperparameters import Hyperparameter
from snell.optim.lr_schedule.schedule import LrSchedule

__all__ = ["check_fractions", "check_non_negative"]


def check_non_negative(optimizer: str, **values: Hyperparameter) -> None:
    """ConfigError for a number below 0."""
    for name, value in values.items():
        if not isinstance(value, LrSchedule) and not value >= 0:
            raise ConfigError(f"{optimizer}: {name} is a number from 0 up, received {value}")


def check_fractions(optimizer: str, **values: Hyperparameter) -> None:
    """ConfigError for a number outside of 0 ≤ x < 1."""
    for name, value in values.items():
        if not isinstance(value, LrSchedule) and not 0 <= value < 1:
            raise ConfigError(f"{optimizer}: {name} is a number from 0 up to, but not, 1; received {value}")
