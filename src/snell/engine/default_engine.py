"""The engine of this process, made on first use from the process's environment; and `sn.load`, which it is enough for."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

from snell.config import Config, process_environment
from snell.deferred import deferred
from snell.engine.engine import Engine

if TYPE_CHECKING:
    from snell.engine import saved
    from snell.engine.saved import LoadedFunction
else:
    saved = deferred("snell.engine.saved")

__all__ = ["default_engine", "load"]


@cache
def default_engine() -> Engine:
    """The engine of this process."""
    return Engine(Config.from_environment(process_environment()))


def load(path: str | os.PathLike[str]) -> LoadedFunction:
    """The function that `f.save(path)` wrote: nothing is traced, rewritten or compiled."""
    return saved.read_program(path, default_engine())
