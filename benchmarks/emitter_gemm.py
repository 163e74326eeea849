"""How near the emitter's code comes to the machine: GEMM, softmax, matvec, Q4_1 matvec against FMA and memory limits.

One thread; warm-up, then the median and the spread of repeated calls.  Run: `python benchmarks/emitter_gemm.py`.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "src"), str(Path(__file__).resolve().parents[1])]

from tests.codegen.fuzz import packed_columns
from tests.codegen.kernels import Runner, levels, nest, reduction

from snell.codegen import llvm
from snell.codegen.emitter import emit_kernel
from snell.codegen.host import host_target
from snell.dtypes import f16, f32, u4
from snell.graph.primitives import Exp2, Mul, Recip
from snell.loops.ir import (
    Accumulator,
    Allocate,
    Block,
    Blocked,
    Buffer,
    BufferScope,
    Combine,
    Init,
    Kernel,
    Phase,
    Store,
    Strided,
    Update,
    read,
    tee,
)
from snell.rewrite.term import Subtract, Tensor, cast, load, number, term
from snell.symbolic import Axis, Expr, as_expr

REPEATS = 15
LOG2_E = 1.4426950408889634


def at(*axes: Any) -> tuple[Expr, ...]:
    return tuple(as_expr(axis) for axis in axes)


def aligned(array: Any) -> Any:
    """A copy on a cache line, as the runtime allocates."""
    raw = np.zeros(array.nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    copy = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def report(name: str, runner: Runner, arrays: dict[str, Any], work: float, unit: str, seconds: float = 0.02) -> None:
    """Median of the repeats, each long enough for the clock; and what emission and compilation cost."""
    steps = runner.bound({name: aligned(array) for name, array in arrays.items()})
    start = time.perf_counter()
    for step in steps:
        step()
    inner = max(1, int(seconds / max(1e-7, time.perf_counter() - start)))
    rates: list[float] = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        for _ in range(inner):
            for step in steps:
                step()
        rates.append(work * inner / (time.perf_counter() - start) / 1e9)
    start = time.perf_counter()
    emitted = emit_kernel(runner.kernel, host_target())
    middle = time.perf_counter()
    llvm.compile_object(emitted.llvm_ir, host_target())
    end = time.perf_counter()
    low, mid, high = min(rates), statistics.median(rates), max(rates)
    costs = f"emit {(middle - start) * 1e3:.1f} ms, llvm {(end - middle) * 1e3:.1f} ms"
    sys.stdout.write(f"{name:34s} {mid:8.1f} {unit}  ({low:.1f}–{high:.1f})  {costs}\n")


def fma_peak() -> None:
    """Twelve independent chains of multiply-adds in registers."""
    i, k, r = Axis("i", 12), Axis("k", 1 << 22), Axis("r", 8)
    x, out = Tensor("x", (8,), f32), Tensor("out", (12, 8), f32)
    total = Accumulator("acc", Combine.SUM, f32, (i, r))
    value = term(Mul(), (load(x, at(r)), load(x, at(r))), f32)
    data = levels("i:1u r:8v", (i, r))
    body = (
        *nest(data, Init(total, number(0, f32))),
        *nest(levels("k:2 k:1u i:1u r:8v", (i, k, r)), Update(total, value)),
        *nest(data, Store(out, at(i, r), read(total))),
    )
    kernel = Kernel("peak", (Buffer(x, (8,)), Buffer(out, (12, 8), writable=True)), (), (Phase((), body),))
    arrays = {"x": np.full(8, 0.5, np.float32), "out": np.zeros((12, 8), np.float32)}
    report("fma peak", Runner(kernel), arrays, 2 * 12 * 8 * (1 << 22), "GFLOP/s")


def gemm_kernel(m: int, n: int, k_size: int, order: str, width: int) -> Kernel:
    i, j, k = axes = Axis("i", m), Axis("j", n), Axis("k", k_size)
    a, b, c = Tensor("A", (m, k_size), f32), Tensor("B", (k_size, n), f32), Tensor("C", (m, n), f32)
    product = term(Mul(), (load(a, at(i, k)), load(b, at(k, j))), f32)
    body = reduction(order, axes, (k,), (c, at(i, j)), product)
    layout = Blocked((Block(1, width), Block(0, 1), Block(1, 1)))
    buffers = (Buffer(a, a.shape), Buffer(b, b.shape, layout), Buffer(c, c.shape, writable=True))
    return Kernel("gemm", buffers, (), (Phase((), body),))


def gemm(m: int, n: int, k: int, order: str = "i:96 j:16 i:6 k:4 k:1u i:1u j:8v", width: int = 16) -> None:
    generator = np.random.default_rng(0)
    x, y = (generator.standard_normal(size, dtype=np.float32) for size in ((m, k), (k, n)))
    arrays = {"A": x, "B": packed_columns(y, width), "C": np.zeros((m, n), np.float32)}
    runner = Runner(gemm_kernel(m, n, k, order, width))
    runner(arrays)
    np.testing.assert_allclose(arrays["C"], x @ y, 1e-3, 1e-3)
    report(f"gemm {m}x{n}x{k}", runner, arrays, 2 * m * n * k, "GFLOP/s")


def softmax_kernel(rows: int, columns: int) -> Kernel:
    i, j = axes = Axis("i", rows), Axis("j", columns)
    x, y = Tensor("x", (rows, columns), f32), Tensor("y", (rows, columns), f32)
    m, s = Tensor("m", (1,), f32), Tensor("s", (1,), f32)
    local = tuple(Buffer(t, t.shape, scope=BufferScope.LOCAL, writable=True) for t in (m, s))
    order = "j:32 j:8v"
    shifted = term(Subtract(), (load(x, at(i, j)), load(m, at(i))), f32)
    power = term(Exp2(), (term(Mul(), (shifted, number(LOG2_E, f32)), f32),), f32)
    scaled = term(Mul(), (load(y, at(i, j)), load(s, at(i))), f32)
    inner = (
        Allocate(local),
        *reduction(order, axes, (j,), (m, at(i)), load(x, at(i, j)), combine=Combine.MAX, partial=(j,)),
        *reduction(order, axes, (j,), (s, at(i)), tee(y, at(i, j), power), partial=(j,), finish=inverse),
        *nest(levels(order, axes), Store(y, at(i, j), scaled)),
    )
    buffers = (Buffer(x, x.shape), Buffer(y, y.shape, writable=True))
    return Kernel("softmax", buffers, (), (Phase(levels("i:1", axes), inner),))


def softmax(rows: int, columns: int) -> None:
    values = np.random.default_rng(0).standard_normal((rows, columns), dtype=np.float32)
    arrays = {"x": values, "y": np.zeros_like(values)}
    runner = Runner(softmax_kernel(rows, columns))
    runner(arrays)
    e = np.exp(values - values.max(1, keepdims=True))
    np.testing.assert_allclose(arrays["y"], e / e.sum(1, keepdims=True), 1e-5, 1e-7)
    report(f"softmax {rows}x{columns}", runner, arrays, 2 * values.nbytes, "GB/s")


def inverse(item: Any) -> Any:
    return term(Recip(), (item,), f32)


def matvec(n: int, k_size: int, order: str) -> None:
    """y = W x, W row-major, lanes along the reduced axis."""
    i, k = axes = Axis("i", n), Axis("k", k_size)
    w, x, y = Tensor("w", (n, k_size), f32), Tensor("x", (k_size,), f32), Tensor("y", (n,), f32)
    product = term(Mul(), (load(w, at(i, k)), load(x, at(k))), f32)
    body = reduction(order, axes, (k,), (y, at(i)), product, partial=(k,))
    buffers = (Buffer(w, w.shape), Buffer(x, x.shape), Buffer(y, y.shape, writable=True))
    generator = np.random.default_rng(0)
    arrays = {
        "w": generator.standard_normal((n, k_size), dtype=np.float32),
        "x": generator.standard_normal(k_size, dtype=np.float32),
        "y": np.zeros(n, np.float32),
    }
    runner = Runner(Kernel("matvec", buffers, (), (Phase((), body),)))
    runner(arrays)
    np.testing.assert_allclose(arrays["y"], arrays["w"] @ arrays["x"], 1e-3, 1e-3)
    report(f"matvec {n}x{k_size} {order}", runner, arrays, arrays["w"].nbytes, "GB/s")


def q4_1_kernel(n: int, k_size: int, order: str) -> Kernel:
    """y[n] = Σ_b d[n,b]·Σ_k q·x + m[n,b]·Σ_k x, straight from GGUF's Q4_1 blocks (f16 d, f16 m, 16 bytes of nibbles)."""
    blocks = k_size // 32
    i, b, g, h, k = axes = Axis("i", n), Axis("b", blocks), Axis("g", 2), Axis("h", 2), Axis("k", 8)
    row = 8 * 20 * blocks
    q = Buffer(Tensor("q", (n, blocks, 2, 2, 8), u4), (n, blocks, 2, 2, 8), Strided(4, (row, 160, 4, 64, 8)))
    d, m = (
        Buffer(Tensor(name, (n, blocks), f16), (n, blocks), Strided(o, (row, 160))) for name, o in (("d", 0), ("m", 2))
    )
    x, sums, y = Tensor("x", (k_size,), f32), Tensor("sums", (blocks,), f32), Tensor("y", (n,), f32)
    inner = Accumulator("dot", Combine.SUM, f32, (i, b, k))
    total = Accumulator("total", Combine.SUM, f32, (i,))
    product = term(
        Mul(),
        (
            cast(load(q.tensor, at(i, b, g, h, k)), f32),
            load(x, (as_expr(b) * 32 + as_expr(g) * 16 + as_expr(h) * 8 + k,)),
        ),
        f32,
    )
    scaled = term(Mul(), (read(inner), cast(load(d.tensor, at(i, b)), f32)), f32)
    offset = term(Mul(), (cast(load(m.tensor, at(i, b)), f32), load(sums, at(b))), f32)
    rows, lanes = levels("i:1u", axes), levels("i:1u k:8v", axes)
    body = nest(
        levels(order, axes),
        *nest(rows, Init(total, number(0, f32))),
        *nest(
            levels("b:1", axes),
            *nest(lanes, Init(inner, number(0, f32))),
            *nest(levels("i:1u g:1u h:1u k:8v", axes), Update(inner, product)),
            *nest(lanes, Update(total, scaled)),
            *nest(rows, Update(total, offset)),
        ),
        *nest(rows, Store(y, at(i), read(total))),
    )
    buffers = (q, d, m, Buffer(x, x.shape), Buffer(sums, sums.shape), Buffer(y, y.shape, writable=True))
    return Kernel("q4", buffers, (), (Phase((), body),))


