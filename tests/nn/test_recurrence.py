"""Recurrences equal PyTorch's RNN, GRU and LSTM, forward and backward, in both directions, stacked, and over many steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
import pytest
import torch
from tests.nn.torch_layers import Case, Outcome, floats, outcomes

import snell as sn
from snell import nn
from snell.errors import ConfigError, ShapeError

X = floats(3, 7, 5)
GATES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def cell(named: dict[str, np.ndarray], suffix: str) -> dict[str, np.ndarray]:
    """A cell's parameters: PyTorch's, the weights transposed."""
    return {name: named[f"{name}{suffix}"].T for name in GATES if f"{name}{suffix}" in named}


def one(named: dict[str, np.ndarray]) -> Any:
    return {"cell": cell(named, "_l0")}


def both(named: dict[str, np.ndarray]) -> Any:
    return {"forward": cell(named, "_l0"), "backward": cell(named, "_l0_reverse")}


def stacked(named: dict[str, np.ndarray]) -> Any:
    return {str(k): {"cell": cell(named, f"_l{k}")} for k in range(2)}


def stacked_both(named: dict[str, np.ndarray]) -> Any:
    return {str(k): {"forward": cell(named, f"_l{k}"), "backward": cell(named, f"_l{k}_reverse")} for k in range(2)}


def sequence(module: torch.nn.Module, x: Any) -> torch.Tensor:
    return module(x)[0]


def last(module: torch.nn.Module, x: Any) -> torch.Tensor:
    return module(x)[0][:, -1]


def from_the_end(module: torch.nn.Module, x: Any) -> torch.Tensor:
    return module(x.flip(1))[0].flip(1)


def last_of_both(module: torch.nn.Module, x: Any) -> torch.Tensor:
    _, (hidden, _) = module(x)
    return torch.cat([hidden[0], hidden[1]], -1)


def with_carry(module: torch.nn.Module, x: Any) -> torch.Tensor:
    given, (hidden, memory) = x
    return module(given, (hidden[None], memory[None]))[0]


def judge(kind: Any, **options: Any) -> torch.nn.Module:
    torch.manual_seed(1)
    return kind(5, 4, batch_first=True, **options).double()


LSTM, GRU, RNN = nn.LSTMCell(5, 4, dtype="f64"), nn.GRUCell(5, 4, dtype="f64"), nn.RNNCell(5, 4, dtype="f64")
WIDE = nn.LSTMCell(4, 4, dtype="f64")

CASES = {
    "lstm": Case(nn.Recurrence(LSTM), judge(torch.nn.LSTM), X, one, sequence),
    "lstm over 50 steps, last output": Case(
        nn.Recurrence(LSTM, return_sequence=False), judge(torch.nn.LSTM), floats(2, 50, 5), one, last
    ),
    "lstm from a carry": Case(
        nn.Recurrence(LSTM), judge(torch.nn.LSTM), (X, (floats(3, 4), floats(3, 4, seed=1))), one, with_carry
    ),
    "lstm from the end": Case(nn.Recurrence(LSTM, reverse=True), judge(torch.nn.LSTM), X, one, from_the_end),
    "lstm, two stacked": Case(
        nn.Chain(nn.Recurrence(LSTM), nn.Recurrence(WIDE)), judge(torch.nn.LSTM, num_layers=2), X, stacked, sequence
    ),
    "lstm in both directions": Case(
        nn.Bidirectional(LSTM), judge(torch.nn.LSTM, bidirectional=True), X, both, sequence
    ),
    "lstm in both directions, last outputs": Case(
        nn.Bidirectional(LSTM, return_sequence=False), judge(torch.nn.LSTM, bidirectional=True), X, both, last_of_both
    ),
    "gru": Case(nn.Recurrence(GRU), judge(torch.nn.GRU), X, one, sequence),
    "gru in both directions, two stacked": Case(
        nn.Chain(nn.Bidirectional(GRU), nn.Bidirectional(nn.GRUCell(8, 4, dtype="f64"))),
        judge(torch.nn.GRU, bidirectional=True, num_layers=2),
        X,
        stacked_both,
        sequence,
    ),
    "gru without biases": Case(
        nn.Recurrence(nn.GRUCell(5, 4, bias=False, dtype="f64")), judge(torch.nn.GRU, bias=False), X, one, sequence
    ),
    "rnn": Case(nn.Recurrence(RNN), judge(torch.nn.RNN), X, one, sequence),
    "rnn of relu": Case(
        nn.Recurrence(nn.RNNCell(5, 4, nonlinearity=sn.relu, dtype="f64")),
        judge(torch.nn.RNN, nonlinearity="relu"),
        X,
        one,
        sequence,
    ),
}


@pytest.fixture(scope="module")
def found() -> dict[str, Outcome]:
    return outcomes(CASES)


@pytest.mark.parametrize("name", CASES)
def test_a_recurrence_and_its_gradients_equal_pytorch(name: str, found: dict[str, Outcome]) -> None:
    found[name].check()


@pytest.mark.parametrize("name", CASES)
def test_initial_parameters_have_the_shapes_and_bounds_of_pytorch(name: str) -> None:
    made = CASES[name].layer.parameters(sn.random.key(0))
    assert sn.tree.map(lambda p: p.shape, made) == sn.tree.map(lambda p: p.shape, CASES[name].torch_params())
    largest = max(np.abs(leaf.numpy()).max() for leaf in sn.tree.leaves(made))
    assert 0.4 < largest <= 0.5


@pytest.mark.parametrize(
    ("layer", "module"),
    [(LSTM, torch.nn.LSTMCell(5, 4)), (GRU, torch.nn.GRUCell(5, 4)), (RNN, torch.nn.RNNCell(5, 4))],
    ids=["lstm", "gru", "rnn"],
)
def test_a_cell_as_a_layer_gives_the_next_carry(layer: nn.Cell, module: torch.nn.Module) -> None:
    module = module.double()
    params = cell({name: p.detach().numpy() for name, p in module.named_parameters()}, "")
    x, hidden, memory = X[:, 0], floats(3, 4), floats(3, 4, seed=1)
    carry = (hidden, memory) if isinstance(layer, nn.LSTMCell) else hidden
    expected = (module(torch.from_numpy(x)), module(torch.from_numpy(x), sn.tree.map(torch.from_numpy, carry)))
    for given, wanted in zip((x, (x, carry)), expected, strict=True):
        found, _ = layer(given, params, {})
        for ours, theirs in zip(sn.tree.leaves(found), sn.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(ours.numpy(), theirs.detach().numpy(), atol=1e-12)


@final
@dataclass(frozen=True)
class Leaky(nn.Cell):
    """h' = h / 2 + x·W_ih; a cell that a user may write."""

    gates = 1

    def projected(self, x: sn.TensorLike, params: nn.Params) -> sn.Tensor:
        return sn.matmul(x, params["weight_ih"])

    def step(self, projected: sn.Tensor, carry: Any, params: nn.Params) -> Any:
        return carry * 0.5 + projected

    def initial_carry(self, leading: Any, dtype: Any) -> Any:
        return sn.zeros((*leading, self.hidden_size), dtype)

    def output(self, carry: Any) -> sn.Tensor:
        return carry


