"""A whole step, loss to parameters, is one program; states are plain trees with readable paths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.optim.judge import relative_error, variants

import snell as sn

RNG = np.random.default_rng(5)
X = RNG.normal(size=(16, 6)).astype(np.float32)
Y = RNG.integers(0, 4, 16)


def start() -> dict[str, Any]:
    generator = np.random.default_rng(6)
    return {
        "hidden": {"weight": generator.normal(size=(6, 8)).astype(np.float32), "bias": np.zeros(8, np.float32)},
        "out": {"weight": generator.normal(size=(8, 4)).astype(np.float32)},
    }


def loss(params: Any, x: Any, y: Any) -> sn.Tensor:
    hidden = sn.tanh(x @ params["hidden"]["weight"] + params["hidden"]["bias"])
    return sn.losses.cross_entropy(hidden @ params["out"]["weight"], y)


TRANSFORM = sn.optim.chain(
    sn.optim.clip_by_norm(0.1),
    sn.optim.adamw(sn.optim.lr_schedule.warm_up(5, 0.01), weight_decay=0.1, decay_mask=["*.weight"]),
    sn.optim.ema(0.9),
)


def train_step(params: Any, state: Any, x: Any, y: Any) -> Any:
    value, gradients = sn.value_and_grad(loss)(params, x, y)
    updates, state = TRANSFORM.update(gradients, state, params)
    return value, sn.optim.apply_updates(params, updates), state


def test_forward_backward_clipping_and_update_are_one_program_that_trains_like_torch() -> None:
    step = sn.compile(train_step, donate=("params", "state"))
    params = start()
    state = TRANSFORM.init(params)
    params = sn.tree.map(np.copy, params)
    losses = []
    for _ in range(20):
        value, params, state = step(params, state, X, Y)
        losses.append(float(value))
    assert variants(step) == 1
    expected, judged = torch_losses(20)
    np.testing.assert_allclose(losses, expected, rtol=2e-5)
    found = {
        ".".join(path): np.asarray(leaf)
        for path, leaf in zip(sn.tree.paths(params), sn.tree.leaves(params), strict=True)
    }
    assert relative_error(found, judged) < 2e-5


def torch_losses(steps: int) -> tuple[list[float], dict[str, Any]]:
    leaves = {
        ".".join(path): torch.nn.Parameter(torch.tensor(leaf))
        for path, leaf in zip(sn.tree.paths(start()), sn.tree.leaves(start()), strict=True)
    }
    groups = [
        {"params": [leaves["hidden.weight"], leaves["out.weight"]], "weight_decay": 0.1},
        {"params": [leaves["hidden.bias"]], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, 0.01)
    losses = []
    for k in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 0.01 * min(k / 5, 1.0)
        hidden = torch.tanh(torch.tensor(X) @ leaves["hidden.weight"] + leaves["hidden.bias"])
        value = torch.nn.functional.cross_entropy(hidden @ leaves["out.weight"], torch.tensor(Y))
        optimizer.zero_grad()
        value.backward()
        torch.nn.utils.clip_grad_norm_(leaves.values(), 0.1)
        optimizer.step()
        losses.append(value.item())
    return losses, {name: leaf.detach().numpy() for name, leaf in leaves.items()}


def test_paths_of_a_state_say_what_is_kept_of_which_parameter() -> None:
    paths = [".".join(path) for path in sn.tree.paths(TRANSFORM.init(start()))]
    assert "adamw.first_moment.hidden.weight" in paths
    assert "adamw.hyperparameters.learning_rate.then.value" in paths
    assert "ema.average.out.weight" in paths
    assert "clip_by_norm.hyperparameters.limit" in paths


def test_a_state_is_made_inside_a_program_as_well() -> None:
    made = sn.compile(TRANSFORM.init)(start())
    outside = TRANSFORM.init(start())
    assert sn.tree.paths(made) == sn.tree.paths(outside)
    for found, expected in zip(sn.tree.leaves(made), sn.tree.leaves(outside), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(np.asarray(found), expected)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_parameters_of_sixteen_bits_have_f32_states_and_are_rounded_once(dtype: str) -> None:
    low = sn.dtypes.from_name({"bfloat16": "bf16", "float16": "f16"}[dtype]).numpy
    params = {"w": np.linspace(-2, 2, 7).astype(low)}
    gradients = {"w": np.linspace(1, 2, 7).astype(low)}
    transform = sn.optim.adam(0.125)
    state = transform.init(params)
    assert state["first_moment"]["w"].dtype == np.float32

    @sn.compile
    def step(params: Any, state: Any, gradients: Any) -> Any:
        updates, state = transform.update(gradients, state, params)
        return sn.optim.apply_updates(params, updates), state

    after, state = step(params, state, gradients)
    assert after["w"].dtype == low
    assert state["second_moment"]["w"].dtype == np.float32
    expected = (params["w"].astype(np.float32) - 0.125).astype(low)  # the first step of Adam is the learning rate
    np.testing.assert_array_equal(np.asarray(after["w"]).astype(np.float32), expected.astype(np.float32))


def test_parameters_of_64_bits_are_updated_in_64_bits() -> None:
    transform = sn.optim.sgd(0.5)
    params = {"w": np.float64([1.0 + 2**-40])}
    updates = sn.compile(lambda g, s, p: transform.update(g, s, p)[0])(
        {"w": np.float64([2**-40])}, transform.init(params), params
    )
    assert np.asarray(updates["w"])[0] == -(2**-41)
