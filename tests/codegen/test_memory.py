"""Addresses, guards, gathers and packed fields: emitted code reads what the interpreter reads and nothing outside."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np
import pytest
from tests.codegen.kernels import Array, Runner, levels, nest, reduction
from tests.loops.test_text import SCATTER

from snell.dtypes import DType, bool_, f16, f32, i32, i64, u1, u2, u4, u8
from snell.graph.primitives import Add, LessThan, Mul
from snell.loops.interpret import interpret
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
    Loop,
    Phase,
    Statement,
    Store,
    Strided,
    Update,
    read,
    tee,
)
from snell.loops.parse import parse_kernel
from snell.loops.verify import verify
from snell.rewrite.term import Select, Tensor, Term, cast, index, load, number, opaque, term
from snell.symbolic import Axis, Dim, Expr, as_expr

SCHEDULES = ("i:1 j:1", "i:2 j:8 i:1u j:8v", "i:3 j:32 i:1u j:16v", "j:8 i:1 j:8v")


def e(value: object) -> Expr:
    return as_expr(value)


def kernel(buffers: list[Buffer], body: tuple[Statement, ...], dims: tuple[Dim, ...] = ()) -> Kernel:
    return Kernel("case", tuple(buffers), dims, (Phase((), body),))


def both(
    program: Kernel, arrays: dict[str, Array], out: str, sizes: dict[Dim, int] | None = None, *, verified: bool = True
) -> Array:
    """The emitted code's output, after checking it against the interpreter's."""
    reference = {name: array.copy() for name, array in arrays.items()}
    interpret(program, reference, sizes)
    if verified:
        verify(program)
    Runner(program)(arrays, sizes)
    np.testing.assert_allclose(
        arrays[out].astype(np.float64), reference[out].astype(np.float64), 1e-5, 1e-5, err_msg="emitted, interpreted"
    )
    return arrays[out]


def read_through(
    source: Buffer,
    stored: Array,
    value: Term,
    shape: tuple[int, int],
    schedule: str,
    *more: tuple[Buffer, Array],
    verified: bool = True,
) -> Array:
    """out[i, j] = value, where value mentions axes i and j of the shape's extents."""
    i, j = Axis("i", shape[0]), Axis("j", shape[1])
    out = Tensor("out", shape, value.dtype)
    body = nest(levels(schedule, (i, j)), Store(out, (e(i), e(j)), value))
    buffers = [source, *(b for b, _ in more), Buffer(out, shape, writable=True)]
    arrays = {source.name: stored, "out": np.zeros(shape, value.dtype.numpy), **{b.name: a for b, a in more}}
    return both(kernel(buffers, body), arrays, "out", verified=verified)


def random(*shape: int) -> Array:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


