"""Random sizes × random schedules of contractions, row reductions and element-wise kernels.

`random_case(seed)` gives a kernel, its arrays and NumPy's answer; `check(case)` runs the interpreter and the emitted
code.  `hunt(count, seed)` is the long form for people: it returns the seeds that fail.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from tests.codegen.kernels import Array, Runner, levels, nest, reduction

from snell.codegen.host import host_target
from snell.dtypes import bf16, f32
from snell.errors import SnellError
from snell.graph.primitives import Add, Mul
from snell.loops.interpret import interpret
from snell.loops.ir import Block, Blocked, Buffer, Combine, Dense, Kernel, Layout, Phase, Store
from snell.loops.verify import verify
from snell.rewrite.term import Cast, Maximum, Tensor, Term, load, number, term
from snell.symbolic import Axis, Dim, as_expr
from snell.targets import BF16_PAIRS

SIZES = (1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 33, 47, 48, 49, 64)


@dataclass(frozen=True)
class Case:
    description: str
    kernel: Kernel
    arrays: dict[str, Array]
    sizes: dict[Dim, int]
    output: str
    expected: Array
    chunk: int


def random_case(seed: int) -> Case:
    r = random.Random(seed)
    maker: Callable[[random.Random], Case] = r.choice((contraction, contraction, dot_rows, row_reduction, elementwise))
    return maker(r)


def axis_of(r: random.Random, name: str) -> tuple[Axis, int, Dim | None]:
    """An axis, its size in this run, and its dim when it is symbolic."""
    size = r.choice(SIZES)
    if r.random() < 0.25:
        multiple = 1
        dim = Dim(f"n_{name}", 1, r.choice((64, 1 << 20)), multiple)
        return Axis(name, as_expr(dim)), size, dim
    return Axis(name, size), size, None


def contraction(r: random.Random) -> Case:
    """C[i, j] = Σ_k A[i, k] B[k, j], lanes along j."""
    (i, m, _), (j, n, jd), (k, q, kd) = found = [axis_of(r, name) for name in "ijk"]
    lanes, tile, unroll = r.choice((4, 8, 16)), r.choice((1, 2, 3, 5, 6)), r.choice((1, 2, 3, 4))
    width = lanes * r.choice((1, 2, 3))
    outer = [f"i:{tile * r.choice((2, 3, 7))}"] if r.random() < 0.5 else []
    outer += [f"j:{width * r.choice((2, 3))}"] if r.random() < 0.5 else []
    r.shuffle(outer)
    blocks = [f"k:{unroll * r.choice((4, 7))}"] if r.random() < 0.3 else []
    around = [f"j:{width}", f"i:{tile}"]
    r.shuffle(around)
    inside = ["k:1u", "i:1u", f"j:{lanes}v"]
    r.shuffle(inside)
    order = " ".join([*outer, *around, *blocks, f"k:{unroll}", *inside])
    packed = jd is None and kd is None and r.random() < 0.5
    layout: Layout = Blocked((Block(1, width), Block(0, 1), Block(1, 1))) if packed else Dense()
    a, b, c = Tensor("A", shape(i, k), f32), Tensor("B", shape(k, j), f32), Tensor("C", shape(i, j), f32)
    product = term(Mul(), (load(a, points(i, k)), load(b, points(k, j))), f32)
    partial = (k,) if r.random() < 0.3 else ()
    body = reduction(order, (i, j, k), (k,), (c, points(i, j)), product, partial=partial)
    generator = np.random.default_rng(r.randrange(1 << 30))
    x, y = random_array(generator, (m, q)), random_array(generator, (q, n))
    stored = packed_columns(y, width) if packed else y
    kernel = kernel_of(r, found, [(a, Dense()), (b, layout)], c, body, order)
    return finish(r, f"contraction {m}x{n}x{q} {order}", kernel, {"A": x, "B": stored}, found, "C", product_of(x, y))


def tensor_case(seed: int) -> Case:
    """C[i, j] = Σ_k f32(A[i, k]) f32(B[k, j]) of bf16 operands, pairs of k in tensor lanes; any operand's order."""
    r = random.Random(seed)
    (i, m, _), (j, n, jd), (k, q, kd) = found = [axis_of(r, name) for name in "ijk"]
    tile, pairs, width = r.choice((1, 2, 3, 5)), r.choice((1, 2, 3)), 16 * r.choice((1, 2, 3))
    around = [f"j:{width}", f"i:{tile}"]
    r.shuffle(around)
    blocks = [f"k:{2 * pairs * r.choice((4, 7))}"] if r.random() < 0.3 else []
    inside = [["k:2u"], ["i:1u"]] if r.random() < 0.7 else [["i:1u"]]
    r.shuffle(inside)
    order = " ".join([*around, *blocks, f"k:{2 * pairs}", *(word for part in inside for word in part), "j:16v", "k:2t"])
    packed = jd is None and kd is None and r.random() < 0.5
    turned, crossed = r.random() < 0.3, not packed and r.random() < 0.3
    layout: Layout = Blocked((Block(1, width), Block(0, 2), Block(1, 1), Block(0, 1))) if packed else Dense()
    a = Tensor("A", shape(k, i) if turned else shape(i, k), bf16)
    b = Tensor("B", shape(j, k) if crossed else shape(k, j), bf16)
    c = Tensor("C", shape(i, j), f32)
    left, right = points(k, i) if turned else points(i, k), points(j, k) if crossed else points(k, j)
    factors = [term(Cast(), (load(*operand),), f32) for operand in ((a, left), (b, right))]
    if r.random() < 0.5:
        factors.reverse()
    partial = (k,) if r.random() < 0.3 else ()
    body = reduction(order, (i, j, k), (k,), (c, points(i, j)), term(Mul(), tuple(factors), f32), partial=partial)
    generator = np.random.default_rng(r.randrange(1 << 30))
    x, y = (random_array(generator, size).astype(bf16.numpy) for size in ((m, q), (q, n)))
    stored = packed_pairs(y, width) if packed else np.ascontiguousarray(y.T) if crossed else y
    kernel = kernel_of(r, found, [(a, Dense()), (b, layout)], c, body, order)
    arrays = {"A": np.ascontiguousarray(x.T) if turned else x, "B": stored}
    return finish(r, f"tensor {m}x{n}x{q} {order}", kernel, arrays, found, "C", product_of(x, y))


