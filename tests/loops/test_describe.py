"""What a group does, in a few words: its shape, its reductions, its functions."""

from __future__ import annotations

from tests.search.tasks import spec, tasks

import snell as sn
from snell.loops.describe import describe
from snell.symbolic import Dim


def test_sums_of_products_and_functions_are_named_and_dims_stay_names() -> None:
    rows = Dim("rows", min=1, max=64, typical=(8,))
    (task,) = tasks(lambda x, w: sn.exp(x @ w), spec(rows, 40), spec(40, 30))
    assert describe(task.group) == "rows×30 f32: sums of 40 products, exp"


def test_a_part_that_comes_twice_is_said_once() -> None:
    (task,) = tasks(lambda x: sn.softmax(x), spec(20, 30))
    assert describe(task.group) == "20×30 f32: maxima of 30 values, exp, sums of 30 values"


def test_what_has_no_reduction_and_no_function_is_its_shape() -> None:
    (task,) = tasks(lambda x: x + 1, spec(20, 30))
    assert describe(task.group) == "20×30 f32"
