"""Static arguments are part of the program: what the function can tell apart is compiled apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import snell as sn
from snell.errors import ConfigError, DTypeError

ONES = np.ones(3, np.float32)


def test_equal_values_of_different_types_are_different_programs() -> None:
    function = sn.compile(lambda x, k: x - 100 if isinstance(k, bool) else x * k, static=(1,))
    assert function(ONES, 1).numpy()[0] == 1
    assert function(ONES, True).numpy()[0] == -99
    nested = sn.compile(lambda x, k: x - 100 if isinstance(k[0], bool) else x * k[0], static=(1,))
    assert nested(ONES, (1,)).numpy()[0] == 1
    assert nested(ONES, (True,)).numpy()[0] == -99


def test_zeros_of_either_sign_are_different_programs() -> None:
    function = sn.compile(lambda x, k: x / k, static=(1,))
    assert function(ONES, 0.0).numpy()[0] == np.inf
    assert function(ONES, -0.0).numpy()[0] == -np.inf


@pytest.mark.parametrize("value", [[2, 3], ONES, {"a": 1}])
def test_a_static_argument_that_cannot_be_a_key_is_named(value: object) -> None:
    with pytest.raises(ConfigError, match=r"static argument 'k'.*hashable"):
        sn.compile(lambda x, k: x, static=(1,))(ONES, value)


def test_a_number_too_large_for_its_dtype_is_an_error_of_ours() -> None:
    with pytest.raises(DTypeError, match="fits int64"):
        sn.compile(lambda x, k: x * k)(ONES, 1 << 63)


def test_the_first_call_may_be_an_empty_one() -> None:
    total = sn.compile(lambda p: sn.sum(p), dims={"p": ("p",)})
    assert total(np.zeros(0, np.float32)).numpy() == 0
    assert total(np.ones(5, np.float32)).numpy() == 5


def test_a_dim_of_an_argument_whose_elements_nobody_reads_is_known(tmp_path: Path) -> None:
    function = sn.compile(lambda x, like: x + like.shape[0], dims={"like": ("n",)})
    for count in (4, 7, 0):
        np.testing.assert_array_equal(function(ONES, np.ones(count, np.float32)), ONES + count)
    function.save(tmp_path / "function")
    np.testing.assert_array_equal(sn.load(tmp_path / "function")(ONES, np.ones(5, np.float32)), ONES + 5)
