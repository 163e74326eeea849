"""Derivatives at the points that random values never hit: 0, 1, -1, and where two branches meet.  PyTorch is the judge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

import snell as sn

POINTS = np.array([0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5])
BASES = np.array([0.0, 1.0, 2.0, 0.5])
EXPONENTS = np.array([0.0, 1.0, 2.0, 3.0, -1.0, -2.0, 2.5, 0.3, -0.5, 1.5])
FOUR = np.full(POINTS.shape, 4.0)

SMOOTH: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "absolute": (sn.absolute, torch.abs),
    "softplus": (sn.softplus, functional.softplus),
    "mish": (sn.mish, functional.mish),
    "log_sigmoid": (sn.log_sigmoid, functional.logsigmoid),
    "softsign": (sn.softsign, functional.softsign),
    "asinh": (sn.asinh, torch.asinh),
    "fmod": (lambda x: sn.fmod(x, FOUR), lambda x: torch.fmod(x, torch.tensor(FOUR))),
    "modulo": (lambda x: sn.modulo(x, FOUR), lambda x: torch.remainder(x, torch.tensor(FOUR))),
    "relu": (sn.relu, torch.relu),
    "elu": (sn.elu, functional.elu),
    "celu": (sn.celu, functional.celu),
    "selu": (sn.selu, functional.selu),
    "leaky_relu": (sn.leaky_relu, functional.leaky_relu),
    "gelu": (sn.gelu, functional.gelu),
    "silu": (sn.silu, functional.silu),
    "hardswish": (sn.hardswish, functional.hardswish),
    "tanh": (sn.tanh, torch.tanh),
    "sinh": (sn.sinh, torch.sinh),
    "cosh": (sn.cosh, torch.cosh),
    "expm1": (sn.expm1, torch.expm1),
    "erf": (sn.erf, torch.erf),
    "atan": (sn.atan, torch.atan),
}


@pytest.fixture(scope="module")
def derivatives() -> dict[str, np.ndarray]:
    program = sn.compile(lambda x: {n: sn.grad(lambda x, f=f: f(x).sum())(x) for n, (f, _) in SMOOTH.items()})
    return {name: np.asarray(value) for name, value in program(POINTS).items()}


@pytest.mark.parametrize("name", SMOOTH)
def test_a_function_of_two_branches_has_the_derivative_of_torch_where_they_meet(
    name: str, derivatives: dict[str, np.ndarray]
) -> None:
    x = torch.tensor(POINTS, requires_grad=True)
    SMOOTH[name][1](x).sum().backward()
    np.testing.assert_allclose(derivatives[name], x.grad, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_power_has_its_derivatives_at_0_and_1_and_of_exponents_0_and_1(dtype: type) -> None:
    a, b = (grid.ravel().astype(dtype) for grid in np.meshgrid(BASES, EXPONENTS))

    def total(a: sn.Tensor, b: sn.Tensor) -> sn.Tensor:
        return sn.power(a, b).sum()

    def second(a: sn.Tensor, b: sn.Tensor) -> sn.Tensor:
        return sn.grad(lambda a: sn.grad(total)(a, b).sum())(a)

    (by_a, by_b), by_a_twice = sn.tree.map(
        np.asarray, sn.compile(lambda a, b: (sn.grad(total, (0, 1))(a, b), second(a, b)))(a, b)
    )
    base, exponent = torch.tensor(a, requires_grad=True), torch.tensor(b, requires_grad=True)
    first = torch.autograd.grad(torch.pow(base, exponent).sum(), (base, exponent), create_graph=True)
    (twice,) = torch.autograd.grad(first[0].sum(), base)
    tolerance = 64 * float(np.finfo(dtype).eps)
    np.testing.assert_allclose(by_a, first[0].detach(), rtol=tolerance)
    defined = (a > 0) | (b > 0)  # the derivative along the exponent of a power of 0
    np.testing.assert_allclose(by_b[defined], first[1].detach()[defined], rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(by_a_twice[a > 0], twice[a > 0], rtol=tolerance, atol=tolerance)


def test_a_known_fraction_as_exponent_has_torchs_derivative_and_nan_below_0() -> None:
    x = np.array([0.0, 1.0, 4.0, -1.0])
    for exponent in (1.5, 0.3, 2.5):
        judge = torch.tensor(x, requires_grad=True)
        (judge**exponent).sum().backward()
        found = sn.compile(sn.grad(lambda x, e=exponent: (x**e).sum()))(x)
        np.testing.assert_allclose(found, judge.grad, rtol=1e-12)


def test_a_branch_not_taken_contributes_0_through_a_cast() -> None:
    def root(x: sn.Tensor) -> sn.Tensor:
        return sn.where(x > 0, sn.sqrt(x.astype("f32")).astype("f16"), 0).sum()

    found = sn.compile(sn.grad(root))(np.array([0.0, -1.0, 4.0], np.float16))
    np.testing.assert_array_equal(found, np.array([0.0, 0.0, 0.25], np.float16))


def test_what_only_resembles_an_absolute_value_has_its_own_derivative() -> None:
    x = np.array([[0.0, -1.0], [2.0, 0.0]])
    found = sn.compile(sn.grad(lambda x: sn.where(x < 0, -x.T, x).sum()))(x)
    np.testing.assert_array_equal(found, [[1.0, 0.0], [0.0, 1.0]])


def test_a_power_of_a_transposed_matrix_has_no_nan_where_it_is_defined() -> None:
    a, b = np.array([[1.5, 2.0], [0.5, 3.0]]), np.full((2, 2), 1.5)
    found = sn.compile(sn.grad(lambda a, b: sn.power(a.T, b.T).sum()))(a, b)
    np.testing.assert_allclose(found, 1.5 * a**0.5, rtol=1e-14)
