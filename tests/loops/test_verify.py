"""The verifier names what is wrong with a kernel."""

from __future__ import annotations

import pytest
from tests.loops.test_text import GEMM, SCATTER

from snell.errors import VerificationError
from snell.loops.parse import parse_kernel
from snell.loops.verify import verify

LOCAL = """\
kernel sums
  dim n 1..4096
  axis i 24
  axis j n
  parameter x f32[24, n]
  parameter y f32[24] writable
  accumulator s sum f32 (i)
  phase
    for i:8
      local t f32[8]
      allocate t
      for i:1
        s = 0:f32
        for j:8 j:8v
          s += x[i, j]
        t[i] = s
      for i:8v
        y[i] = t[i]
"""


PAIRS = """\
kernel pairs
  axis i 6
  axis j 32
  axis k 9
  parameter A bf16[6, 9]
  parameter B bf16[9, 32] blocked (1:32 0:2 1:1 0:1)
  parameter C f32[6, 32] writable
  accumulator s sum f32 (i, j)
  phase
    for i:1 j:16
      for j:16v
        s = 0:f32
      for k:2 j:16v k:2t
        s += Mul(f32(A[i, k]), f32(B[k, j]))
      for j:16v
        C[i, j] = s
"""


@pytest.mark.parametrize("text", [GEMM, LOCAL, PAIRS, SCATTER])
def test_a_well_formed_kernel_passes(text: str) -> None:
    verify(parse_kernel(text))


@pytest.mark.parametrize(
    ("text", "old", "new", "message"),
    [
        (GEMM, "B[k, j]", "B[k]", "2 dimensions, received 1 indices"),
        (GEMM, "C f32[197, 333] writable", "C f32[197, 333]", "not writable"),
        (GEMM, "C[i, j] = acc", "C[i, j] = f16(acc)", "holds f32, received f16"),
        (GEMM, "acc = 0:f32", "acc = 0:i32", "holds f32, received i32"),
        (GEMM, "k:4 k:1u i:1u j:8v", "k:4 i:1u j:8v", "uses k with a range of 4 left"),
        (GEMM, "j:16 i:6", "j:24 i:6", "crosses the blocks of 16"),
        (GEMM, "for i:1u j:8v\n        C", "for j:8v i:1u\n        C", "axes must agree"),
        (GEMM, "      for i:1u j:8v\n        acc = 0:f32\n", "", "no Init reaches it"),
        (GEMM, "for i:1u j:8v\n        acc = 0:f32", "for i:1 j:8v\n        acc = 0:f32", "no Init reaches it"),
        (GEMM, "k:4 k:1u i:1u j:8v", "k:8v i:1u j:8v", "lanes run along one axis"),
        (GEMM, "j:8v\n        C", "j:8v j:1\n        C", "lanes run along one axis"),
        (GEMM, "blocked (1:16 0:1 1:1)", "blocked (1:16 0:1 1:5)", "must divide the block of 16"),
        (GEMM, "parameter B", "parameter A2 u4[3]\n  parameter B", "needs a Strided layout"),
        (GEMM, "phase i:96", "phase i:96 i:12", "one an axis"),
        (PAIRS, "j:16v k:2t", "k:2t j:16v", "may hold updates and stores only"),
        (PAIRS, "Mul(f32(A[i, k]), f32(B[k, j]))", "f32(B[k, j])", "sums of products of two converted values"),
        (PAIRS, "      for k:2 j:16v k:2t", "      for j:2 k:16v j:2t", "must reduce"),
        (PAIRS, "j:16v k:2t", "k:2t", "uses j with a range of 16 left"),
        (LOCAL, "t f32[8]", "t f32[7]", "local buffer t has 7 positions"),
        (LOCAL, "      allocate t\n", "", "no buffer here"),
        (LOCAL, "for i:8v\n        y[i] = t[i]", "for i:1 j:1 j:8v\n        y[i] = t[i]", "one place for all lanes"),
        (LOCAL, "dim n 1..4096", "dim n 1..4096\n  dim m 1..2", None),
        (LOCAL, "        s = 0:f32", "        prefetch x[i + 8, j]\n        s = 0:f32", None),
        (LOCAL, "        s = 0:f32", "        prefetch x[i]\n        s = 0:f32", "2 dimensions, received 1 indices"),
        (LOCAL, "s += x", "prefetch x[i, j]\n          s += x", "before the vector level"),
        (LOCAL, "for j:8 j:8v", "for j:8 j:8v from 3", "cannot have bounds"),
        (SCATTER, "    for n:1\n", "    for n:3\n", "uses n with a range of 3 left"),
        (SCATTER, "from {index[n]", "from {index[n, n]", "1 dimensions, received 2 indices"),
    ],
)
def test_each_mistake_is_named(text: str, old: str, new: str, message: str | None) -> None:
    assert old in text
    kernel = parse_kernel(text.replace(old, new))
    if message is None:
        verify(kernel)
        return
    with pytest.raises(VerificationError, match=message):
        verify(kernel)
