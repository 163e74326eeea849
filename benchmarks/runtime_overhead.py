"""Overheads of the runtime in µs: an ordinary call, a fast and a bound one, a dispatch to spinning workers.

PYTHONPATH=src:. python benchmarks/runtime_overhead.py
"""

from __future__ import annotations

import ctypes
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.runtime.kernels import code
from tests.runtime.test_executable import sum_of_three

from snell.codegen.host import host_target
from snell.codegen.llvm import compile_object
from snell.codegen.loading import load
from snell.engine.array import Array
from snell.runtime.buffers import address
from snell.runtime.executable import Executable
from snell.runtime.fastcall import fast_call
from snell.runtime.pool import process_pool

# A loop of dispatches in generated code, so that Python's own overhead is not in the figure.
REPEAT = """
define void @repeat(ptr %run, ptr %phase, ptr %buffers, ptr %scratch, i64 %tickets, i64 %count) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  call void %run(ptr %phase, ptr %buffers, ptr null, ptr %scratch, i64 64, i64 %tickets, i64 1)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %out
out:
  ret void
}
"""


def report(name: str, function: Callable[[], Any], inner: int, count: int = 1) -> None:
    """Least and median µs of 301 short repeats after a warm-up."""
    function()
    times: list[float] = []
    for _ in range(301):
        begin = time.perf_counter()
        for _ in range(inner):
            function()
        times.append((time.perf_counter() - begin) / inner / count * 1e6)
    sys.stdout.write(f"{name:32} least {min(times):7.3f}  median {statistics.median(times):7.3f} µs\n")


def main() -> None:
    a, b, w = np.zeros((3, 8), np.float32)
    executable = Executable(sum_of_three(parallel=False), {"w": w})
    report("call, two arrays, new output", lambda: executable(a, b), 50)
    specs = [(a.shape, a.dtype), (b.shape, b.dtype)]
    fast = fast_call(executable, executable.layout(a, b), specs, (0, 1), Array)
    if fast is not None:
        report("fast call, new output", lambda: fast(a, b), 50)
    report("bound call, two kernels", executable.bind(a, b), 50)
    pool, phase = process_pool(), load(code("visit").image, ["visit"])
    repeat = load(compile_object(REPEAT, host_target()), ["repeat"])
    run = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, ctypes.c_int64, ctypes.c_int64)(repeat["repeat"])
    visits, where, scratch = np.zeros(64, np.int64), np.zeros(64, np.int64), np.zeros(64 * pool.threads, np.uint8)
    pointers = np.array([address(visits), address(where)], np.uint64)
    for tickets in (1, 2, 16):
        operands = (pool.run_address, phase["visit"], address(pointers), address(scratch), tickets, 200)
        name = f"dispatch, {tickets} tickets, {pool.threads} threads"
        report(name, lambda operands=operands: run(*operands), 1, count=200)


if __name__ == "__main__":
    main()
