"""What the machine could do at best, measured in the same run and printed beside each figure.

The read bandwidth is that of NumPy's dot product over an array larger than the last-level cache; the arithmetic limit
that of a generated loop of fused multiply-adds. Each is the best of several passes with all threads at once.
"""

import ctypes
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from snell.bench.cases import Case
from snell.codegen.host import host_target
from snell.codegen.llvm import compile_object, load
from snell.codegen.peak import CHAINS, FUNCTION, fma_loop_ir, operations

__all__ = ["MachineLimits", "limit", "machine_limits"]

# Below this a case's data may stay in a cache, and the bandwidth of memory is no limit for it.
LARGER_THAN_CACHES = 128 * 2**20
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
    return MachineLimits(threads, array_bytes / best, _flops_per_second(threads))


def limit(case: Case, limits: MachineLimits) -> float | None:
    """The best figure that the machine's limits allow for a case, in its unit, or None if no limit is known."""
    seconds = 0.0
    if case.flops and limits.f32_flops_per_second:
        seconds = case.flops / limits.f32_flops_per_second
    if case.bytes > LARGER_THAN_CACHES and limits.read_bytes_per_second:
        seconds = max(seconds, case.bytes / limits.read_bytes_per_second)
    return case.report(seconds) if seconds else None


def _flops_per_second(threads: int) -> float:
    target = host_target()
    library = load(compile_object(fma_loop_ir(target), target), (FUNCTION,))
    loop = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(library[FUNCTION])

    def run(_: int) -> None:
        sink = (ctypes.c_float * (16 * CHAINS))()
        loop(_ROUNDS, ctypes.addressof(sink))

    best = float("inf")
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(_PASSES):
            start = time.perf_counter()
            list(pool.map(run, range(threads)))
            best = min(best, time.perf_counter() - start)
    return threads * operations(target, _ROUNDS) / best


def _read(chunk: np.ndarray) -> float:
    return float(np.dot(chunk, chunk))
