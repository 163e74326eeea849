"""The best figure that the machine's limits allow for a case, printed beside each measurement."""

from snell.bench.cases import Case
from snell.runtime.limits import MachineLimits

__all__ = ["limit"]

# Below this a case's data may stay in a cache, and the bandwidth of memory is no limit for it.
LARGER_THAN_CACHES = 128 * 2**20


def limit(case: Case, limits: MachineLimits) -> float | None:
    """The best figure that the machine's limits allow for a case, in its unit, or None if no limit is known."""
    seconds = 0.0
    if case.flops and limits.f32_flops_per_second:
        seconds = case.flops / limits.f32_flops_per_second
    if case.bytes > LARGER_THAN_CACHES and limits.read_bytes_per_second:
        seconds = max(seconds, case.bytes / limits.read_bytes_per_second)
    return case.report(seconds) if seconds else None
