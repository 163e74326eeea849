"""Calls of a compiled function: the fast way and the ordinary way give the same, from any number of threads."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

import snell as sn
from snell.errors import DonatedError, OutOfRangeError


def square(size: int) -> np.ndarray:
    return np.random.default_rng(size).standard_normal((size, size), np.float32)


def is_fast(function: sn.CompiledFunction, *arguments: Any) -> bool:
    """Whether a call like the last one takes no step in Python."""
    return function._fast(*arguments) is not NotImplemented


def test_shapes_dtypes_and_kinds_of_arguments_may_change_from_call_to_call() -> None:
    f = sn.compile(lambda a, b: a * 2 + b)
    for _ in range(3):
        for a in (square(3), square(4), square(4)[::2], square(4).T, square(3).astype(np.float64), sn.Array(square(5))):
            np.testing.assert_allclose(f(a, a).numpy(), np.asarray(a) * 3, rtol=1e-6)
        assert f(1.5, 2).item() == 5
        np.testing.assert_allclose(f(square(3), b=1).numpy(), square(3) * 2 + 1, rtol=1e-6)


def test_the_third_call_alike_takes_the_fast_way() -> None:
    f = sn.compile(lambda a, b: a @ b)
    a, b = square(8), square(8)
    results = [f(a, b).numpy() for _ in range(3)]
    assert is_fast(f, a, b)
    assert all(np.array_equal(result, results[0]) for result in results)


@pytest.mark.parametrize("kind", ["tuple", "list", "mapping", "single", "nested"])
def test_results_come_in_the_tree_that_the_function_returned(kind: str) -> None:
    def outputs(a: Any) -> Any:
        trees = {"tuple": (a + 1, a + 2), "list": [a + 1, a + 2], "mapping": {"y": a + 1, "x": a + 2}}
        return (trees | {"single": [a + 1], "nested": (a + 1, [a + 2, {"z": a + 3}])})[kind]

    f = sn.compile(outputs)
    a = square(3)
    wanted, structure = sn.tree.flatten(outputs(a))
    for _ in range(3):
        found, same = sn.tree.flatten(f(a))
        assert same == structure
        for x, y in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(x.numpy(), y)
    assert is_fast(f, a)


def test_a_check_that_fails_raises_at_every_call_and_the_function_goes_on() -> None:
    f = sn.compile(lambda table, index: sn.take(table, index, axis=0))
    table, good, bad = square(4), np.array([1, 2]), np.array([1, 9])
    for _ in range(3):
        np.testing.assert_array_equal(f(table, good).numpy(), table[[1, 2]])
        with pytest.raises(OutOfRangeError):
            f(table, bad)
    assert is_fast(f, table, good)


def test_a_donated_argument_is_refused_after_fast_calls() -> None:
    f = sn.compile(lambda a: a + 1)
    a = sn.Array(square(4))
    for _ in range(3):
        f(a)
    a.donate()
    with pytest.raises(DonatedError):
        f(a)


def test_threads_call_one_function_at_a_time_with_arrays_of_their_own() -> None:
    f = sn.compile(lambda a, b: sn.tanh(a @ b) @ b)
    inputs = [(square(150) + k, square(150) - k) for k in range(4)]
    wanted = [f(a, b).numpy() for a, b in inputs]
    wrong: list[int] = []

    def call(number: int) -> None:
        a, b = inputs[number]
        for _ in range(100):
            if not np.array_equal(f(a, b).numpy(), wanted[number]):
                wrong.append(number)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert is_fast(f, *inputs[0])


def test_python_runs_on_while_a_long_program_runs_and_what_it_reads_stays() -> None:
    f = sn.compile(lambda a: (a @ a) @ a)
    values = square(1500) / 40
    wanted = f(values).numpy()
    box = sn.Array(values.copy())
    assert is_fast(f, box) or f(box) is not None
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(f(box)))
    thread.start()
    time.sleep(0.01)  # the program takes some times longer
    assert thread.is_alive()
    box.donate()
    np.full((1500, 1500), 7, np.float32)  # what reused freed memory would show in the result
    thread.join()
    np.testing.assert_array_equal(results[0].numpy(), wanted)
