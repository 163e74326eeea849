"""Inputs are the same in every process; the reference is right; its tolerance tells right from wrong."""

import numpy as np
import pytest
import torch

from snell.bench.arrays import ArrayCase, inputs, reference, round_to_bf16, tolerance
from snell.bench.cases import Attention, Fused, FusedLine, Matmul
from snell.bench.peers.torch_library import LIBRARY

CASES: list[ArrayCase] = [
    Matmul(5, 7, 3, "f32"),
    Attention(False, 9),
    Attention(True, 9),
    *(Fused(line, (6, 20)) for line in FusedLine),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_reference_agrees_with_pytorch_in_float64(case: ArrayCase) -> None:
    operands = inputs(case)
    wide = [torch.from_numpy(operand.astype(np.float64)) for operand in operands]
    match case:
        case Matmul():
            expected = LIBRARY.matmul(*wide)
        case Fused(line=line):
            expected = LIBRARY.fused[line](*wide)
        case Attention(causal=causal):
            expected = LIBRARY.attention(*wide, causal)
    np.testing.assert_allclose(reference(case, operands), expected.numpy(), rtol=1e-12, atol=1e-12)


def test_inputs_are_a_function_of_the_case() -> None:
    first, again = inputs(CASES[0]), inputs(CASES[0])
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0].ravel()[:15], inputs(Matmul(5, 7, 4, "f32"))[0].ravel()[:15])


def test_rounding_to_bf16_agrees_with_pytorch() -> None:
    values = np.random.default_rng(0).standard_normal(10_000, dtype=np.float32)
    expected = torch.from_numpy(values).bfloat16().float().numpy()
    np.testing.assert_array_equal(round_to_bf16(values), expected)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_half_a_percent_of_error_exceeds_the_tolerance(case: ArrayCase) -> None:
    assert tolerance(case) < 0.005
