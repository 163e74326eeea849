"""Under `precision="fast"` long products round their operands to bf16 where the target has the instruction for it.

The tolerance is derived: each operand is rounded by at most 2⁻⁹ of itself, so a product by 2⁻⁸ (and a little); sums are f32.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import snell as sn
from snell.codegen.host import host_target
from snell.dtypes import f32
from snell.graph.primitives import Mul
from snell.loops.ir import Accumulator, Combine, read
from snell.loops.narrow import narrow_products
from snell.loops.stage import Partial, Stage
from snell.rewrite.term import Cast, Tensor, load, term
from snell.symbolic import Axis, as_expr
from snell.targets import AVX512, BF16_PAIRS

PRODUCT_EPSILON = 2.0**-8 + 2.0**-16
HAS_PAIRS = BF16_PAIRS in host_target().products


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def product_stage(result: Tensor, left: Tensor, right: Tensor, length: int) -> Stage:
    i, j, k = Axis(f"{result.name}_i", result.shape[0]), Axis(f"{result.name}_j", result.shape[1]), Axis("k", length)
    places = (as_expr(i), as_expr(j))
    accumulator = Accumulator("acc0", Combine.SUM, f32, (i, j))
    factors = (load(left, (places[0], as_expr(k))), load(right, (as_expr(k), places[1])))
    partial = Partial(accumulator, term(Mul(), factors, f32))
    return Stage(result, (i, j), places, (k,), (partial,), read(accumulator))


X, W = Tensor("x", (32, 256), f32), Tensor("w", (256, 128), f32, frozen=True)
H, V, Y = Tensor("h", (32, 128), f32), Tensor("v", (128, 64), f32, frozen=True), Tensor("y", (32, 64), f32)
STAGES = [product_stage(H, X, W, 256), product_stage(Y, H, V, 128)]
PAIRS = replace(AVX512, products=(BF16_PAIRS,))


def test_a_value_that_only_products_read_is_stored_narrow_and_an_input_is_rounded_first() -> None:
    made = narrow_products(STAGES, [Y], PAIRS)
    assert [(stage.tensor.name, str(stage.tensor.dtype)) for stage in made] == [
        ("x.bf16", "bf16"), ("h", "bf16"), ("y", "f32"),
    ]  # fmt: skip


def test_a_value_that_is_kept_is_rounded_beside_itself() -> None:
    made = narrow_products(STAGES, [H, Y], PAIRS)
    assert [(stage.tensor.name, str(stage.tensor.dtype)) for stage in made] == [
        ("x.bf16", "bf16"), ("h", "f32"), ("h.bf16", "bf16"), ("y", "f32"),
    ]  # fmt: skip


def test_a_weight_is_rounded_where_it_is_read() -> None:
    body = narrow_products(STAGES, [Y], PAIRS)[-1].partials[0].body
    rounded = [factor.args[0] for factor in body.args]
    assert [isinstance(item.op, Cast) for item in rounded] == [False, True]


def test_nothing_changes_for_a_target_without_the_instruction_or_for_short_sums() -> None:
    assert narrow_products(STAGES, [Y], AVX512) == STAGES
    short = [product_stage(Y, Tensor("a", (32, 8), f32), Tensor("b", (8, 64), f32), 8)]
    assert narrow_products(short, [Y], PAIRS) == short


@pytest.mark.parametrize("rows", [1, 2, 9, 64, 300])
@pytest.mark.parametrize(("length", "columns"), [(64, 48), (333, 129), (1024, 70)])
def test_a_fast_product_differs_by_the_rounding_of_its_operands_only(rows: int, length: int, columns: int) -> None:
    x, w = normal(0, rows, length), normal(1, length, columns)
    fast = sn.compile(lambda x: x @ w, precision="fast")(x).numpy()
    expected = x.astype(np.float64) @ w.astype(np.float64)
    bound = (PRODUCT_EPSILON + length * 2.0**-23) * (np.abs(x.astype(np.float64)) @ np.abs(w.astype(np.float64)))
    assert np.all(np.abs(fast - expected) <= bound)
    if HAS_PAIRS and rows > 1:
        assert np.max(np.abs(fast - expected)) > 1e-3  # it was rounded


@pytest.mark.parametrize("batch", [1, 5])
def test_layers_with_a_residual_stay_close_and_default_precision_is_untouched(batch: int) -> None:
    x, w, v = normal(2, batch, 40, 96), normal(3, 96, 256) / 10, normal(4, 256, 96) / 16

    def layers(x: sn.Tensor) -> sn.Tensor:
        for _ in range(2):
            x = sn.layer_norm(x + sn.gelu(x @ w) @ v)
        return x

    default = sn.compile(layers)(x).numpy()
    fast = sn.compile(layers, precision="fast")(x).numpy()
    strict = sn.compile(layers, precision="strict")(x).numpy()
    np.testing.assert_allclose(default, strict, rtol=1e-4, atol=1e-4)
    cosine = np.sum(default * fast, -1) / np.linalg.norm(default, axis=-1) / np.linalg.norm(fast, axis=-1)
    assert np.all(cosine >= 0.9995)