def test_a_cell_of_ones_own_is_walked_like_any_other() -> None:
    layer = nn.Bidirectional(Leaky(5, 2, bias=False))
    params, state = layer.init(sn.random.key(4))
    found = np.asarray(sn.compile(lambda x, p: layer(x, p, state)[0])(X.astype(np.float32), params))
    decay = 0.5 ** np.maximum(np.arange(7)[:, None] - np.arange(7), 0) * np.tri(7)
    ahead = decay @ (X @ np.asarray(params["forward"]["weight_ih"]))
    back = decay.T @ (X @ np.asarray(params["backward"]["weight_ih"]))
    np.testing.assert_allclose(found, np.concatenate([ahead, back], -1), rtol=1e-4, atol=1e-5)


def test_a_sequence_may_be_walked_in_pieces() -> None:
    layer = nn.Recurrence(nn.LSTMCell(5, 4), return_carry=True)
    params, state = layer.init(sn.random.key(2))
    x = X.astype(np.float32)

    @sn.compile
    def whole_and_pieces(x: sn.Tensor, params: Any) -> Any:
        first, carry = layer(x[:, :3], params, state)[0]
        second, carry = layer((x[:, 3:], carry), params, state)[0]
        return layer(x, params, state)[0], (sn.concatenate([first, second], 1), carry)

    whole, pieces = whole_and_pieces(x, params)
    for one_pass, two_passes in zip(sn.tree.leaves(whole), sn.tree.leaves(pieces), strict=True):
        np.testing.assert_allclose(np.asarray(one_pass), np.asarray(two_passes), rtol=1e-5, atol=1e-6)


