"""How near schedules by heuristics come to the machine: random nests against their rooflines.

Contractions with 1–4 data and 1–3 reduced axes in any operand order, row reductions and sliding windows, each compiled
without search and compared with NumPy in float64; the roofline of a nest is the larger of its arithmetic and its compulsory
traffic, at limits measured just before it (a shared machine has other limits a minute later).  Prints the share of the
roofline that each reaches, then the median and the worst; the exit status says whether they are at least 50 and 15 %.

Run: `python benchmarks/nests.py [COUNT] [SEED]`.
"""

from __future__ import annotations

import math
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "src")]

import snell as sn
from snell.engine.default_engine import default_engine
from snell.frontend import TensorSpec, trace
from snell.runtime.limits import machine_limits

REPEATS, LEAST_SECONDS = 9, 0.02  # of repeats: the median of small nests is that of many
CACHED, LARGE = 8 << 20, 128 << 20  # bytes of arrays that a last-level cache holds, and of one that it does not
WANTED_MEDIAN, WANTED_WORST = 0.5, 0.15
OPERATIONS = (2e7, 4e8)


@dataclass(frozen=True, slots=True)
class Nest:
    """A function of arrays, the same in NumPy, its operands' shapes, and the work it cannot avoid."""

    name: str
    function: Callable[..., Any]
    judge: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    flops: float
    elements: float

    def roofline(self, threads: int) -> float:
        """Seconds that the machine needs at least, now (from the cache where the data fits)."""
        limits = machine_limits(threads, CACHED if 4 * self.elements < 2 * CACHED else LARGE)
        assert limits.f32_flops_per_second is not None
        assert limits.read_bytes_per_second is not None
        return max(self.flops / limits.f32_flops_per_second, 4 * self.elements / limits.read_bytes_per_second)


def contraction(rng: random.Random, operations: tuple[float, float] = OPERATIONS) -> Nest:
    """Σ over 1–3 shared axes of a product of two operands whose axes come in any order."""
    data, reduced = "abcd"[: rng.randint(1, 4)], "xyz"[: rng.randint(1, 3)]
    cut = rng.randint(0, len(data))
    target = math.exp(rng.uniform(*(math.log(x) for x in operations))) / 2
    sizes = _sizes(rng, data + reduced, target)
    left = "".join(rng.sample(data[:cut] + reduced, cut + len(reduced)))
    right = "".join(rng.sample(data[cut:] + reduced, len(data) - cut + len(reduced)))
    spec = f"{left},{right}->{data}"
    shapes = tuple(tuple(sizes[axis] for axis in word) for word in (left, right))
    volume = math.prod(sizes.values())
    elements = sum(math.prod(shape) for shape in shapes) + math.prod(sizes[axis] for axis in data)
    return Nest(
        f"{spec} {sizes}",
        lambda a, b: sn.einsum(spec, a, b),
        lambda a, b: np.einsum(spec, a, b, optimize=True),
        shapes,
        2.0 * volume,
        elements,
    )


def row_reduction(rng: random.Random) -> Nest:
    """A sum, maximum or softmax over the last or the first axis.

    A softmax is a maximum, a difference, an exponential of some 16 instructions, a sum and a product; each instruction takes
    the place of one multiply-add.
    """
    rows, columns = rng.choice((64, 333, 1024, 4096)), rng.choice((64, 200, 1000, 4096))
    axis = rng.choice((0, 1))
    kind = rng.choice(("sum", "max", "softmax"))
    function = {"sum": sn.sum, "max": sn.max, "softmax": sn.softmax}[kind]
    out = rows * columns if kind == "softmax" else 0
    flops = rows * columns * (40.0 if kind == "softmax" else 1.0)
    judges = {"sum": np.sum, "max": np.max, "softmax": _softmax}
    return Nest(
        f"{kind} {rows}x{columns} axis {axis}",
        lambda x: function(x, axis=axis),
        lambda x: judges[kind](x, axis=axis),
        ((rows, columns),),
        flops,
        rows * columns + out,
    )


