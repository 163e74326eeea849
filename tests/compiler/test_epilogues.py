"""What is done to a product's result, and to its operands' scales, is part of the product's kernel at few and many rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.compiler.programs import lowered, spec

import snell as sn
from snell.frontend import TensorSpec

_LENGTH, _WIDTH = 576, 576


def _biased(x: sn.Tensor, w: sn.Tensor, b: sn.Tensor) -> sn.Tensor:
    return sn.gelu(x @ w + b)


def _residual(x: sn.Tensor, w: sn.Tensor, before: sn.Tensor) -> sn.Tensor:
    return before + x @ w


def _scaled_rows(x: sn.Tensor, w: sn.Tensor, scale: sn.Tensor) -> sn.Tensor:
    return (x * scale) @ w


def _scaled_results(x: sn.Tensor, w: sn.Tensor, scale: sn.Tensor) -> sn.Tensor:
    return (x @ w) * scale


def _dequantised(x: sn.Tensor, values: sn.Tensor, scales: sn.Tensor) -> sn.Tensor:
    return x @ (values.astype("f32") * scales).reshape(_WIDTH, _LENGTH).transpose(0, 1)


def _specs(rows: int, third: TensorSpec) -> tuple[TensorSpec, ...]:
    return spec(rows, _LENGTH), spec(_LENGTH, _WIDTH, frozen=True), third


def _written(function: Callable[..., Any], *specs: TensorSpec) -> list[set[str]]:
    """Names of the tensors that each kernel leaves behind."""
    return [{tensor.name for tensor in kernel.writes} for kernel in lowered(function, *specs).kernels]


@pytest.mark.parametrize("rows", [1, 32, 128])
def test_bias_activation_and_residual_store_nothing_in_between(rows: int):
    assert _written(_biased, *_specs(rows, spec(_WIDTH))) == [{"out0"}]
    assert _written(_residual, *_specs(rows, spec(rows, _WIDTH))) == [{"out0"}]


@pytest.mark.parametrize("rows", [1, 32, 128])
def test_a_scale_of_rows_stores_nothing_in_between(rows: int):
    assert _written(_scaled_rows, *_specs(rows, spec(rows, 1))) == [{"out0"}]
    assert _written(_scaled_results, *_specs(rows, spec(rows, 1))) == [{"out0"}]


@pytest.mark.parametrize("rows", [1, 32, 128])
def test_scales_of_quantised_blocks_store_no_weights(rows: int):
    blocks = _LENGTH // 32
    values, scales = (
        spec(_WIDTH, blocks, 32, dtype="i8", frozen=True),
        spec(_WIDTH, blocks, 1, frozen=True),
    )
    assert _written(_dequantised, spec(rows, _LENGTH), values, scales) == [{"out0"}]
