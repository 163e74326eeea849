"""Products of several matrices are computed in a cheap order, whatever order they were written in."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.programs import attention, lowered, spec

import snell as sn
from snell.compiler.lowered import Lowered
from snell.rewrite.cut import typical_volume
from snell.rewrite.policy import Policy


def work(program: Lowered) -> float:
    """Multiplications of all sums."""
    stages = (stage for group in program.groups for stage in group.stages if stage.partials)
    return sum(typical_volume((*stage.axes, *stage.reduced)) for stage in stages)


def linear_attention(q: sn.Tensor, k: sn.Tensor, v: sn.Tensor) -> sn.Tensor:
    """Written from left to right: a score for every pair of positions."""
    return (q @ k.transpose(-2, -1)) @ v


def normalized(q: sn.Tensor, k: sn.Tensor, v: sn.Tensor) -> sn.Tensor:
    scores = q @ k.transpose(-2, -1)
    return (scores / sn.sum(scores, axis=-1, keepdims=True)) @ v


def test_scores_of_every_pair_of_positions_are_never_made():
    program = lowered(linear_attention, *[spec(4, 512, 64)] * 3)
    assert work(program) == 2 * 4 * 512 * 64 * 64
    assert len(program.orders) == 1
    assert program.orders[0].before > 4 * program.orders[0].after


def test_a_value_with_several_readers_goes_into_all_of_them_or_none():
    program = lowered(normalized, *[spec(512, 32)] * 3)
    assert work(program) < 3 * 512 * 32 * 32
    shown = lowered(lambda q, k, v: (linear_attention(q, k, v), q @ k.transpose(-2, -1)), *[spec(512, 64)] * 3)
    assert shown.orders == ()  # the scores are an output


def test_a_low_rank_update_is_never_a_full_matrix():
    program = lowered(lambda x, a, b: x + x @ (a @ b), spec(4, 1024), spec(1024, 16), spec(16, 1024))
    assert work(program) < 3 * 4 * 1024 * 16


def test_an_outer_product_is_multiplied_last():
    for outer in (lambda a, b, c: a @ (b @ c), lambda a, b, c: a @ (b * c)):
        program = lowered(outer, spec(256, 512), spec(512, 1), spec(1, 512))
        assert work(program) == 256 * 512


def test_a_longer_chain_finds_its_order_step_by_step():
    square = spec(256, 256)
    program = lowered(lambda a, b, c, x: ((a @ b) @ c) @ x, square, square, square, spec(256, 1))
    assert work(program) == 3 * 256 * 256


def test_the_body_of_a_scan_is_ordered_too():
    def repeated(x: sn.Tensor, a: sn.Tensor, b: sn.Tensor) -> sn.Tensor:
        return sn.scan(lambda carry, _: (carry @ (a @ (b @ carry)), None), x, length=3)[0]

    (repetition,) = lowered(repeated, spec(16, 256), spec(256, 2), spec(2, 16)).repetitions()
    assert len(repetition.body.orders) == 1


def test_strict_keeps_the_order_of_the_program():
    program = lowered(linear_attention, *[spec(4, 512, 64)] * 3, policy=Policy.STRICT)
    assert program.orders == ()
    assert work(program) == 2 * 4 * 512 * 512 * 64


def test_what_is_rounded_between_two_products_is_not_moved():
    program = lowered(linear_attention, *[spec(512, 64, dtype="bf16")] * 3)
    assert program.orders == ()


def test_an_order_that_is_cheap_already_stays():
    assert lowered(linear_attention, *[spec(4, 64, 64)] * 3).orders == ()
    assert lowered(attention, *[spec(12, 128, 64)] * 3).orders == ()


@pytest.mark.parametrize("function", [linear_attention, normalized])
def test_values_are_those_of_the_program_as_written(function):
    generator = np.random.default_rng(0)
    q, k, v = (generator.uniform(0.1, 1.0, (128, 8)).astype(np.float32) for _ in range(3))
    scores = q.astype(np.float64) @ k.astype(np.float64).T
    wanted = (scores if function is linear_attention else scores / scores.sum(-1, keepdims=True)) @ v
    np.testing.assert_allclose(sn.compile(function)(q, k, v).numpy(), wanted, rtol=1e-5)
