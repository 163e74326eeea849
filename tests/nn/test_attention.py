"""Attention equals PyTorch's module, its cache equals one pass over all tokens, and scores come on request."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as nnf
from tests.nn.torch_layers import Case, Outcome, floats, outcomes

import snell as sn
from snell import nn
from snell.errors import ConfigError, OutOfRangeError, ShapeError

X, MEMORY = floats(2, 5, 12), floats(2, 7, 12, seed=1)


class Reference(torch.nn.Module):
    """Attention of grouped heads, written with PyTorch's functions."""

    def __init__(self, embed_dim: int, heads: int, kv_heads: int, head_dim: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.causal = heads, kv_heads, causal
        self.q_proj = torch.nn.Linear(embed_dim, heads * head_dim)
        self.k_proj = torch.nn.Linear(embed_dim, kv_heads * head_dim)
        self.v_proj = torch.nn.Linear(embed_dim, kv_heads * head_dim)
        self.out_proj = torch.nn.Linear(heads * head_dim, embed_dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q = self.q_proj(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = (
            made(x).unflatten(-1, (self.kv_heads, -1)).transpose(1, 2).repeat_interleave(self.heads // self.kv_heads, 1)
            for made in (self.k_proj, self.v_proj)
        )
        y = nnf.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out_proj(y.transpose(1, 2).flatten(-2))


def by_projection(named: dict[str, np.ndarray]) -> Any:
    """A linear layer for each projection, transposed."""
    tree: dict[str, Any] = {}
    for name, value in named.items():
        projection, leaf = name.split(".")
        tree.setdefault(projection, {})[leaf] = value.T
    return tree


def of_packed(named: dict[str, np.ndarray]) -> Any:
    """PyTorch's module holds the three input projections as one matrix where their widths are equal, else apart."""
    names = ("q_proj", "k_proj", "v_proj")
    if "in_proj_weight" in named:
        weights = np.split(named["in_proj_weight"], 3)
    else:
        weights = [named[f"{name}_weight"] for name in names]
    tree = {name: {"weight": weight.T} for name, weight in zip(names, weights, strict=True)}
    tree["out_proj"] = {"weight": named["out_proj.weight"].T}
    if "in_proj_bias" in named:
        for name, bias in zip(names, np.split(named["in_proj_bias"], 3), strict=True):
            tree[name]["bias"] = bias
        tree["out_proj"]["bias"] = named["out_proj.bias"]
    return tree


def torch_attention(embed_dim: int, heads: int, **options: Any) -> torch.nn.MultiheadAttention:
    """A module whose biases are not zeros."""
    torch.manual_seed(0)
    module = torch.nn.MultiheadAttention(embed_dim, heads, batch_first=True, **options).double()
    for parameter in module.parameters():
        if parameter.ndim == 1:
            torch.nn.init.normal_(parameter)
    return module


def attend(module: torch.nn.Module, x: Any) -> torch.Tensor:
    query, key, value, *mask = x if isinstance(x, tuple) else (x, x, x)
    return module(query, key, value, attn_mask=mask[0] if mask else None)[0]


def attend_before(module: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
    return module(x, x, x, attn_mask=later)[0]


CASES = {
    "itself": Case(nn.MultiHeadAttention(12, 3), torch_attention(12, 3), X, of_packed, attend),
    "causal, no bias": Case(
        nn.MultiHeadAttention(12, 2, causal=True, bias=False),
        torch_attention(12, 2, bias=False),
        X,
        of_packed,
        attend_before,
    ),
    "a memory of other widths": Case(
        nn.MultiHeadAttention(12, 4, key_dim=5, value_dim=6),
        torch_attention(12, 4, kdim=5, vdim=6),
        (X, floats(2, 7, 5, seed=2), floats(2, 7, 6, seed=3)),
        of_packed,
        attend,
    ),
    "numbers added to the scores": Case(
        nn.MultiHeadAttention(12, 3), torch_attention(12, 3), (X, MEMORY, MEMORY, floats(5, 7)), of_packed, attend
    ),
    "grouped heads of a width of their own": Case(
        nn.MultiHeadAttention(12, 6, kv_heads=2, head_dim=4, causal=True),
        Reference(12, 6, 2, 4, causal=True).double(),
        X,
        by_projection,
    ),
}


@pytest.fixture(scope="module")
def found() -> dict[str, Outcome]:
    return outcomes(CASES)


@pytest.mark.parametrize("name", CASES)
def test_attention_and_its_gradients_equal_pytorch(name: str, found: dict[str, Outcome]) -> None:
    found[name].check()


@pytest.mark.parametrize("name", CASES)
def test_initial_parameters_have_the_shapes_and_bounds_of_pytorch(name: str) -> None:
    made, expected = CASES[name].layer.parameters(sn.random.key(0)), CASES[name].torch_params()
    assert sn.tree.map(lambda p: p.shape, made) == sn.tree.map(lambda p: p.shape, expected)
    if CASES[name].params_of is of_packed:
        for projection, own in made.items():
            theirs = np.abs(expected[projection]["weight"]).max()
            assert np.abs(own["weight"].numpy()).max() == pytest.approx(theirs, rel=0.2)


def test_a_boolean_mask_says_who_may_attend_and_scores_come_on_request() -> None:
    module = torch_attention(12, 3)
    layer = nn.MultiHeadAttention(12, 3, return_scores=True)
    mask = np.random.default_rng(2).random((5, 7)) < 0.5
    mask[1], mask[2] = False, True
    x = nn.AttentionInput(X, MEMORY, mask=mask)
    params = of_packed({name: p.detach().numpy() for name, p in module.named_parameters()})
    y, scores = sn.compile(lambda x, p: layer(x, p, {})[0])(x, params)
    forbidden = torch.from_numpy(~mask)
    forbidden[1] = False
    query, memory = torch.from_numpy(X), torch.from_numpy(MEMORY)
    expected, weights = module(query, memory, memory, attn_mask=forbidden, average_attn_weights=False)
    rows = [0, 2, 3, 4]
    np.testing.assert_allclose(np.asarray(y)[:, rows], expected.detach().numpy()[:, rows], atol=1e-10)
    np.testing.assert_allclose(np.asarray(scores)[:, :, rows], weights.detach().numpy()[:, :, rows], atol=1e-10)
    assert (np.asarray(scores)[:, :, 1] == 0).all()
    np.testing.assert_allclose(np.asarray(y)[:, 1], np.broadcast_to(params["out_proj"]["bias"], (2, 12)), atol=1e-12)


def test_a_row_that_may_attend_to_nothing_has_no_gradient_but_its_bias() -> None:
    layer = nn.MultiHeadAttention(12, 3, return_scores=True, dtype="f64")
    params = layer.parameters(sn.random.key(0))
    mask = np.zeros((5, 5), bool)

    def loss(x: sn.Tensor, params: Any) -> sn.Tensor:
        y, scores = layer((x, x, x, mask), params, {})[0]
        return y.sum() + (scores * scores).sum()

    of_x, of_params = sn.compile(sn.grad(loss, (0, 1)))(X, sn.tree.map(lambda p: p.numpy(), params))
    assert (np.asarray(of_x) == 0).all()
    for projection in ("q_proj", "k_proj", "v_proj"):
        assert (np.asarray(of_params[projection]["weight"]) == 0).all()
    np.testing.assert_allclose(np.asarray(of_params["out_proj"]["bias"]), 10.0)


DECODER = nn.MultiHeadAttention(12, 4, kv_heads=2, head_dim=6, causal=True, rotary=nn.RotaryPositions(4))


@pytest.mark.parametrize("pieces", [[1] * 6, [3, 1, 2]], ids=["token by token", "in pieces"])
def test_decoding_step_by_step_equals_the_whole_pass(pieces: list[int]) -> None:
    tokens = floats(2, 6, 12).astype(np.float32)
    params, _ = DECODER.init(sn.random.key(3))
    whole, _ = sn.compile(lambda x, p: DECODER(x, p, {}))(tokens, params)
    cached = dataclasses.replace(DECODER, cache=(2, 8))
    _, state = cached.init(sn.random.key(3))
    step = sn.compile(lambda x, p, s: cached(x, p, s))
    results, start = [], 0
    for count in pieces:
        y, state = step(tokens[:, start : start + count], params, state)
        results.append(np.asarray(y))
        start += count
    np.testing.assert_allclose(np.concatenate(results, 1), np.asarray(whole), rtol=1e-4, atol=1e-5)
    assert int(np.asarray(state["cache"]["length"])) == 6
    assert (np.asarray(state["cache"]["keys"])[:, :, 6:] == 0).all()


def test_a_full_cache_is_an_error_when_run() -> None:
    cached = dataclasses.replace(DECODER, cache=(1, 3))
    params, state = cached.init(sn.random.key(0))
    step = sn.compile(lambda x, p, s: cached(x, p, s))
    tokens = floats(1, 2, 12).astype(np.float32)
    _, state = step(tokens, params, state)
    with pytest.raises(OutOfRangeError, match="2 rows from 2 on do not fit into the cache's extent 3"):
        step(tokens, params, state)


def test_dropout_drops_weights_in_training_and_counts() -> None:
    layer = nn.MultiHeadAttention(8, 2, dropout=0.25, bias=False)
    params, state = layer.init(sn.random.key(5))
    heads = {**{name: params[name] for name in ("q_proj", "k_proj")}, "v_proj": {"weight": np.ones((8, 8), np.float32)}}
    identity = {**heads, "out_proj": {"weight": np.eye(8, dtype=np.float32)}}
    x = np.full((4, 64, 8), 1 / 8, np.float32)
    run = sn.compile(lambda x, p, s: layer(x, p, s, train=True))
    first, after = run(x, identity, state)
    again, _ = run(x, identity, state)
    second, _ = run(x, identity, after)
    # All weights are 1/64 and all values 1, so a result is the share of the weights that stayed, divided by 0.75.
    share = np.asarray(first) * 0.75 * 64
    np.testing.assert_allclose(share, np.round(share), atol=1e-3)
    assert abs(np.asarray(first).mean() - 1) < 0.03
    np.testing.assert_array_equal(np.asarray(first), np.asarray(again))
    assert not np.array_equal(np.asarray(first), np.asarray(second))
    assert int(np.asarray(after["counter"])) == 1
    quiet, unchanged = sn.compile(lambda x, p, s: layer(x, p, s))(x, identity, state)
    np.testing.assert_allclose(np.asarray(quiet), 1.0, rtol=1e-5)
    assert int(np.asarray(unchanged["counter"])) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_heads": 5}, "expected an embed_dim that 5 heads divide, received 12"),
        ({"num_heads": 4, "kv_heads": 3}, "expected kv_heads that divide 4 heads, received 3"),
        ({"num_heads": 4, "cache": (1, 8)}, r"expected cache=\(texts, positions\) with causal=True"),
        ({"num_heads": 4, "rotary": nn.RotaryPositions(4)}, "rotary positions of at most 3 elements"),
        ({"num_heads": 4, "dropout": 1.5}, "dropout"),
    ],
)
def test_options_that_mean_nothing_are_errors(options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        nn.MultiHeadAttention(12, **options)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (floats(2, 5, 11), r"\(…, seq, 12\) as query, received f64\(2, 5, 11\)"),
        ((X, MEMORY[..., :5]), r"\(…, seq, 12\) as key, received f64\(2, 7, 5\)"),
        ((X, MEMORY, X), "expected as many keys as values, received 5 queries, 7 keys and 5 values"),
    ],
)
def test_inputs_of_other_shapes_are_errors_that_show_them(x: Any, message: str) -> None:
    layer = nn.MultiHeadAttention(12, 3)
    with pytest.raises(ShapeError, match=message):
        layer(x, layer.parameters(sn.random.key(0)), {})
