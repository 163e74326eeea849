"""Containers: names, slices, side by side, repeated by one compiled body."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.nn.agreement import arrays, close, run

import snell as sn
from snell import nn
from snell.errors import ConfigError, OutOfRangeError, ShapeError, SnellError

KEY = sn.random.key(0)
X = np.random.default_rng(8).normal(size=(6, 5)).astype(np.float32)


def applied(layer: nn.Layer, params: Any, x: Any = X) -> Any:
    return run(lambda x, p: layer(x, p, {})[0], x, params)


def dense(params: Any, x: np.ndarray) -> np.ndarray:
    return x @ np.asarray(params["weight"]) + np.asarray(params["bias"])


def test_a_chain_runs_its_children_in_order() -> None:
    model = nn.Chain(nn.Linear(5, 4), sn.tanh, head=nn.Linear(4, 3))
    params, _ = model.init(KEY)
    close(applied(model, params), dense(params["head"], np.tanh(dense(params["0"], X))))


def test_a_chain_is_indexed_by_place_and_name_and_sliced_with_its_parameters() -> None:
    model = nn.Chain(nn.Linear(5, 4), sn.tanh, head=nn.Linear(4, 3))
    assert model[0] == nn.Linear(5, 4)
    assert model["head"] == model[-1] == model[2] == nn.Linear(4, 3)
    assert [type(layer).__name__ for layer in model] == ["Linear", "Lambda", "Linear"]
    assert len(model) == 3
    params, _ = model.init(KEY)
    body, head = model[:2], model[2:]
    assert list(head.children()) == ["head"]
    close(applied(head, params, applied(body, params)), applied(model, params))
    with pytest.raises(ConfigError, match="no child 'tail'; its children are 0, 1, head"):
        _ = model["tail"]
    with pytest.raises(OutOfRangeError, match="3 children"):
        _ = model[3]


def test_names_are_unique_and_parts_of_a_path() -> None:
    with pytest.raises(ConfigError, match="'0' is no name"):
        nn.Chain(sn.relu, **{"0": sn.tanh})
    with pytest.raises(ConfigError, match=r"'a\.b' is no name"):
        nn.Chain(**{"a.b": sn.relu})
    with pytest.raises(ConfigError, match="child '0' expected a layer or a function, received <class"):
        nn.Chain(nn.Dropout)


def test_layers_side_by_side() -> None:
    a, b = nn.Linear(5, 3), nn.Linear(5, 3)
    branch, parallel = nn.Branch(a, b=b), nn.Parallel(a, b=b, combine=sn.subtract)
    params, _ = branch.init(KEY)
    one, other = dense(params["0"], X), dense(params["b"], X)
    first, second = applied(branch, params)
    close(first, one)
    close(second, other)
    close(applied(parallel, params, (X, X * 2)), one - dense(params["b"], X * 2))
    close(applied(nn.Maxout(a, b=b), params), np.maximum(one, other))
    close(applied(nn.Branch(a, b=b, combine=sn.add), params), one + other)
    with pytest.raises(ShapeError, match=r"Parallel\(.*\) expected a tuple of 2 inputs, received 3 of them"):
        parallel((X, X, X), params, {})


def test_a_skip_connection_adds_its_input() -> None:
    layer = nn.Linear(5, 5)
    skip = nn.SkipConnection(layer)
    params, _ = skip.init(KEY)
    close(applied(skip, params), dense(params["layer"], X) + X)
    joined = nn.SkipConnection(layer, lambda y, x: sn.concatenate([y, x], 1))
    assert applied(joined, params).shape == (6, 10)


BLOCK = nn.SkipConnection(nn.Chain(nn.Linear(5, 5, sn.tanh), nn.Dropout(0.5)))


def test_repeated_layers_compute_what_a_chain_of_them_does_and_have_its_gradients() -> None:
    layer = nn.Repeated(BLOCK, 3)
    params, state = layer.init(KEY)
    assert [leaf.shape for leaf in sn.tree.leaves(params)] == [(3, 5), (3, 5, 5)]

    def repeated(params: Any, x: Any) -> Any:
        return (layer(x, params, state)[0] ** 2).sum()

    def chained(params: Any, x: Any) -> Any:
        for k in range(3):
            x, _ = BLOCK(x, sn.tree.map(lambda leaf, k=k: leaf[k], params["layer"]), {})
        return (x**2).sum()

    def both(params: Any, x: Any) -> Any:
        return [sn.value_and_grad(each, (0, 1))(params, x) for each in (repeated, chained)]

    received, expected = run(both, params, X)
    for a, b in zip(sn.tree.leaves(received), sn.tree.leaves(expected), strict=True):
        close(a, b)


def test_each_copy_has_numbers_masks_and_a_counter_of_its_own() -> None:
    layer = nn.Repeated(BLOCK, 3)
    params, state = layer.init(KEY)
    weight = np.asarray(sn.tree.at(params, "layer.layer.0.weight"))
    assert not np.array_equal(weight[0], weight[1])
    keys = np.asarray(sn.tree.at(state, "layer.layer.1.key"))
    assert len({tuple(key) for key in keys}) == 3
    step = sn.compile(lambda x, p, s, train: layer(x, p, s, train=train), static=("train",))
    first, after = step(X, params, state, True)
    second, _ = step(X, params, after, True)
    assert np.asarray(sn.tree.at(after, "layer.layer.1.counter")).tolist() == [1, 1, 1]
    assert not np.allclose(np.asarray(first), np.asarray(second))
    _, unchanged = step(X, params, state, False)
    assert all(map(np.array_equal, sn.tree.leaves(arrays(unchanged)), sn.tree.leaves(arrays(state))))


def test_a_copy_more_needs_no_kernel_more() -> None:
    def kernels(count: int) -> int:
        layer = nn.Repeated(nn.Linear(5, 5, sn.tanh), count)
        params, _ = layer.init(KEY)
        compiled = sn.compile(lambda x, p: layer(x, p, {})[0])
        compiled(X, params)
        return len(compiled.explain().kernels)

    assert kernels(2) == kernels(9)


def test_statistics_of_each_copy_follow_its_own_input() -> None:
    layer = nn.Repeated(nn.Chain(nn.Linear(5, 5), nn.BatchNorm(5)), 2)
    params, state = layer.init(KEY)
    _, after = run(lambda x, p, s: layer(x, p, s, train=True), X, params, state)
    mean = sn.tree.at(after, "layer.1.running_mean")
    first = X @ np.asarray(sn.tree.at(params, "layer.0.weight"))[0] + np.asarray(sn.tree.at(params, "layer.0.bias"))[0]
    close(mean[0], 0.1 * first.mean(0))
    assert not np.allclose(mean[0], mean[1])


def test_a_layer_whose_result_is_not_like_its_input_cannot_be_repeated() -> None:
    layer = nn.Repeated(nn.Linear(5, 4), 2)
    params, state = layer.init(KEY)
    with pytest.raises(SnellError) as caught:
        layer(X, params, state)
    assert "whose result is to be like its input" in caught.value.__notes__[0]
    with pytest.raises(ConfigError, match="count of at least 1"):
        nn.Repeated(BLOCK, 0)
