"""Long programs compile in pieces: what compiling takes grows with the program, and no pass runs out of stack."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.programs import lowered, spec

import snell as sn
from snell.rewrite.term import Load, walk

X = np.linspace(0.1, 1, 64, dtype=np.float32).reshape(4, 16)


def test_a_chain_of_thousands_of_operations_is_right():
    def chain(x):
        for _ in range(1500):
            x = x * 0.999 + 0.001
        return x

    wanted = chain(X.astype(np.float64))
    # Every step rounds twice, and shrinks earlier errors.
    np.testing.assert_allclose(sn.compile(chain)(X), wanted, rtol=2 * 1500 * np.finfo(np.float32).eps)


def test_a_long_expression_is_cut_into_terms_of_bounded_length():
    def chain(x: sn.Tensor) -> sn.Tensor:
        for k in range(500):
            x = sn.maximum(x * 1.01, k * 0.001)
        return x

    lengths = [len(list(walk(definition.value))) for definition in lowered(chain, spec(4, 16)).definitions()]
    assert len(lengths) > 1
    assert max(lengths) < 1000


@pytest.mark.parametrize("depth", [1, 3, 12])
def test_lookups_in_lookups_are_inlined_a_few_deep(depth: int):
    def follow(x, take):
        for _ in range(depth):
            x = take(x, [3, 2, 0, 1]) * 1.5
        return x

    result = lowered(lambda x: follow(x, lambda x, i: sn.take(x, i, axis=0, mode="zero")), spec(4, 16))
    places = sum(isinstance(t.op, Load) for d in result.definitions() for t in walk(d.value))
    assert places <= 4 * depth
    wanted = follow(X, lambda x, i: x[i])
    np.testing.assert_allclose(sn.compile(lambda x: follow(x, lambda x, i: sn.take(x, i, axis=0)))(X), wanted, 1e-5)


def test_many_small_layers_share_the_kernel_of_a_few():
    def layers(x: sn.Tensor, *weights: sn.Tensor) -> sn.Tensor:
        for w in weights:
            x = sn.tanh(x @ w) + x * 0.5
        return x

    result = lowered(layers, spec(4, 8), *[spec(8, 8)] * 80)
    assert max(len(group.stages) for group in result.groups) <= 16
    assert len({kernel.kernel for kernel in result.kernels}) == 1
