"""A sum that several results read is worked out once."""

from __future__ import annotations

from typing import Any

from tests.compiler.programs import lowered, spec

import snell as sn
from snell.rewrite.term import Sum, walk


def sums(function: Any, *specs: Any) -> int:
    """How many product sums the program works out."""
    definitions = lowered(function, *specs).definitions()
    return sum(isinstance(item.op, Sum) for d in definitions for item in walk(d.value))


def test_results_that_read_one_sum_do_not_each_work_it_out():
    def function(x: Any, w: Any, m: Any) -> Any:
        product = (x @ w).astype("bf16").astype("f32")
        return m + 0.1 * (product - m), product * product * 0.5 + m

    assert sums(function, spec(16, 32), spec(32, 48), spec(16, 48)) == 1


def test_a_result_among_the_readers_of_a_sum_meets_nothing():
    def function(x: Any, w: Any) -> Any:
        product = (x @ w).astype("bf16").astype("f32")
        half = sn.exp(product)
        return half, half * product

    assert sums(function, spec(16, 32), spec(32, 48)) == 1
