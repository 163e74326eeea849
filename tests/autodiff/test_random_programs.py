"""Gradients of random compiled programs equal PyTorch's, in float64, with fixed and with symbolic sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.autodiff.recipes import OPERATIONS, Step, followed, recipes

import snell as sn

# Sums of some hundred terms of size 1 in float64; a step that rounds to f32 does so in both libraries, each its own way.
EXACT, ROUNDED = 1e-10, 2e-5
SHAPES = st.tuples(st.sampled_from([2, 3, 5, 7]), st.sampled_from([2, 3, 4, 6]))


def torch_gradients(recipe: tuple[Step, ...], arrays: list[np.ndarray]) -> tuple[float, list[np.ndarray]]:
    leaves = [torch.tensor(array, requires_grad=True) for array in arrays]
    value = followed(recipe, leaves, judged=True)
    found = torch.autograd.grad(value, leaves, allow_unused=True)
    return float(value.detach()), [
        np.zeros(a.shape) if g is None else g.numpy() for g, a in zip(found, arrays, strict=True)
    ]


def assert_like_torch(recipe: tuple[Step, ...], program: Any, arrays: list[np.ndarray]) -> None:
    value, gradients = program(*arrays)
    expected, wanted = torch_gradients(recipe, arrays)
    tolerance = ROUNDED if any(OPERATIONS[step.name].is_rounded for step in recipe) else EXACT
    assert abs(float(value) - expected) <= tolerance * (1 + abs(expected))
    for found, judge in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(found, judge, rtol=tolerance, atol=tolerance * (1 + np.abs(judge).max()))


@settings(max_examples=12, deadline=None)
@given(recipes(moving_rows=True), SHAPES, SHAPES, st.integers(0, 1 << 16))
def test_gradients_of_random_programs_equal_torchs(
    recipe: tuple[Step, ...], first: tuple[int, int], second: tuple[int, int], seed: int
) -> None:
    random = np.random.default_rng(seed)
    arrays = [random.normal(size=first), random.normal(size=second)]
    program = sn.compile(sn.value_and_grad(lambda x, y: followed(recipe, (x, y), judged=False), (0, 1)))
    assert_like_torch(recipe, program, arrays)


@settings(max_examples=6, deadline=None)
@given(recipes(moving_rows=False), st.integers(0, 1 << 16))
def test_one_program_has_the_gradients_of_every_size(recipe: tuple[Step, ...], seed: int) -> None:
    random = np.random.default_rng(seed)
    both = sn.value_and_grad(lambda x, y: followed(recipe, (x, y), judged=False), (0, 1))
    program = sn.compile(both, dims={"x": ("rows", None), "y": ("rows", None)})
    for rows in (1, 4, 7):
        assert_like_torch(recipe, program, [random.normal(size=(rows, 4)), random.normal(size=(rows, 4))])