def dot_rows(r: random.Random) -> Case:
    """C[i, j] = Σ_k A[i, k] B[j, k], lanes along the reduced axis."""
    (i, m, _), (j, n, _), (k, q, _) = found = [axis_of(r, name) for name in "ijk"]
    lanes = r.choice((4, 8, 16))
    step = lanes * r.choice((1, 2))
    order = f"j:{r.choice((1, 2, 4))} i:{r.choice((1, 2, 3))} k:{step} i:1u j:1u k:{lanes}v"
    a, b, c = Tensor("A", shape(i, k), f32), Tensor("B", shape(j, k), f32), Tensor("C", shape(i, j), f32)
    product = term(Mul(), (load(a, points(i, k)), load(b, points(j, k))), f32)
    body = reduction(order, (i, j, k), (k,), (c, points(i, j)), product, partial=(k,))
    generator = np.random.default_rng(r.randrange(1 << 30))
    x, y = random_array(generator, (m, q)), random_array(generator, (n, q))
    kernel = kernel_of(r, found, [(a, Dense()), (b, Dense())], c, body, order)
    return finish(r, f"dot {m}x{n}x{q} {order}", kernel, {"A": x, "B": y}, found, "C", product_of(x, y.T))


def row_reduction(r: random.Random) -> Case:
    """C[i] = max or Σ over j of A[i, j]."""
    (i, m, _), (j, n, _) = found = [axis_of(r, name) for name in "ij"]
    lanes = r.choice((4, 8, 16))
    order = f"i:{r.choice((1, 2, 4))} j:{lanes * r.choice((1, 2, 4))} i:1u j:{lanes}v"
    combine = r.choice((Combine.SUM, Combine.MAX))
    a, c = Tensor("A", shape(i, j), f32), Tensor("C", shape(i), f32)
    partial = (j,) if r.random() < 0.5 else ()
    value = load(a, points(i, j))
    body = reduction(order, (i, j), (j,), (c, points(i)), value, combine=combine, partial=partial)
    x = random_array(np.random.default_rng(r.randrange(1 << 30)), (m, n))
    expected = x.astype(np.float64).sum(1) if combine is Combine.SUM else x.max(1)
    kernel = kernel_of(r, found, [(a, Dense())], c, body, order)
    return finish(r, f"rows {combine.value} {m}x{n} {order}", kernel, {"A": x}, found, "C", expected)


