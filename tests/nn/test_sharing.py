"""Parameters shared by path are one leaf whose gradients add; masks by path say what is trained."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.nn.agreement import close, run

import snell as sn
from snell import nn
from snell.errors import ConfigError

KEY = sn.random.key(0)
IDS = np.array([[1, 0, 3], [2, 2, 5]])
MODEL = nn.Chain(embedding=nn.Embedding(6, 4), body=nn.Linear(4, 4, sn.tanh), head=nn.Linear(4, 6))


def test_a_tied_head_is_the_transposed_table_and_gradients_add() -> None:
    tied = nn.share(MODEL, {"head.weight": "embedding.weight.T"})
    params, state = tied.init(KEY)
    assert str(tied).splitlines()[0] == "Shared((head.weight ← embedding.weight.T,))  50"
    assert sn.tree.paths(params) == [("body", "bias"), ("body", "weight"), ("embedding", "weight"), ("head", "bias")]

    def loss(params: Any) -> Any:
        return (tied(IDS, params, state)[0] ** 2).sum()

    def untied(params: Any) -> Any:
        return (MODEL(IDS, params, state)[0] ** 2).sum()

    table = np.asarray(params["embedding"]["weight"])
    every = {**params, "head": {**params["head"], "weight": table.T.copy()}}
    value, gradient = run(sn.value_and_grad(loss), params)
    expected, parts = run(sn.value_and_grad(untied), every)
    close(value, expected)
    close(gradient["embedding"]["weight"], parts["embedding"]["weight"] + parts["head"]["weight"].T)
    close(gradient["body"]["weight"], parts["body"]["weight"])


def test_a_whole_subtree_is_shared_and_keeps_the_initial_numbers_of_its_own() -> None:
    twins = nn.Branch(a=nn.Linear(4, 4), b=nn.Linear(4, 4))
    shared = nn.share(twins, {"b": "a"})
    params, _ = shared.init(KEY)
    assert list(params) == ["a"]
    np.testing.assert_array_equal(params["a"]["weight"], twins.init(KEY)[0]["a"]["weight"])
    x = np.ones((2, 4), np.float32)
    first, second = run(lambda x, p: shared(x, p, {})[0], x, params)
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    ("ties", "message"),
    [
        ({"head.weights": "embedding.weight"}, "no parameters at 'head.weights'; its paths are body.bias"),
        ({"head.weight": "embedding.table"}, "no parameters at 'embedding.table'"),
        ({"head.weight": "embedding.weight"}, r"head.weight expected f32\(4, 6\), received f32\(6, 4\).*write \.T"),
        ({"head": "body"}, r"head.bias expected f32\(6,\), received f32\(4,\) from body"),
        ({"head.weight": "embedding.weight.T", "embedding.weight": "head.weight.T"}, "meets another shared path"),
    ],
)
def test_a_path_that_cannot_be_shared_is_named(ties: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        nn.share(MODEL, ties)


def test_a_mask_is_true_where_a_pattern_matches_a_path_or_what_it_lies_in() -> None:
    params, _ = MODEL.init(KEY)
    everything_but = {"bias": False, "weight": False}
    assert nn.mask(params, "body") == {
        "body": {"bias": True, "weight": True}, "embedding": {"weight": False}, "head": everything_but,
    }  # fmt: skip
    assert nn.mask(params, "*.bias", "emb*") == {
        "body": {"bias": True, "weight": False}, "embedding": {"weight": True}, "head": {"bias": True, "weight": False},
    }  # fmt: skip
    frozen = nn.mask(params, "embedding", "head.*", inverted=True)
    assert frozen == nn.mask(params, "body")
    assert sn.tree.leaves(nn.mask(params)) == [False] * 5


def test_a_pattern_that_matches_nothing_is_refused() -> None:
    params, _ = MODEL.init(KEY)
    with pytest.raises(ConfigError, match=r"no path matches 'encoder'; the paths are body\.bias, body\.weight"):
        nn.mask(params, "encoder")
