"""Products of products run in the order of less work, wherever that is the same sum and the policy refines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.compiler.programs import attention, lowered, spec

import snell as sn
from snell.rewrite.policy import Policy


def _three(x: sn.Tensor, a: sn.Tensor, b: sn.Tensor) -> sn.Tensor:
    return x @ (a @ b)


def _linear_attention(q: sn.Tensor, k: sn.Tensor, v: sn.Tensor) -> sn.Tensor:
    return (q @ k.transpose(-1, -2) * 0.125) @ v


_FEW_ROWS = ((4, 96), (96, 160), (160, 128))
_LONG = ((2, 256, 16), (2, 256, 16), (2, 256, 16))


def _shapes(function: Callable[..., Any], shapes: tuple[tuple[int, ...], ...], **options: Any) -> list[tuple[int, ...]]:
    """The shapes of what is stored, in order."""
    program = lowered(function, *(spec(*shape) for shape in shapes), **options).program
    return [instance.stored.shape for instance in program]  # type: ignore[misc]


def test_few_rows_meet_one_matrix_after_the_other():
    assert _shapes(_three, _FEW_ROWS) == [(4, 160), (4, 128)]


def test_what_many_rows_would_share_is_multiplied_first():
    assert _shapes(lambda x, a, b: (x @ a) @ b, ((512, 64), (64, 256), (256, 32))) == [(64, 32), (512, 32)]


def test_attention_without_a_softmax_sums_over_keys_first():
    assert _shapes(_linear_attention, _LONG) == [(2, 16, 16), (2, 256, 16)]


def test_the_order_as_written_stays_where_it_is_the_better_one():
    assert _shapes(lambda x, a, b: (x @ a) @ b, _FEW_ROWS) == [(4, 160), (4, 128)]
    assert _shapes(_three, ((64, 64), (64, 64), (64, 64))) == [(64, 64), (64, 64)]


def test_a_chain_of_four_turns_until_no_turn_pays():
    chain = ((2, 96), (96, 128), (128, 160), (160, 64))
    result = lowered(lambda x, a, b, c: x @ (a @ (b @ c)), *(spec(*shape) for shape in chain))
    assert [i.stored.shape for i in result.program] == [(2, 128), (2, 160), (2, 64)]
    assert len(result.reassociations) >= 2
    assert all(turn.after < turn.before for turn in result.reassociations)


def test_an_intermediate_value_that_someone_else_sees_stays():
    def both(x: sn.Tensor, a: sn.Tensor, b: sn.Tensor) -> tuple[sn.Tensor, sn.Tensor]:
        inner = a @ b
        return x @ inner, inner

    assert not lowered(both, *(spec(*shape) for shape in _FEW_ROWS)).reassociations
    specs = [spec(*shape) for shape in _FEW_ROWS]
    assert not lowered(lambda x, a, b: x @ (a @ b) + sn.sum(a @ b), *specs).reassociations


def test_what_is_not_a_sum_of_products_of_it_stays():
    specs = [spec(*shape) for shape in _FEW_ROWS]
    assert not lowered(lambda x, a, b: x @ sn.relu(a @ b), *specs).reassociations
    assert not lowered(lambda x, a, b: x @ (a @ b + 1.0), *specs).reassociations
    assert not lowered(attention, *[spec(2, 256, 16)] * 3).reassociations


def test_a_value_rounded_to_a_narrow_dtype_stays():
    narrow = [spec(*shape, dtype="bf16") for shape in _FEW_ROWS]
    assert not lowered(_three, *narrow).reassociations


def test_strict_keeps_the_order_as_written():
    assert _shapes(_three, _FEW_ROWS, policy=Policy.STRICT) == [(96, 128), (4, 128)]


def test_equal_layers_go_on_sharing_their_templates():
    def layers(x: sn.Tensor, *weights: sn.Tensor) -> sn.Tensor:
        for a, b in zip(weights[::2], weights[1::2], strict=True):
            x = sn.relu(x @ (a @ b))
        return x

    result = lowered(layers, spec(4, 96), *[spec(96, 160), spec(160, 96)] * 3)
    assert len(result.reassociations) == 3
    assert len({instance.template for instance in result.program}) == 2


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (_three, _FEW_ROWS),
        (_linear_attention, _LONG),
        (lambda x, a, b: sn.gelu(x @ (a @ b) * 0.1) + 1.0, _FEW_ROWS),
        (lambda x, s, a, b: (s * (x @ a)) @ b, ((512, 64), (512, 1), (64, 256), (256, 32))),
        (lambda x, a, s, b: ((x @ a) * s) @ b, ((512, 64), (64, 256), (256,), (256, 32))),
        (lambda x, a, b: sn.einsum("bik,kjb->jib", sn.einsum("bir,rk->bik", x, a), b),
         ((2, 256, 24), (24, 200), (200, 16, 2))),
        (lambda x, a, b, c: x @ ((a @ b) @ c), ((2, 96), (96, 128), (128, 160), (160, 64))),
    ],
)  # fmt: skip
def test_either_order_gives_the_numbers_of_the_program_as_written(
    function: Callable[..., Any], shapes: tuple[tuple[int, ...], ...]
):
    assert lowered(function, *(spec(*shape) for shape in shapes)).reassociations
    generator = np.random.default_rng(len(shapes))
    arrays = [generator.normal(size=shape).astype(np.float32) for shape in shapes]
    found = np.asarray(sn.compile(function)(*arrays))
    expected = np.asarray(sn.compile(function, precision="strict")(*arrays))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * float(np.abs(expected).max()))