def _softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def window(rng: random.Random) -> Nest:
    """A convolution of one or two dimensions."""
    channels, filters = rng.choice((8, 16, 32, 64)), rng.choice((16, 32, 64))
    side, size = rng.choice((28, 56)), rng.choice((1, 3, 5))
    shapes = ((1, channels, side, side), (filters, channels, size, size))
    out = side - size + 1
    flops = 2.0 * filters * channels * size * size * out * out
    elements = sum(math.prod(shape) for shape in shapes) + filters * out * out
    name = f"conv {channels}->{filters} {side}² k{size}"
    return Nest(name, lambda x, w: sn.conv2d(x, w), _convolved, shapes, flops, elements)


def _convolved(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))
    return np.einsum("ncyxkl,fckl->nfyx", windows, w, optimize=True)


def _sizes(rng: random.Random, axes: str, volume: float) -> dict[str, int]:
    weights = [rng.uniform(0.5, 1.5) for _ in axes]
    share = math.log(volume) / sum(weights)
    return {axis: max(2, round(math.exp(weight * share))) for axis, weight in zip(axes, weights, strict=True)}


def random_nest(rng: random.Random) -> Nest:
    """A contraction in six of ten cases, else a row reduction or a window."""
    return rng.choices((contraction, row_reduction, window), (6, 2, 2))[0](rng)


def seconds(nest: Nest, rng: np.random.Generator) -> float:
    """Median time of the compiled nest on random data; its result is found right, or there is no time.

    NumPy judges afterwards: the threads of its BLAS keep the cores busy for a while after a call.
    """
    arrays = [rng.standard_normal(shape, dtype=np.float32) for shape in nest.shapes]
    traced = trace(nest.function, [TensorSpec.of(array.shape) for array in arrays])
    prepared = default_engine().prepare(traced.graph)
    bound = prepared.bind({}, default_engine().pool()).bind(*(arrays[traced.inputs.index(n)] for n in prepared.inputs))
    bound()
    times: list[float] = []
    while len(times) < REPEATS or sum(times) < LEAST_SECONDS:
        start = time.perf_counter()
        bound()
        times.append(time.perf_counter() - start)
    check(nest, arrays, np.asarray(bound()[0]))
    return statistics.median(times)


def check(nest: Nest, arrays: list[np.ndarray], result: np.ndarray) -> None:
    """Within the forward error of a sum of as many terms as there are elements (Higham, section 3.1), by its norm."""
    wanted = nest.judge(*(array.astype(np.float64) for array in arrays))
    terms = nest.flops / max(1, wanted.size)
    tolerance = 8 * np.finfo(np.float32).eps * max(1.0, math.sqrt(terms)) * max(1.0, float(np.abs(wanted).max()))
    worst = float(np.abs(result - wanted).max())
    if not worst <= tolerance:
        raise AssertionError(f"{nest.name}: error {worst:.2g}, expected at most {tolerance:.2g}")


def main() -> int:
    """Measure and print; 0 where the shares are as wanted."""
    given = [int(argument) for argument in sys.argv[1:3]]
    count, seed = [*given, *(200, 0)[len(given) :]]
    rng, data = random.Random(seed), np.random.default_rng(seed)
    shares: list[tuple[float, str]] = []
    for number in range(count):
        nest = random_nest(rng)
        share = nest.roofline(default_engine().threads) / seconds(nest, data)
        shares.append((share, nest.name))
        sys.stdout.write(f"{number:4d} {100 * share:6.1f} %  {nest.name}\n")
        sys.stdout.flush()
    worst, name = min(shares)
    middle = statistics.median(share for share, _ in shares)
    sys.stdout.write(f"median {100 * middle:.0f} %, worst {100 * worst:.1f} % ({name})\n")
    return 0 if middle >= WANTED_MEDIAN and worst >= WANTED_WORST else 1


if __name__ == "__main__":
    sys.exit(main())
