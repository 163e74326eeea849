"""The part of the startup suite that every implementation shares: importing the library, one tiny call."""

import numpy as np

from snell.bench.peers.child import reading
from snell.bench.peers.peer import Gauge
from snell.config import process_environment

__all__ = ["import_time", "tiny_operands"]

_IMPORT = """
import time as _time
_start = _time.perf_counter()
import {module}
report(_time.perf_counter() - _start)
"""


def import_time(module: str) -> Gauge:
    """Seconds that ``import module`` takes in a fresh interpreter."""
    return Gauge(lambda: reading(_IMPORT.format(module=module), process_environment()))


def tiny_operands() -> tuple[np.ndarray, np.ndarray]:
    """Two arrays so small that a call's time is its overhead."""
    return np.ones(8, np.float32), np.ones(8, np.float32)
