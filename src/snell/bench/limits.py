"""What the machine could do at best, measured in the same run and printed beside each figure.

The read bandwidth is that of NumPy's dot product over an array larger than the last-level cache, the best of several
passes. The arithmetic limit comes with the generated FMA loop; until then it is unknown and no arithmetic limit is
claimed.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from snell.bench.cases import Case

__all__ = ["MachineLimits", "limit", "machine_limits"]

# Below this a case's data may stay in a cache, and the bandwidth of memory is no limit for it.
LARGER_THAN_CACHES = 128 * 2**20
_ARRAY_BYTES = 512 * 2**20
_PASSES = 5


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
    return MachineLimits(threads, array_bytes / best, None)


def limit(case: Case, limits: MachineLimits) -> float | None:
    """The best figure that the machine's limits allow for a case, in its unit, or None if no limit is known."""
    seconds = 0.0
    if case.flops and limits.f32_flops_per_second:
        seconds = case.flops / limits.f32_flops_per_second
    if case.bytes > LARGER_THAN_CACHES and limits.read_bytes_per_second:
        seconds = max(seconds, case.bytes / limits.read_bytes_per_second)
    return case.report(seconds) if seconds else None


def _read(chunk: np.ndarray) -> float:
    return float(np.dot(chunk, chunk))