def elementwise(r: random.Random) -> Case:
    """C[i, j] = max(A[i, j], A[j, i]·B[i]) + 1, lanes along either axis."""
    (i, m, d) = axis_of(r, "i")
    j = Axis("j", i.extent)
    found = [(i, m, d), (j, m, None)]
    lanes, other = r.choice((4, 8, 16)), r.choice((1, 2, 3))
    v, u = r.choice((("i", "j"), ("j", "i")))
    order = f"{v}:{lanes * r.choice((1, 2))} {u}:{other} {u}:1u {v}:{lanes}v"
    a, b, c = Tensor("A", shape(i, j), f32), Tensor("B", shape(i), f32), Tensor("C", shape(i, j), f32)
    scaled = term(Mul(), (load(a, points(j, i)), load(b, points(i))), f32)
    value: Term = term(Maximum(), (load(a, points(i, j)), scaled), f32)
    value = term(Add(), (value, number(1, f32)), f32)
    body = nest(levels(order, (i, j)), Store(c, points(i, j), value))
    generator = np.random.default_rng(r.randrange(1 << 30))
    x, y = random_array(generator, (m, m)), random_array(generator, (m,))
    kernel = kernel_of(r, found, [(a, Dense()), (b, Dense())], c, body, order)
    return finish(
        r, f"elementwise {m} {order}", kernel, {"A": x, "B": y}, found, "C", np.maximum(x, x.T * y[:, None]) + 1
    )


def shape(*axes: Axis) -> tuple[int, ...]:
    return tuple(axis.extent for axis in axes)  # type: ignore[misc]


def points(*axes: Axis):
    return tuple(as_expr(axis) for axis in axes)


def random_array(generator: np.random.Generator, size: tuple[int, ...]) -> Array:
    return generator.standard_normal(size).astype(np.float32)


def product_of(x: Array, y: Array) -> Array:
    return x.astype(np.float64) @ y.astype(np.float64)


def packed_columns(y: Array, width: int) -> Array:
    rows, columns = y.shape
    blocks = -(-columns // width)
    padded = np.zeros((rows, blocks * width), y.dtype)
    padded[:, :columns] = y
    return np.ascontiguousarray(padded.reshape(rows, blocks, width).transpose(1, 0, 2))


def packed_pairs(y: Array, width: int) -> Array:
    """Panels of `width` columns, in each the pairs of rows interleaved; what lies beyond the end is no number."""
    rows, columns = y.shape
    blocks, pairs = -(-columns // width), -(-rows // 2)
    padded = np.full((2 * pairs, blocks * width), np.nan, y.dtype)
    padded[:rows, :columns] = y
    return np.ascontiguousarray(padded.reshape(pairs, 2, blocks, width).transpose(2, 0, 3, 1))


def kernel_of(r: random.Random, found, inputs, output: Tensor, body, order: str) -> Kernel:
    """With luck the outermost levels become tickets."""
    taken = []
    if r.random() < 0.5:
        while len(body) == 1 and hasattr(body[0], "level") and body[0].level.kind.value == "s" and r.random() < 0.6:
            taken.append(body[0].level)
            body = body[0].body
    seen = [level.axis for level in taken]
    if len(set(seen)) < len(seen):  # one ticket level an axis
        body = nest(taken, *body)
        taken = []
    buffers = tuple(Buffer(tensor, tensor.shape, layout) for tensor, layout in inputs)
    buffers += (Buffer(output, output.shape, writable=True),)
    dims = tuple(dim for _, _, dim in found if dim is not None)
    return Kernel("case", buffers, dims, (Phase(tuple(taken), tuple(body)),))


def finish(r: random.Random, description, kernel, arrays, found, output: str, expected: Array) -> Case:
    values = {dim: size for _, size, dim in found if dim is not None}
    tickets = " ".join(str(level) for level in kernel.phases[0].levels)
    return Case(
        f"{description} | {tickets} | {values}", kernel, arrays, values, output, expected, r.choice((1, 3, 1 << 40))
    )


def guarded(expected: Array) -> Array:
    """An output array with a margin that must stay as it is."""
    return np.full(expected.size + 32, 7, np.float32)


def check(case: Case, *, interpreted: bool = True) -> None:
    verify(case.kernel)
    runs = []
    if BF16_PAIRS in host_target().products or not case.description.startswith("tensor"):
        runs.append(("emitted", lambda arrays: Runner(case.kernel)(arrays, case.sizes, case.chunk)))
    if interpreted:
        runs.append(("interpreted", lambda arrays: interpret(case.kernel, arrays, case.sizes)))
    for name, run in runs:
        out = guarded(case.expected)
        run({**case.arrays, case.output: out})
        inner = out[: case.expected.size].reshape(case.expected.shape)
        np.testing.assert_allclose(inner, case.expected, 1e-4, 1e-4, err_msg=f"{name}: {case.description}")
        assert (out[case.expected.size :] == 7).all(), f"{name} wrote outside: {case.description}"


def hunt(count: int, seed: int = 0) -> list[tuple[int, str]]:
    failures: list[tuple[int, str]] = []
    for k in range(seed, seed + count):
        try:
            check(random_case(k))
        except (AssertionError, SnellError, KeyError, ValueError, TypeError, IndexError) as error:
            failures.append((k, f"{type(error).__name__}: {str(error).strip()[:300]}"))
    return failures
