"""Under `precision="fast"` rows that meet coded weights are rounded to bytes, and their products are summed as whole numbers.

Two judges.  NumPy does the same arithmetic: the rows rounded in blocks, sums of whole numbers exact, and what is added up
in f32 has the bound of a sum in f32.  And the product of the unrounded rows: a value moves by half a scale at most, the
scale of a block being its largest size / 127.  (The second one holds wherever nothing is rounded, too.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import snell as sn
from snell.codegen.host import host_target
from snell.dtypes import f16, f32, i8, i32, u4, u8
from snell.graph.primitives import Mul
from snell.loops.codes import coded
from snell.loops.ir import Accumulator, Combine, read
from snell.loops.nested import nested_sum
from snell.loops.rounding import round_rows
from snell.loops.stage import Partial, Stage
from snell.rewrite.arithmetic import add, multiply
from snell.rewrite.term import Tensor, Term, cast, load, number, term
from snell.symbolic import Axis, as_expr
from snell.targets import AVX2, AVX512, BYTE_QUADS

ROUNDS = any(row.accumulator == i32 for row in host_target().products)
UNIT = 2.0**-24


@dataclass(frozen=True)
class Case:
    """Sizes, and what a weight is: codes of so many bits that count from `least`, with or without an offset."""

    rows: int
    columns: int
    blocks: int
    width: int
    bits: int
    least: int
    has_offset: bool
    seed: int

    def arrays(self) -> tuple[np.ndarray, ...]:
        """Rows, codes, scales, offsets."""
        random = np.random.default_rng(self.seed)
        shape = (self.columns, self.blocks, 1)
        x = random.standard_normal((self.rows, self.blocks * self.width), np.float32)
        codes = random.integers(0, 1 << self.bits, (self.columns, self.blocks, self.width)).astype(np.uint8)
        scales = random.uniform(0.001, 0.1, shape).astype(np.float16)
        offsets = random.uniform(-0.5, 0.5, shape).astype(np.float16)
        return x, codes, scales, offsets


CASES = st.builds(
    Case,
    rows=st.integers(1, 40),
    columns=st.integers(1, 70),
    blocks=st.integers(1, 6),
    width=st.sampled_from((16, 32, 64)),
    bits=st.integers(1, 8),
    least=st.sampled_from((0, -8, -128)),
    has_offset=st.booleans(),
    seed=st.integers(0, 1 << 16),
)


def product(case: Case) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What is computed, the weights, and the rows."""
    x, codes, scales, offsets = case.arrays()

    def decoded(x: sn.Tensor) -> sn.Tensor:
        weight = sn.astype(scales, "f32") * (sn.astype(codes, "f32") + float(case.least))
        if case.has_offset:
            weight = weight + sn.astype(offsets, "f32")
        return x @ weight.reshape(case.columns, case.blocks * case.width).T

    weights = scales.astype(np.float64) * (codes + float(case.least)) + case.has_offset * offsets.astype(np.float64)
    return np.asarray(sn.compile(decoded, precision="fast")(x)), weights, x


def in_blocks(x: np.ndarray, case: Case) -> np.ndarray:
    return x.reshape(case.rows, case.blocks, case.width)


@settings(max_examples=12, deadline=None)
@given(CASES)
def test_a_product_moves_by_no_more_than_half_a_scale_of_each_rounded_value(case: Case) -> None:
    found, weights, x = product(case)
    blocks = in_blocks(x, case).astype(np.float64)
    scales = np.abs(blocks).max(-1) / 127
    size = np.abs(weights).sum(-1)
    bound = (scales[:, None] * size[None] * 0.5).sum(-1)
    # Terms of a block are gathered from parts that may cancel: the code's own product and the least code's.
    parts = np.abs(blocks)[:, None] * (np.abs(weights) + 256 * np.abs(weights).max())[None]
    bound += 2 * (case.blocks + case.width + 8) * UNIT * parts.sum((-1, -2))
    exact = np.einsum("rbk,cbk->rc", blocks, weights)
    assert (np.abs(found - exact) <= bound).all()


@pytest.mark.skipif(not ROUNDS, reason="this processor multiplies no bytes in groups, so nothing is rounded")
@settings(max_examples=12, deadline=None)
@given(CASES)
def test_the_result_is_that_of_the_rounded_rows_but_for_sums_in_single_precision(case: Case) -> None:
    found, weights, x = product(case)
    blocks = in_blocks(x, case)
    scales = (np.abs(blocks).max(-1, keepdims=True) * np.float32(1 / 127)).astype(np.float32)
    codes = np.trunc(blocks / scales + np.float32(128.5)) - 128
    rounded = codes.astype(np.float64) * scales
    parts = np.abs(rounded)[:, None] * (np.abs(weights) + 256 * np.abs(weights).max())[None]
    bound = 2 * (case.blocks + 8) * UNIT * parts.sum((-1, -2))
    assert (np.abs(found - np.einsum("rbk,cbk->rc", rounded, weights)) <= bound).all()


def test_a_row_of_zeros_gives_zeros_and_one_with_a_nan_gives_nan() -> None:
    case = Case(2, 20, 2, 32, 4, -8, has_offset=True, seed=1)
    _, codes, scales, offsets = case.arrays()

    def decoded(x: sn.Tensor) -> sn.Tensor:
        weight = sn.astype(scales, "f32") * (sn.astype(codes, "f32") - 8.0) + sn.astype(offsets, "f32")
        return x @ weight.reshape(20, 64).T

    x = np.zeros((2, 64), np.float32)
    x[1, 40] = np.nan
    found = np.asarray(sn.compile(decoded, precision="fast")(x))
    assert (found[0] == 0).all()
    assert np.isnan(found[1]).all()


