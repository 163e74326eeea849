"""Kernels print as pseudo-code and read back equal."""

from __future__ import annotations

from fractions import Fraction

import pytest
from tests.codegen.fuzz import random_case
from tests.codegen.kernels import levels, nest

from snell.dtypes import bool_, f32, i64
from snell.errors import VerificationError
from snell.graph.primitives import LessThan, Mul, ScalarFunction
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
    Prefetch,
    Store,
    Update,
    read,
    tee,
)  # fmt: skip
from snell.loops.parse import parse_kernel
from snell.loops.text import print_kernel
from snell.rewrite.term import Select, Tensor, index, load, number, opaque, term
from snell.symbolic import Axis, Dim, as_expr

GEMM = """\
kernel gemm
  axis i 197
  axis j 333
  axis k 130
  parameter A f32[197, 130]
  parameter B f32[130, 333] blocked (1:16 0:1 1:1)
  parameter C f32[197, 333] writable
  accumulator acc sum f32 (i, j)
  phase i:96
    for j:16 i:6
      for i:1u j:8v
        acc = 0:f32
      for k:4 k:1u i:1u j:8v
        acc += Mul(A[i, k], B[k, j])
      for i:1u j:8v
        C[i, j] = acc
"""


SCATTER = """\
kernel scatter
  axis r 20
  axis c 24
  axis n 9
  parameter index i32[9]
  parameter x f32[9, 24]
  parameter y f32[20, 24] writable
  phase r:8
    local t f32[8, 24] writable
    allocate t
    for r:1 c:8 c:8v
      t[r, c] = 0:f32
    for n:1
      for r:1 from {index[n] in -2147483648..2147483647} below {index[n] in -2147483648..2147483647} + 1
        for c:8 c:8v
          t[r, c] = Add(t[r, c], x[n, c])
    for r:1 c:8 c:8v
      y[r, c] = t[r, c]
"""


def gemm() -> Kernel:
    i, j, k = axes = Axis("i", 197), Axis("j", 333), Axis("k", 130)
    a, b, c = Tensor("A", (197, 130), f32), Tensor("B", (130, 333), f32), Tensor("C", (197, 333), f32)
    acc = Accumulator("acc", Combine.SUM, f32, (i, j))
    product = term(Mul(), (load(a, (as_expr(i), as_expr(k))), load(b, (as_expr(k), as_expr(j)))), f32)
    data = levels("i:1u j:8v", axes)
    body = (
        *nest(data, Init(acc, number(0, f32))),
        *nest(levels("k:4 k:1u i:1u j:8v", axes), Update(acc, product)),
        *nest(data, Store(c, (as_expr(i), as_expr(j)), read(acc))),
    )
    layout = Blocked((Block(1, 16), Block(0, 1), Block(1, 1)))
    buffers = (Buffer(a, a.shape), Buffer(b, b.shape, layout), Buffer(c, c.shape, writable=True))
    phase = Phase(levels("i:96", axes), nest(levels("j:16 i:6", axes), *body))
    return Kernel("gemm", buffers, (), (phase,))


def test_a_matrix_product_prints_as_it_would_be_explained() -> None:
    assert print_kernel(gemm()) == GEMM


def test_the_text_reads_back_to_an_equal_kernel() -> None:
    assert parse_kernel(GEMM) == gemm()


@pytest.mark.parametrize("seed", range(40))
def test_random_kernels_survive_a_round_trip(seed: int) -> None:
    kernel = random_case(seed).kernel
    assert parse_kernel(print_kernel(kernel)) == kernel


def test_guards_bounds_gathers_locals_hints_and_functions_survive_a_round_trip() -> None:
    n = Dim("n", 0, 4096, 8, (1, 128))
    i, j = axes = Axis("i", as_expr(n)), Axis("j", 40)
    table, to = Tensor("table", (9, 40), f32), Tensor("to", (as_expr(n),), i64)
    out, part = Tensor("out", (as_expr(n), 40), f32), Tensor("part", (4, 40), f32)
    at = opaque(load(to, (as_expr(i),)), 0, 8)
    guard = as_expr(i) - (as_expr(j) * 3) // 7
    gathered = load(table, (as_expr(at), as_expr(j) % 9 + as_expr(n) * 0), (guard, 30 - as_expr(j)))
    value = term(ScalarFunction("exp"), (gathered,), f32)
    kept = tee(part, (as_expr(i), as_expr(j)), value)
    early = term(LessThan(), (index(as_expr(i) * as_expr(n)), number(9, i64)), bool_)
    scaled = term(Select(), (early, term(Mul(), (kept, number(Fraction(-1, 3), f32)), f32)), f32)
    local = Buffer(part, part.shape, scope=BufferScope.LOCAL, writable=True)
    inner = Loop(levels("j:8v", axes)[0], (Store(out, (as_expr(i), as_expr(j)), scaled),))
    serial = Loop(levels("i:1", axes)[0], (inner,), as_expr(n) - 3, as_expr(n))
    hint = Prefetch(table, (as_expr(i) % 4 * 2, as_expr(j) + 8))
    body = nest(levels("i:4", axes), Allocate((local,)), hint, serial)
    buffers = (Buffer(table, table.shape), Buffer(to, to.shape), Buffer(out, out.shape, writable=True))
    kernel = Kernel("mixed", buffers, (n,), (Phase((), body), Phase(levels("i:2", axes), ())))
    read_back = parse_kernel(print_kernel(kernel))
    assert read_back == kernel
    assert read_back.dims[0].typical == (1, 128)


@pytest.mark.parametrize(
    "text", ["", "kernel k\n  parameter A f99[3]\n", "kernel k\n  axis i 4\n  phase\n    for q:1\n"]
)
def test_a_malformed_text_is_refused(text: str) -> None:
    with pytest.raises((VerificationError, Exception)):
        parse_kernel(text)
