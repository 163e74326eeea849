"""Errors of the vector math over all 2**32 values of f32, and its speed beside torch.

    python benchmarks/check_vector_math.py errors [--stride 1] [NAME ...]   every stride-th bit pattern; 1: all of them
    python benchmarks/check_vector_math.py speed [NAME ...]                 Gelem/s, one thread, 16 Ki elements (L1/L2)

Truth is float64 (NumPy's functions, `math.erf` by torch).  Run from the repository's root with PYTHONPATH=src:.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from tests.codegen.straight_line import _compiled, evaluate, ulp_errors
from tests.codegen.test_vector_math import TRUTHS

from snell.codegen.host import host_target
from snell.codegen.vector_math import FUNCTIONS
from snell.dtypes import f32

BLOCK = 1 << 20
TRUTHS = TRUTHS | {"erf": lambda x: torch.special.erf(torch.from_numpy(x)).numpy()}


def worst_error(name: str, stride: int) -> tuple[float, float]:
    """The greatest error in units of the last place, and its argument."""
    worst, where = 0.0, 0.0
    reference = TRUTHS.get(name, getattr(np, name, None))
    assert reference is not None
    for start in range(0, 1 << 32, BLOCK * stride):
        patterns = np.arange(start, min(start + BLOCK * stride, 1 << 32), stride, np.uint64)
        x = patterns.astype(np.uint32).view(np.float32)
        x = np.concatenate([x, np.zeros(-x.size % 64, np.float32)])
        with np.errstate(all="ignore"):
            errors = ulp_errors(evaluate(name, x), reference(x.astype(np.float64)))
        index = int(np.argmax(errors))
        if errors[index] > worst:
            worst, where = float(errors[index]), float(x[index])
    return worst, where


def median_seconds(function: Callable[[], Any], repeats: int = 31, inner: int = 20) -> float:
    """Median of the repeats after a warm-up."""
    function()
    times: list[float] = []
    for _ in range(repeats):
        begin = time.perf_counter()
        for _ in range(inner):
            function()
        times.append((time.perf_counter() - begin) / inner)
    return statistics.median(times)


def speeds(name: str) -> tuple[float, float]:
    """Ours and torch's elements a nanosecond."""
    x = np.random.default_rng(0).uniform(0.1, 0.9, 1 << 14).astype(np.float32)
    y = np.empty_like(x)
    signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    apply = signature(_compiled(name, f32, host_target().lanes(f32))["apply"])
    ours = median_seconds(lambda: apply(x.ctypes.data, y.ctypes.data, x.size))
    tensor, out = torch.from_numpy(x), torch.empty(x.size)
    peer = getattr(torch, name, None) or getattr(torch.special, name)
    theirs = median_seconds(lambda: peer(tensor, out=out))
    return x.size / ours / 1e9, x.size / theirs / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("errors", "speed"))
    parser.add_argument("names", nargs="*")
    parser.add_argument("--stride", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.names or sorted(FUNCTIONS):
        if options.what == "errors":
            error, argument = worst_error(name, options.stride)
            line = f"{name:8} {error:7.3f} ulp at {argument!r}"
        else:
            ours, theirs = speeds(name)
            line = f"{name:8} snell {ours:5.2f}  torch {theirs:5.2f} Gelem/s"
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