M, N = 7, 37
I, J = Axis("i", M), Axis("j", N)  # noqa: E741


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_transposed_broadcast_reversed_and_strided_reads(schedule: str) -> None:
    x = random(N, M)
    source = Buffer(Tensor("x", (N, M), f32), (N, M))
    flat = Tensor("y", (4 * N,), f32)
    values = random(4 * N)
    cases = [
        (load(source.tensor, (e(J), e(I))), x.T),
        (load(flat, (e(J) * 3 + 2,)), np.tile(values[2 : 3 * N + 2 : 3][:N], (M, 1))),
        (load(flat, (N - 1 - e(J),)), np.tile(values[:N][::-1], (M, 1))),
        (load(flat, (e(I),)), np.tile(values[:M, None], (1, N))),
    ]
    for value, expected in cases:
        result = read_through(source, x, value, (M, N), schedule, (Buffer(flat, (4 * N,)), values))
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_quotients_and_remainders_of_a_lane_axis(schedule: str) -> None:
    x = random(M * N)
    source = Buffer(Tensor("x", (M * N,), f32), (M * N,))
    i, j = np.indices((M, N))
    flat = e(I) * N + e(J)
    for divisor in (2, 3, 8, 16, 32):
        value = load(source.tensor, (flat // divisor + e(J) % divisor,))
        expected = x[(i * N + j) // divisor + j % divisor]
        np.testing.assert_array_equal(read_through(source, x, value, (M, N), schedule), expected)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_guards_yield_zero_and_a_guard_may_depend_on_lanes_or_not(schedule: str) -> None:
    x = random(M, N)
    source = Buffer(Tensor("x", (M, N), f32), (M, N))
    i, j = np.indices((M, N))
    row, column = e(I) - 2, e(J) - 5
    value = load(source.tensor, (row, column), (row, column))
    inside = (i >= 2) & (j >= 5)
    expected = np.where(inside, x[i - 2, j - 5], 0)
    np.testing.assert_array_equal(read_through(source, x, value, (M, N), schedule), expected)
    triangle = load(source.tensor, (e(I), e(J)), (e(I) - e(J),))
    np.testing.assert_array_equal(read_through(source, x, triangle, (M, N), schedule), np.where(j <= i, x, 0))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_gather_adds_a_loaded_index(schedule: str) -> None:
    x = random(20, N)
    source = Buffer(Tensor("x", (20, N), f32), (20, N))
    for dtype in (i32, i64, u8):
        rows = Tensor("rows", (M,), dtype)
        picked = np.random.default_rng(1).integers(0, 19, M).astype(dtype.numpy)
        at = opaque(load(rows, (e(I),)), 0, 18)
        value = load(source.tensor, (e(at) + 1, e(J)))
        result = read_through(source, x, value, (M, N), schedule, (Buffer(rows, (M,)), picked))
        np.testing.assert_array_equal(result, x[picked.astype(int) + 1])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_gather_whose_index_varies_over_lanes(schedule: str) -> None:
    for dtype in (f32, f16, u8, bool_):
        x = (random(20, N) * 10).astype(dtype.numpy)
        source = Buffer(Tensor("x", (20, N), dtype), (20, N))
        rows = Tensor("rows", (N,), i64)
        picked = np.random.default_rng(1).integers(0, 20, N)
        at = opaque(load(rows, (e(J),)), 0, 19)
        value = load(source.tensor, (e(at), e(J)), (e(at) - 4,))
        result = read_through(source, x, value, (M, N), schedule, (Buffer(rows, (N,)), picked))
        expected = np.where(picked >= 4, x[picked, np.arange(N)], np.zeros((), x.dtype))
        np.testing.assert_array_equal(result, np.tile(expected, (M, 1)))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("dtype", [u1, u2, u4], ids=str)
def test_packed_fields_read_from_a_window_of_bytes(dtype: DType, schedule: str) -> None:
    raw = np.random.default_rng(5).integers(0, 256, 700).astype(np.uint8)
    bits = dtype.bits
    # Neighbouring fields in one byte, a byte a lane, and both nibble halves 16 elements apart as GGUF has them.
    for offset, strides in ((3, (8 * 60, bits)), (1, (bits, 8)), (2, (8, 16))):
        source = Buffer(Tensor("x", (M, N), dtype), (M, N), Strided(offset, strides))
        value = cast(load(source.tensor, (e(I), e(J))), f32)
        i, j = np.indices((M, N))
        place = 8 * offset + i * strides[0] + j * strides[1]
        expected = (raw[place >> 3] >> (place & 7)) & ((1 << bits) - 1)
        np.testing.assert_array_equal(read_through(source, raw, value, (M, N), schedule), expected)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_window_of_halves_inside_of_records(schedule: str) -> None:
    raw = np.random.default_rng(5).integers(0, 120, M * 20 + N * 2 + 40).astype(np.uint8)
    for strides in ((160, 16), (16, 160)):
        source = Buffer(Tensor("x", (M, N), f16), (M, N), Strided(2, strides))
        stored = np.resize(raw, 160 * N // 8 + 400)
        value = cast(load(source.tensor, (e(I), e(J))), f32)
        i, j = np.indices((M, N))
        place = 2 + i * strides[0] // 8 + j * strides[1] // 8
        expected = np.stack([stored[place], stored[place + 1]], -1).view(np.float16)[..., 0]
        np.testing.assert_array_equal(
            read_through(source, stored, value, (M, N), schedule), expected.astype(np.float32)
        )


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    "blocks",
    [
        ((1, 16), (0, 1), (1, 1)),
        ((0, 4), (1, 8), (0, 1), (1, 1)),
        ((0, 3), (1, 1), (0, 1)),
        ((1, 8), (0, 2), (1, 1), (0, 1)),
    ],
)
def test_blocked_layouts_at_any_size(schedule: str, blocks: tuple[tuple[int, int], ...]) -> None:
    layout = Blocked(tuple(Block(d, s) for d, s in blocks))
    buffer = Buffer(Tensor("x", (M, N), f32), (M, N), layout)
    stored = random(64 * 64)
    value = load(buffer.tensor, (e(I), e(J)))
    # Levels that cross blocks are slow, which the verifier refuses, and right all the same.
    result = read_through(buffer, stored, value, (M, N), schedule, verified=False)
    assert len(np.unique(result)) == M * N  # every element has a place of its own


def test_a_dimension_without_unit_blocks_is_shared_inside_its_smallest_block() -> None:
    layout = Blocked((Block(0, 1), Block(1, 8)))
    buffer = Buffer(Tensor("x", (M, N), f32), (M, N), layout)
    stored = random(M * 5)
    result = read_through(buffer, stored, load(buffer.tensor, (e(I), e(J))), (M, N), "i:1 j:8 j:8v")
    np.testing.assert_array_equal(result, np.repeat(stored.reshape(M, 5), 8, 1)[:, :N])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_index_terms_and_comparisons_of_positions(schedule: str) -> None:
    i, j = np.indices((M, N))
    source = Buffer(Tensor("x", (M, N), f32), (M, N))
    x = random(M, N)
    position = cast(index(e(I) * 100 + e(J)), f32)
    np.testing.assert_array_equal(read_through(source, x, position, (M, N), schedule), i * 100 + j)
    wide = index(e(J) * (1 << 33) + e(I))
    np.testing.assert_array_equal(read_through(source, x, wide, (M, N), schedule), j * (1 << 33) + i)
    causal = term(LessThan(), (index(e(J)), index(e(I) + 3)), bool_)
    chosen = term(Select(), (causal, load(source.tensor, (e(I), e(J)))), f32)
    np.testing.assert_array_equal(read_through(source, x, chosen, (M, N), schedule), np.where(j < i + 3, x, 0))


class Fence:
    """An array whose last byte is followed by a page that must not be touched (and whose first byte follows one)."""

    def __init__(self, values: Array, at_start: bool) -> None:
        page = mmap.PAGESIZE
        size = -(-values.nbytes // page) * page
        self.memory = mmap.mmap(-1, size + 2 * page)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        offset = page if at_start else page + size - values.nbytes
        self.array = np.frombuffer(self.memory, values.dtype, values.size, offset).reshape(values.shape)
        self.array[...] = values
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        assert protect(base, page, 0) == 0
        assert protect(base + page + size, page, 0) == 0
        self.release = lambda: [protect(base, page, 3), protect(base + page + size, page, 3)]


@pytest.mark.parametrize("at_start", [True, False])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_memory_outside_of_guards_selections_and_tails_is_never_touched(schedule: str, at_start: bool) -> None:
    fence = Fence(random(M, N), at_start)
    try:
        source = Buffer(Tensor("x", (M, N), f32), (M, N))
        i, j = np.indices((M, N))
        shifted = e(J) + (-2000 if at_start else 2000)
        refused = load(source.tensor, (e(I), shifted), (shifted, N - 1 - shifted))
        far = term(LessThan(), (index(e(J)), index(e(I) * 0 - 1)), bool_)
        row = e(I) - 3
        halo = load(source.tensor, (row, e(J)), (row, M - 1 - row))
        selected = term(Select(), (far, load(source.tensor, (e(I), shifted))), f32)
        value = term(Add(), (term(Add(), (refused, halo), f32), selected), f32)
        expected = np.where(i >= 3, fence.array[i - 3, j], 0)
        np.testing.assert_array_equal(read_through(source, fence.array, value, (M, N), schedule), expected)
        plain = load(source.tensor, (e(I), e(J)))
        np.testing.assert_array_equal(read_through(source, fence.array, plain, (M, N), schedule), fence.array)
    finally:
        fence.release()


def test_a_select_protects_a_load_by_a_loaded_condition() -> None:
    fence = Fence(random(M, N), at_start=False)
    try:
        source, flags = Buffer(Tensor("x", (M, N), f32), (M, N)), Buffer(Tensor("f", (M,), bool_), (M,))
        picked = np.arange(M) % 3 == 0
        outside = load(source.tensor, (e(I) * 3000, e(J)))
        keep = term(Mul(), (load(flags.tensor, (e(I),)), load(flags.tensor, (e(I),))), bool_)
        chosen = term(Select(), (term(LessThan(), (index(e(I)), number(1, i64)), bool_), outside), f32)
        chosen = term(Select(), (keep, chosen), f32)
        result = read_through(source, fence.array, chosen, (M, N), "i:2 j:16 i:1u j:8v", (flags, picked))
        np.testing.assert_array_equal(result[0], fence.array[0])
        assert not result[1:].any()
    finally:
        fence.release()


@pytest.mark.parametrize("tile", [4, 8, 12])
@pytest.mark.parametrize("rows", [1, 4, 9, 24])
def test_local_buffers_count_from_where_they_are_allocated(tile: int, rows: int) -> None:
    columns = 21
    i, j = Axis("i", rows), Axis("j", columns)
    x, out, part = (
        Tensor("x", (rows, columns), f32),
        Tensor("out", (rows, columns), f32),
        Tensor("t", (tile, columns), f32),
    )
    total, best = Tensor("s", (tile,), f32), Tensor("m", (tile,), f32)
    local = tuple(Buffer(t, t.shape, scope=BufferScope.LOCAL, writable=True) for t in (part, total, best))
    at, row = (e(i), e(j)), (e(i),)
    doubled = tee(part, at, term(Mul(), (load(x, at), number(2, f32)), f32))
    order = "i:2 j:8 i:1u j:8v"
    body: tuple[Statement, ...] = (
        Allocate(local),
        *reduction(order, (i, j), (j,), (total, row), doubled, partial=(j,)),
        *reduction(order, (i, j), (j,), (best, row), load(part, at), combine=Combine.MAX),
        *nest(
            levels(order, (i, j)),
            Store(out, at, term(Add(), (load(part, at), term(Mul(), (load(total, row), load(best, row)), f32)), f32)),
        ),
    )
    body = nest(levels(f"i:{tile}", (i,)), *body)
    values = random(rows, columns)
    result = both(
        kernel([Buffer(x, x.shape), Buffer(out, out.shape, writable=True)], body),
        {"x": values, "out": np.zeros_like(values)},
        "out",
    )
    np.testing.assert_allclose(
        result, 2 * values + (2 * values).sum(1, keepdims=True) * (2 * values).max(1, keepdims=True), 1e-5, 1e-4
    )


@pytest.mark.parametrize("length", [1, 5, 8, 21, 64])
@pytest.mark.parametrize("order", ["i:6 j:8 i:1u j:1u", "i:4 j:1 i:1u", "i:1 j:16 j:8v"])
def test_causal_bounds_skip_tiles_and_change_nothing(length: int, order: str) -> None:
    i, j = Axis("i", length), Axis("j", length)
    x, out = Tensor("x", (length, length), f32), Tensor("out", (length,), f32)
    value = load(x, (e(i), e(j)), (e(i) - e(j),))
    tile = int(order.split()[0].split(":")[1])
    body = reduction(order, (i, j), (j,), (out, (e(i),)), value, partial=(j,))
    values = random(length, length)
    for chosen in (body, bounded(body, j, e(i) + tile, e(i) - 100)):
        result = both(
            kernel([Buffer(x, x.shape), Buffer(out, out.shape, writable=True)], chosen),
            {"x": values, "out": np.zeros(length, np.float32)},
            "out",
        )
        np.testing.assert_allclose(result, np.tril(values).sum(1), 1e-5, 1e-5)


def bounded(body: tuple[Statement, ...], axis: Axis, upper: Expr, lower: Expr) -> tuple[Statement, ...]:
    """The first serial level of an axis with bounds (the lower one never cuts)."""
    done: list[Statement] = []
    for statement in body:
        if isinstance(statement, Loop):
            inner = bounded(statement.body, axis, upper, lower)
            hit = statement.level.axis == axis and statement.level.kind.value == "s"
            statement = Loop(statement.level, inner, lower if hit else None, upper if hit else None)
        done.append(statement)
    return tuple(done)


@pytest.mark.parametrize("length", [1, 3, 8, 20])
def test_a_window_has_a_lower_bound_at_run_time(length: int) -> None:
    n = Dim("n", 1, 64)
    i, j = Axis("i", e(n)), Axis("j", e(n))
    x, out = Tensor("x", (e(n), e(n)), f32), Tensor("out", (e(n),), f32)
    value = load(x, (e(i), e(j)), (e(i) - e(j), e(j) - e(i) + 4))
    for order, tile in (("i:4 j:8 i:1u j:1u", 4), ("i:1 j:1", 1), ("i:2 j:8 i:1u j:8v", 2)):
        body = reduction(order, (i, j), (j,), (out, (e(i),)), value)
        body = bounded(body, j, e(i) + tile, e(i) - 4)
        values = random(length, length)
        result = both(
            kernel([Buffer(x, x.shape), Buffer(out, out.shape, writable=True)], body, (n,)),
            {"x": values, "out": np.zeros(length, np.float32)},
            "out",
            {n: length},
        )
        np.testing.assert_allclose(result, (np.tril(values) - np.tril(values, -5)).sum(1), 1e-5, 1e-5)


@pytest.mark.parametrize("length", [1, 2, 9, 16, 33])
def test_a_scatter_goes_where_a_loaded_index_says(length: int) -> None:
    i = Axis("i", length)
    x, to, out = Tensor("x", (length,), f32), Tensor("to", (length,), i64), Tensor("out", (length,), f32)
    order = np.random.default_rng(2).permutation(length)
    at = opaque(load(to, (e(i),)), 0, length - 1)
    body = nest(levels("i:8 i:8v", (i,)), Store(out, (e(at),), load(x, (e(i),))))
    values = random(length)
    buffers = [Buffer(x, (length,)), Buffer(to, (length,)), Buffer(out, (length,), writable=True)]
    result = both(kernel(buffers, body), {"x": values, "to": order, "out": np.zeros(length, np.float32)}, "out")
    np.testing.assert_array_equal(result[order], values)


def test_phases_run_in_order_over_a_shared_workspace_in_ticket_ranges() -> None:
    rows, columns = 13, 20
    i, j = Axis("i", rows), Axis("j", columns)
    x, out = Tensor("x", (rows, columns), f32), Tensor("out", (columns, rows), f32)
    shared = Tensor("w", (columns, rows), f32)
    workspace = Buffer(
        shared, shared.shape, Blocked((Block(0, 4), Block(1, 1), Block(0, 1))), BufferScope.WORKSPACE, True
    )
    pack = nest(levels("j:4v", (i, j)), Store(shared, (e(j), e(i)), load(x, (e(i), e(j)))))
    copy = nest(levels("j:1u i:8v", (i, j)), Store(out, (e(j), e(i)), load(shared, (e(j), e(i)))))
    phases = (Phase(levels("i:1 j:4", (i, j)), pack), Phase(levels("j:4 i:8", (i, j)), copy))
    program = Kernel("two", (Buffer(x, x.shape), Buffer(out, out.shape, writable=True), workspace), (), phases)
    values = random(rows, columns)
    arrays = {"x": values, "out": np.zeros((columns, rows), np.float32), "w": np.zeros(rows * columns, np.float32)}
    Runner(program)(arrays, chunk=2)
    np.testing.assert_array_equal(arrays["out"], values.T)


@pytest.mark.parametrize("size", [(13, 21, 40), (6, 16, 8), (1, 1, 17)])
@pytest.mark.parametrize("symbolic", [False, True])
def test_an_outer_block_of_a_reduced_axis_continues_from_memory(size: tuple[int, int, int], symbolic: bool) -> None:
    rows, columns, depth = size
    dim = Dim("d", 1, 4096)
    i, j, k = axes = Axis("i", rows), Axis("j", columns), Axis("k", e(dim) if symbolic else depth)
    a, b, c = (
        Tensor("a", (rows, k.extent), f32),
        Tensor("b", (k.extent, columns), f32),
        Tensor("c", (rows, columns), f32),
    )
    total = Accumulator("acc", Combine.SUM, f32, (i, j))
    product = term(Mul(), (load(a, (e(i), e(k))), load(b, (e(k), e(j)))), f32)
    data = levels("i:1u j:8v", axes)
    tile = (
        *nest(data, Init(total, load(c, (e(i), e(j)), (e(k) - 1,)))),
        *nest(levels("k:4 k:1u i:1u j:8v", axes), Update(total, product)),
        *nest(data, Store(c, (e(i), e(j)), read(total))),
    )
    body = nest(levels("k:8 i:12 j:16 i:3", axes), *tile)
    buffers = [Buffer(a, a.shape), Buffer(b, b.shape), Buffer(c, c.shape, writable=True)]
    x, y = random(rows, depth), random(depth, columns)
    arrays = {"a": x, "b": y, "c": np.full((rows, columns), np.nan, np.float32)}
    dims, sizes = ((dim,), {dim: depth}) if symbolic else ((), {})
    result = both(kernel(buffers, body, dims), arrays, "c", sizes)
    np.testing.assert_allclose(result, x @ y, 1e-4, 1e-4)


@pytest.mark.parametrize("places", [[3, 3, 19, 0, 7, 8, 3, 19, 2], [-1, 20, 5, 2**31 - 1, -(2**31), -20, 5, 99, 16]])
def test_a_loop_from_a_loaded_place_runs_there_and_nowhere_outside(places: list[int]) -> None:
    rows = np.arange(9 * 24, dtype=np.float32).reshape(9, 24)
    arrays = {"index": np.array(places, np.int32), "x": rows, "y": np.full((20, 24), np.nan, np.float32)}
    found = both(parse_kernel(SCATTER), arrays, "y")
    expected = np.zeros((20, 24), np.float32)
    for place, row in zip(places, rows, strict=True):
        if 0 <= place < 20:
            expected[place] += row
    np.testing.assert_array_equal(found, expected)
