"""What the machine could do at best, measured when it is asked for: the limits beside a benchmark and in a roofline.

The read bandwidth is that of NumPy's dot product over an array larger than the last-level cache; the arithmetic limit
that of a generated loop of fused multiply-adds. Each is the best of several passes with all threads at once. A shared
machine has another arithmetic limit a minute later, so an ``ArithmeticMeter`` can take its turn beside measurements.
"""

from __future__ import annotations

import ctypes
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from snell.codegen.host import host_target
from snell.codegen.llvm import compile_object
from snell.codegen.loading import load
from snell.codegen.peak import CHAINS, FUNCTION, fma_loop_ir, operations

__all__ = ["ArithmeticMeter", "MachineLimits", "machine_limits"]

_ARRAY_BYTES = 512 * 2**20
_PASSES = 5
_ROUNDS = 2_000_000


@dataclass(frozen=True, slots=True)
class MachineLimits:
    """Rates of the whole machine with ``threads`` threads; None where unknown."""

    threads: int
    read_bytes_per_second: float | None
    f32_flops_per_second: float | None


def machine_limits(threads: int, array_bytes: int = _ARRAY_BYTES) -> MachineLimits:
    """Measure the limits; takes about half a second and ``array_bytes`` of memory."""
    chunks = np.array_split(np.ones(array_bytes // 4, np.float32), threads * 4)
    best = float("inf")
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(_PASSES):
            start = time.perf_counter()
            list(pool.map(_read, chunks))
            best = min(best, time.perf_counter() - start)
    meter = ArithmeticMeter(threads)
    flops = meter.read(_ROUNDS, _PASSES)
    return MachineLimits(threads, array_bytes / best, flops)


class ArithmeticMeter:
    """A loop of nothing but fused multiply-adds, compiled once and run on every thread at once."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._target = host_target()
        self._library = load(compile_object(fma_loop_ir(self._target), self._target), (FUNCTION,))
        self._loop = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(self._library[FUNCTION])

    def read(self, rounds: int = 2 * _ROUNDS, passes: int = 3) -> float:
        """f32 operations per second of all threads together, the best of a few passes of some 10 milliseconds."""
        return max(self._pass(rounds) for _ in range(passes))

    def _pass(self, rounds: int) -> float:

        def run(_: int) -> None:
            sink = (ctypes.c_float * (16 * CHAINS))()
            self._loop(rounds, ctypes.addressof(sink))

        with ThreadPoolExecutor(self._threads) as pool:
            start = time.perf_counter()
            list(pool.map(run, range(self._threads)))
            return self._threads * operations(self._target, rounds) / (time.perf_counter() - start)


def _read(chunk: np.ndarray[Any, Any]) -> float:
    return float(np.dot(chunk, chunk))