def q4_1(n: int, k_size: int, order: str) -> None:
    blocks = k_size // 32
    generator = np.random.default_rng(0)
    raw = generator.integers(0, 256, (n, blocks, 20)).astype(np.uint8)
    scales = generator.standard_normal((n, blocks, 2)).astype(np.float16)
    raw[:, :, :4] = scales.view(np.uint8).reshape(n, blocks, 4)
    v = generator.standard_normal(k_size, dtype=np.float32)
    arrays = {"q": raw, "d": raw, "m": raw, "x": v, "sums": v.reshape(blocks, 32).sum(1), "y": np.zeros(n, np.float32)}
    runner = Runner(q4_1_kernel(n, k_size, order))
    runner(arrays)
    nibbles = np.concatenate([raw[:, :, 4:] & 15, raw[:, :, 4:] >> 4], 2).astype(np.float32)
    weights = nibbles * scales[:, :, :1].astype(np.float32) + scales[:, :, 1:].astype(np.float32)
    np.testing.assert_allclose(arrays["y"], weights.reshape(n, k_size) @ v, 2e-3, 2e-2)
    report(f"q4_1 matvec {n}x{k_size} {order}", runner, arrays, raw.nbytes, "GB/s")


def main() -> None:
    fma_peak()
    for size in (64, 128, 256, 512, 1024):
        gemm(size, size, size)
    gemm(197, 333, 130)
    softmax(64, 4096)
    softmax(6144, 512)
    for order in ("i:4 k:8 i:1u k:8v", "i:2 k:32 i:1u k:8v", "i:1 k:64 k:8v", "i:8 k:8 i:1u k:8v"):
        matvec(512, 1024, order)
        matvec(8192, 4096, order)
    for order in ("i:1", "i:2", "i:4"):
        q4_1(1536, 576, order)
        q4_1(16384, 4096, order)


if __name__ == "__main__":
    main()
