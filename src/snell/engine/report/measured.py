"""The kernels of a program with what they have to do and how long they take: the rows of a page's table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from snell.codegen.host import host_target
from snell.compiler.compile import Compilation
from snell.engine.report.costs import KernelCost, kernel_costs, kernel_runs, typical_sizes
from snell.engine.report.timing import kernel_seconds
from snell.loops.ir import Kernel
from snell.runtime.limits import MachineLimits, machine_limits
from snell.runtime.pool import process_pool
from snell.symbolic import Dim

__all__ = ["KernelRow", "Measurements", "kernel_names", "measurements"]

_LIMIT_BYTES = 256 << 20  # larger than last-level caches


@dataclass(frozen=True, slots=True)
class KernelRow:
    """A distinct kernel: runs in one execution, cost and seconds of one run (None where it was not measured)."""

    name: str
    runs: int
    cost: KernelCost
    seconds: float | None

    @property
    def total(self) -> float:
        """Seconds of all its runs, 0 where unknown."""
        return (self.seconds or 0.0) * self.runs


@dataclass(frozen=True, slots=True)
class Measurements:
    """Rows, the longest first; the sizes they are for; the machine's limits where anything was measured."""

    rows: tuple[KernelRow, ...]
    sizes: Mapping[Dim, int]
    limits: MachineLimits | None

    @property
    def seconds(self) -> float:
        return sum(row.total for row in self.rows)

    def share(self, row: KernelRow) -> float:
        return row.total / self.seconds if self.seconds else 0.0


def kernel_names(compilation: Compilation) -> dict[Kernel, str]:
    """The name of each kernel in the code."""
    return {kernel: made.functions[-1].split(".")[0] for kernel, made in compilation.kernels.compiled.items()}


def measurements(compilation: Compilation, *, measure: bool) -> Measurements:
    """Cost of every kernel, and its time where this machine is of the kind that the program is for."""
    sizes = typical_sizes(compilation.lowered.graph)
    names, runs = kernel_names(compilation), kernel_runs(compilation, sizes)
    seconds: Mapping[str, float] = {}
    limits: MachineLimits | None = None
    if measure and compilation.options.target == host_target():
        pool = process_pool(compilation.options.threads)
        seconds = kernel_seconds(compilation, sizes, pool)
        limits = machine_limits(pool.threads, _LIMIT_BYTES)
    rows = [
        KernelRow(names[kernel], runs.get(kernel, 0), cost, seconds.get(names[kernel]))
        for kernel, cost in kernel_costs(compilation, sizes).items()
    ]
    rows.sort(key=lambda row: (-row.total, -row.cost.bytes * row.runs))
    return Measurements(tuple(rows), sizes, limits)