def test_one_program_serves_every_length_and_batch() -> None:
    layer = nn.Bidirectional(nn.GRUCell(5, 4))
    params, _ = layer.init(sn.random.key(2))
    f = sn.compile(lambda x, p: layer(x, p, {})[0], dims={"x": ("batch", "time", None)})
    module = torch.nn.GRU(5, 4, batch_first=True, bidirectional=True)
    for direction, suffix in (("forward", ""), ("backward", "_reverse")):
        for name in GATES:
            value = np.array(params[direction][name]).T.copy()
            getattr(module, f"{name}_l0{suffix}").data = torch.from_numpy(value)
    for batch, time in ((1, 1), (3, 7), (2, 12)):
        x = floats(batch, time, 5).astype(np.float32)
        expected = module(torch.from_numpy(x))[0].detach().numpy()
        np.testing.assert_allclose(np.asarray(f(x, params)), expected, rtol=1e-4, atol=1e-5)


def test_a_longer_sequence_is_no_larger_a_program() -> None:
    layer = nn.Recurrence(nn.LSTMCell(5, 4))
    params = sn.tree.map(lambda p: p.numpy(), layer.parameters(sn.random.key(0)))

    def size(time: int) -> int:
        gradient = sn.grad(lambda p, x: (layer(x, p, {})[0] ** 2).sum())
        return len(sn.frontend.trace(gradient, [params, np.zeros((2, time, 5), np.float32)]).graph.nodes())

    assert size(3) == size(300)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.Recurrence(nn.Linear(5, 4)), ConfigError, r"Recurrence expected a Cell.*received Linear"),
        (lambda: nn.Bidirectional(LSTM, nn.GRUCell(6, 4)), ConfigError, "expected cells of one input_size"),
        (lambda: nn.LSTMCell(5, 0), ConfigError, "LSTMCell: expected hidden_size of at least 1"),
        (
            lambda: run(nn.Recurrence(LSTM), X[..., :3]),
            ShapeError,
            r"LSTMCell\(5, 4.*\(…, 5\), received f64\(3, 7, 3\)",
        ),
        (
            lambda: run(nn.Recurrence(GRU), (X, floats(3, 6))),
            ShapeError,
            r"GRUCell\(5, 4.*expected a carry of shape \(3, 4\) beside its input, received \(3, 6\)",
        ),
        (
            lambda: run(nn.Recurrence(LSTM), (X, floats(3, 4))),
            ShapeError,
            r"expected a carry of shape \(\(3, 4\), \(3, 4\)\) beside its input, received \(3, 4\)",
        ),
    ],
)
def test_what_does_not_fit_is_an_error_that_names_the_layer(call: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def run(layer: nn.Layer, x: Any) -> Any:
    return layer(x, layer.parameters(sn.random.key(0)), {})
