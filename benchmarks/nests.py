"""How near schedules by heuristics come to the machine: random nests against their rooflines.

Contractions with 1–4 data and 1–3 reduced axes in any operand order, row reductions and sliding windows, each compiled
without search; the roofline of a nest is the larger of its arithmetic and its compulsory traffic at the limits measured
in the same run.  Prints the share of the roofline that each reaches, then the median and the worst.

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
from snell.bench.limits import MachineLimits, machine_limits
from snell.engine.default_engine import default_engine
from snell.frontend import TensorSpec, trace

REPEATS = 9
OPERATIONS = (2e7, 4e8)


@dataclass(frozen=True, slots=True)
class Nest:
    """A function of arrays, its operands' shapes, and the work it cannot avoid."""

    name: str
    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    flops: float
    elements: float

    def roofline(self, limits: MachineLimits) -> float:
        """Seconds that the machine needs at least (from the cache where the data fits)."""
        assert limits.f32_flops_per_second is not None
        assert limits.read_bytes_per_second is not None
        fast = 4.0 if 4 * self.elements < 16 << 20 else 1.0
        memory = 4 * self.elements / (fast * limits.read_bytes_per_second)
        return max(self.flops / limits.f32_flops_per_second, memory)


def contraction(rng: random.Random) -> Nest:
    """Σ over 1–3 shared axes of a product of two operands whose axes come in any order."""
    data, reduced = "abcd"[: rng.randint(1, 4)], "xyz"[: rng.randint(1, 3)]
    cut = rng.randint(0, len(data))
    target = math.exp(rng.uniform(*(math.log(x) for x in OPERATIONS))) / 2
    sizes = _sizes(rng, data + reduced, target)
    left = "".join(rng.sample(data[:cut] + reduced, cut + len(reduced)))
    right = "".join(rng.sample(data[cut:] + reduced, len(data) - cut + len(reduced)))
    spec = f"{left},{right}->{data}"
    shapes = tuple(tuple(sizes[axis] for axis in word) for word in (left, right))
    volume = math.prod(sizes.values())
    elements = sum(math.prod(shape) for shape in shapes) + math.prod(sizes[axis] for axis in data)
    return Nest(f"{spec} {sizes}", lambda a, b: sn.einsum(spec, a, b), shapes, 2.0 * volume, elements)


def row_reduction(rng: random.Random) -> Nest:
    """A sum, maximum or softmax over the last or the first axis."""
    rows, columns = rng.choice((64, 333, 1024, 4096)), rng.choice((64, 200, 1000, 4096))
    axis = rng.choice((0, 1))
    kind = rng.choice(("sum", "max", "softmax"))
    function = {"sum": sn.sum, "max": sn.max, "softmax": sn.softmax}[kind]
    out = rows * columns if kind == "softmax" else 0
    flops = rows * columns * (20.0 if kind == "softmax" else 1.0)
    return Nest(
        f"{kind} {rows}x{columns} axis {axis}",
        lambda x: function(x, axis=axis),
        ((rows, columns),),
        flops,
        rows * columns + out,
    )


def window(rng: random.Random) -> Nest:
    """A convolution of one or two dimensions."""
    channels, filters = rng.choice((8, 16, 32, 64)), rng.choice((16, 32, 64))
    side, size = rng.choice((28, 56)), rng.choice((1, 3, 5))
    shapes = ((1, channels, side, side), (filters, channels, size, size))
    out = side - size + 1
    flops = 2.0 * filters * channels * size * size * out * out
    elements = sum(math.prod(shape) for shape in shapes) + filters * out * out
    return Nest(f"conv {channels}->{filters} {side}² k{size}", lambda x, w: sn.conv2d(x, w), shapes, flops, elements)


def _sizes(rng: random.Random, axes: str, volume: float) -> dict[str, int]:
    weights = [rng.uniform(0.5, 1.5) for _ in axes]
    share = math.log(volume) / sum(weights)
    return {axis: max(2, round(math.exp(weight * share))) for axis, weight in zip(axes, weights, strict=True)}


def seconds(nest: Nest, rng: np.random.Generator) -> float:
    """Median time of the compiled nest on random data."""
    arrays = [rng.standard_normal(shape, dtype=np.float32) for shape in nest.shapes]
    traced = trace(nest.function, [TensorSpec.of(array.shape) for array in arrays])
    prepared = default_engine().prepare(traced.graph)
    bound = prepared.bind({}, default_engine().pool()).bind(*(arrays[traced.inputs.index(n)] for n in prepared.inputs))
    bound()
    times: list[float] = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        bound()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    """Measure and print."""
    count, seed = (
        (int(argument) for argument in (*sys.argv[1:], "200", "0")[:2])
        if len(sys.argv) < 3
        else map(int, sys.argv[1:3])
    )
    rng, data = random.Random(seed), np.random.default_rng(seed)
    limits = machine_limits(default_engine().threads)
    shares: list[tuple[float, str]] = []
    for number in range(count):
        nest = rng.choices((contraction, row_reduction, window), (6, 2, 2))[0](rng)
        share = nest.roofline(limits) / seconds(nest, data)
        shares.append((share, nest.name))
        sys.stdout.write(f"{number:4d} {100 * share:6.1f} %  {nest.name}\n")
        sys.stdout.flush()
    shares.sort()
    middle = statistics.median(share for share, _ in shares)
    sys.stdout.write(
        f"limits {limits}\nmedian {100 * middle:.0f} %, worst {100 * shares[0][0]:.1f} % ({shares[0][1]})\n"
    )


if __name__ == "__main__":
    main()