def test_one_row_and_many_rows_give_the_same_bits() -> None:
    case = Case(37, 70, 3, 32, 4, 0, has_offset=True, seed=3)
    x, codes, scales, offsets = case.arrays()

    def decoded(x: sn.Tensor) -> sn.Tensor:
        weight = sn.astype(scales, "f32") * sn.astype(codes, "f32") + sn.astype(offsets, "f32")
        return x @ weight.reshape(70, 96).T

    function = sn.compile(decoded, precision="fast")
    together = np.asarray(function(x))
    if ROUNDS:
        assert (np.asarray(function(x[5:6])) == together[5:6]).all()
    np.testing.assert_allclose(np.asarray(function(x[5:6])), together[5:6], rtol=1e-5, atol=1e-4)


# What is found in a stage.

N, B, K, M = Axis("n", 48), Axis("b", 3), Axis("k", 32), Axis("m", 5)
ROWS = Tensor("x", (5, 96), f32)
CODES, SCALES = Tensor("q", (48, 3, 32), u4, frozen=True), Tensor("s", (48, 3), f16, frozen=True)
RESULT = Tensor("y", (5, 48), f32)
BYTES = replace(AVX512, products=(BYTE_QUADS,))


def stage_of(weight: Term) -> Stage:
    accumulator = Accumulator("acc0", Combine.SUM, f32, (M, N))
    row = load(ROWS, (as_expr(M), as_expr(B) * 32 + as_expr(K)))
    partial = Partial(accumulator, term(Mul(), (row, weight), f32))
    return Stage(RESULT, (M, N), (as_expr(M), as_expr(N)), (B, K), (partial,), read(accumulator))


def code(tensor: Tensor = CODES) -> Term:
    return cast(load(tensor, (as_expr(N), as_expr(B), as_expr(K))), f32)


def scale(tensor: Tensor = SCALES) -> Term:
    return cast(load(tensor, (as_expr(N), as_expr(B))), f32)


def test_a_code_is_found_in_the_arithmetic_that_decodes_it() -> None:
    found = coded(multiply(scale(), add(code(), number(-8, f32))), frozenset((B, K)))
    assert found is not None
    assert found.axes == {K}
    assert (found.code, found.least, found.greatest, found.scale, found.offset) == (code(), -8, 15, scale(), None)


def test_a_scale_that_varies_along_the_sum_leaves_no_code() -> None:
    varying = cast(load(Tensor("s", (48, 3, 32), f16, frozen=True), (as_expr(N), as_expr(B), as_expr(K))), f32)
    assert coded(multiply(varying, code()), frozenset((B, K))) is None


def test_rows_are_rounded_once_and_the_sum_nests_for_the_instruction() -> None:
    made = round_rows([stage_of(multiply(scale(), code()))], BYTES)
    assert [(stage.tensor.name, stage.tensor.dtype) for stage in made] == [
        ("x.scales32", f32), ("x.codes32", i8), ("x.sums32", f32), ("y", f32),
    ]  # fmt: skip
    found = nested_sum(made[-1], BYTES)
    assert found is not None
    assert (found.inner, found.outer, found.vector, found.rows) == ((K,), (B,), N, M)


def test_a_target_without_the_instruction_rounds_nothing() -> None:
    stages = [stage_of(multiply(scale(), code()))]
    assert round_rows(stages, AVX2) == stages


def test_weights_that_are_no_codes_and_codes_that_are_data_stay_as_they_are() -> None:
    dense = stage_of(cast(load(Tensor("w", (48, 3, 32), f16, frozen=True), (as_expr(N), as_expr(B), as_expr(K))), f32))
    data = stage_of(multiply(scale(), code(replace(CODES, dtype=u8, frozen=False))))
    assert round_rows([dense, data], BYTES) == [dense, data]


@pytest.mark.parametrize("precision", ["strict", "default", "fast"])
def test_rows_are_rounded_under_fast_alone(precision: str) -> None:
    case = Case(4, 32, 2, 32, 4, 0, has_offset=False, seed=5)
    x, codes, scales, _ = case.arrays()

    def decoded(x: sn.Tensor) -> sn.Tensor:
        return x @ (sn.astype(scales, "f32") * sn.astype(codes, "f32")).reshape(32, 64).T

    function = sn.compile(decoded, precision=precision)
    function(x)
    assert (".codes32" in str(function.explain())) == (ROUNDS and precision == "fast")


def test_a_program_with_coded_and_dense_weights_treats_each_as_it_would_alone() -> None:
    case = Case(12, 32, 2, 32, 4, 0, has_offset=False, seed=7)
    x, codes, scales, _ = case.arrays()
    dense = np.random.default_rng(8).standard_normal((64, 48), np.float32)

    def by_codes(x: sn.Tensor) -> sn.Tensor:
        return x @ (sn.astype(scales, "f32") * sn.astype(codes, "f32")).reshape(32, 64).T

    def by_dense(x: sn.Tensor) -> sn.Tensor:
        return x @ sn.array(dense)

    both = sn.compile(lambda x: (by_codes(x), by_dense(x)), precision="fast")(x)
    alone = [sn.compile(one, precision="fast")(x) for one in (by_codes, by_dense)]
    for together, single in zip(both, alone, strict=True):
        np.testing.assert_array_equal(np.asarray(together), np.asarray(single))
