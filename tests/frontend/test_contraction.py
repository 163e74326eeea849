"""Products of matrices and Einstein sums agree with NumPy."""

import numpy as np
import pytest
from tests.frontend.judge import random, run, tensor

import snell.frontend as sn
from snell.errors import DTypeError, ShapeError
from snell.symbolic import Dim

SHAPES = [
    ((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4, 5)), ((2, 1, 3, 4), (6, 4, 5)),
    ((0, 4), (4, 5)), ((3, 0), (0, 5)), ((1, 4), (4, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_matmul_agrees_with_numpy(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = random(*left), random(*right, seed=1)
    np.testing.assert_allclose((tensor(a) @ tensor(b)).numpy(), a @ b, rtol=1e-5, atol=1e-6)


def test_matmul_of_integers_wraps_in_its_dtype() -> None:
    a = np.full((2, 2), 2**30, np.int32)
    np.testing.assert_array_equal((tensor(a) @ tensor(a)).numpy(), a @ a)


def test_matmul_names_the_extents_that_differ() -> None:
    with pytest.raises(ShapeError, match=r"\(3, 4\) @ \(5, 4\): 4 and 5"):
        tensor(random(3, 4)) @ tensor(random(5, 4))
    with pytest.raises(DTypeError, match="bool"):
        tensor([[True]]) @ tensor([[True]])


def test_matmul_over_symbolic_sizes() -> None:
    m, k = Dim("m"), Dim("k", min=0)
    for rows, inner in ((1, 1), (5, 3), (2, 0)):
        a, b = random(rows, inner), random(inner, 4, seed=2)
        (result,) = run(lambda a, b: a @ b, [sn.TensorSpec.of((m, k)), sn.TensorSpec.of((k, 4))], [a, b])
        np.testing.assert_allclose(result, a @ b, rtol=1e-5, atol=1e-6)


EQUATIONS = [
    ("ij,jk->ik", (2, 3), (3, 4)), ("bij,bjk", (5, 2, 3), (5, 3, 4)), ("i,i->", (4,), (4,)), ("i,j->ji", (2,), (3,)),
    ("...ij,...jk->...ik", (2, 1, 2, 3), (4, 3, 2)), ("ii->i", (3, 3)), ("ii", (3, 3)), ("ijj->i", (2, 3, 3)),
    ("ij->ji", (2, 3)), ("bhqd,bhkd->bhqk", (1, 2, 3, 4), (1, 2, 5, 4)), ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)),
    ("ij,kj->", (2, 3), (4, 3)), ("b...->b", (2, 3, 4)),
]  # fmt: skip


@pytest.mark.parametrize("case", EQUATIONS, ids=lambda case: case[0])
def test_einsum_agrees_with_numpy(case) -> None:
    equation, *shapes = case
    arrays = [random(*shape, seed=k) for k, shape in enumerate(shapes)]
    expected = arrays[0].sum((1, 2)) if equation == "b...->b" else np.einsum(equation, *arrays)
    np.testing.assert_allclose(sn.einsum(equation, *map(tensor, arrays)).numpy(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("equation", ["ij,jk->iz", "ij->ij", "ij,jk->ii", "ijk,jk->i"])
def test_a_malformed_equation_is_a_shape_error(equation: str) -> None:
    with pytest.raises(ShapeError, match="einsum"):
        sn.einsum(equation, tensor(random(2, 3)), tensor(random(3, 4)))


def test_dot_outer_and_tensordot() -> None:
    a, b = random(4), random(4, seed=1)
    np.testing.assert_allclose(sn.dot(tensor(a), b).numpy(), a @ b, rtol=1e-5)
    np.testing.assert_allclose(sn.outer(tensor(a), b).numpy(), np.outer(a, b), rtol=1e-6)
    x, y = random(2, 3, 4), random(4, 3, 5)
    np.testing.assert_allclose(
        sn.tensordot(tensor(x), y, ([1, 2], [1, 0])).numpy(), np.tensordot(x, y, ([1, 2], [1, 0])), rtol=1e-4, atol=1e-5
    )
