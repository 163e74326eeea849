"""Judging rewritten terms: random values for the tensors they load, and comparison with the original."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from snell.dtypes import DType
from snell.rewrite.evaluate import evaluate
from snell.rewrite.term import Load, Tensor, Term, walk
from snell.symbolic import Axis, Dim, as_expr

__all__ = ["assert_equal", "tensors_of", "values_for"]

Array = np.ndarray[Any, np.dtype[Any]]


def tensors_of(*roots: Term) -> dict[str, Tensor]:
    return {item.op.tensor.name: item.op.tensor for item in walk(*roots) if isinstance(item.op, Load)}


def values_for(roots: Sequence[Term], seed: int, sizes: dict[Dim, int] | None = None) -> dict[str, Array]:
    """Random values in the domain of each dtype."""
    generator = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for name, tensor in tensors_of(*roots).items():
        shape = [int(as_expr(size).evaluate(sizes or {})) for size in tensor.shape]
        found[name] = _random(generator, shape, tensor.dtype)
    return found


def _random(generator: np.random.Generator, shape: list[int], dtype: DType) -> Array:
    if dtype.is_float:
        return generator.normal(size=shape).astype(dtype.numpy)
    low, high = int(dtype.range[0]), int(dtype.range[1])
    # Small values make comparisons meet equal ones; the whole range makes sums wrap.
    if generator.random() < 0.5:
        low, high = max(low, -100), min(high, 100)
    drawn = generator.integers(low, high, shape, dtype=np.int64 if low < 0 else np.uint64, endpoint=True)
    return drawn.astype(dtype.numpy)


def assert_equal(
    before: Term, after: Term, seed: int = 0, sizes: dict[Dim, int] | None = None, tolerance: float = 1e-6
) -> None:
    """Equal wherever the original is finite: exactly for integers and bool, within the tolerance for floats."""
    assert after.dtype == before.dtype
    assert after.free <= before.free, f"{after} depends on more axes than {before}"
    axes: tuple[Axis, ...] = tuple(sorted(before.free, key=lambda axis: axis.name))
    values = values_for([before, after], seed, sizes)
    expected, found = (evaluate(term, axes, values, sizes) for term in (before, after))
    message = f"seed {seed}\n{before}\n=>\n{after}"
    if not before.dtype.is_float:
        np.testing.assert_array_equal(found, expected, err_msg=message)
        return
    finite = np.isfinite(expected)
    scale = 1e-2 * np.max(np.abs(expected[finite]), initial=0.0) + 1e-9
    np.testing.assert_allclose(found[finite], expected[finite], rtol=tolerance, atol=tolerance * scale, err_msg=message)
