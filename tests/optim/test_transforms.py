"""Transforms around optimizers: clipping, decay, groups, accumulation, running means, factors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.optim.judge import SHAPES, compiled_step, gradients, params, relative_error, trained, variants

import snell as sn
from snell.errors import ConfigError, DTypeError, GraphError, ShapeError
from snell.optim import lr_schedule

NESTED = {
    "encoder": {"weight": np.full((2, 3), 2.0, np.float32), "bias": np.full(3, 3.0, np.float32)},
    "head": [np.full((3, 1), 4.0, np.float32)],
}
ONES = sn.tree.map(np.ones_like, NESTED)


def updates_of(transform: sn.optim.Transform, params: Any = NESTED, gradients: Any = ONES) -> Any:
    """The updates of a first step, as arrays."""
    update = sn.compile(lambda g, s, p: transform.update(g, s, p)[0])
    return sn.tree.map(np.asarray, update(gradients, transform.init(params), params))


def test_clipping_by_norm_scales_all_gradients_as_torch_does() -> None:
    (gradient,) = gradients(steps=1)
    leaves = [torch.nn.Parameter(torch.zeros(value.shape)) for value in gradient.values()]
    for limit in (0.5, 1e4):
        for leaf, value in zip(leaves, gradient.values(), strict=True):
            leaf.grad = torch.tensor(value)
        torch.nn.utils.clip_grad_norm_(leaves, limit)
        expected = dict(zip(gradient, (leaf.grad.numpy() for leaf in leaves), strict=True))  # type: ignore[union-attr]
        found = updates_of(sn.optim.clip_by_norm(limit), params(), gradient)
        assert relative_error(found, expected) < 1e-6


def test_the_global_norm_of_half_precision_does_not_overflow() -> None:
    tree = {"a": np.full(100, 1000.0, np.float16), "b": np.full(4, 0.0, np.float32)}
    assert float(sn.compile(sn.optim.global_norm)(tree)) == pytest.approx(1e4)


def test_clipping_by_value_limits_each_element() -> None:
    gradient = {"w": np.float32([-3.0, 0.5, 2.0])}
    found = updates_of(sn.optim.clip_by_value(1.0), gradient, gradient)
    np.testing.assert_array_equal(found["w"], np.float32([-1.0, 0.5, 1.0]))


@pytest.mark.parametrize(
    "mask",
    [
        {"encoder": {"weight": True, "bias": False}, "head": [False]},
        {"encoder": {"weight": True, "bias": False}, "head": False},
        ["*.weight"],
        "encoder.w*",
        lambda path, leaf: path == "encoder.weight",
        lambda path, leaf: leaf.shape == (2, 3),
    ],
)
def test_decay_follows_a_mask_of_bools_of_patterns_or_of_a_function(mask: Any) -> None:
    found = updates_of(sn.optim.weight_decay(0.5, mask))
    np.testing.assert_array_equal(found["encoder"]["weight"], np.full((2, 3), 2.0))
    np.testing.assert_array_equal(found["encoder"]["bias"], np.ones(3))
    np.testing.assert_array_equal(found["head"][0], np.ones((3, 1)))


@pytest.mark.parametrize("make", [sn.optim.sgd, sn.optim.adamw, sn.optim.rmsprop])
def test_an_optimizer_does_not_decay_what_its_mask_leaves_out(make: Any) -> None:
    decayed = updates_of(make(1e-2, weight_decay=0.5, decay_mask=["head.*"]))
    plain = updates_of(make(1e-2, weight_decay=0.0))
    np.testing.assert_array_equal(decayed["encoder"]["weight"], plain["encoder"]["weight"])
    everything = updates_of(make(1e-2, weight_decay=0.5))
    np.testing.assert_array_equal(decayed["head"][0], everything["head"][0])


def test_masked_freezes_all_others_and_keeps_no_state_for_them() -> None:
    transform = sn.optim.masked(sn.optim.adam(0.1), ["head.*"])
    state = transform.init(NESTED)
    slots = [".".join(path) for path in sn.tree.paths(state) if "hyperparameters" not in path]
    assert slots == ["adam.first_moment.head.0", "adam.second_moment.head.0", "adam.step"]
    found = updates_of(transform)
    assert not np.any(found["encoder"]["weight"])
    np.testing.assert_allclose(found["head"][0], -0.1, rtol=1e-6)
    without = {"encoder": {"weight": None, "bias": None}, "head": ONES["head"]}
    np.testing.assert_array_equal(updates_of(transform, gradients=without)["head"][0], found["head"][0])


def test_a_partition_gives_each_parameter_the_first_transform_that_selects_it() -> None:
    transform = sn.optim.partition(
        [("head.*", sn.optim.sgd(2.0)), (lambda path, leaf: leaf.ndim == 2, sn.optim.sgd(3.0))],
        otherwise=sn.optim.sgd(4.0),
    )
    assert list(transform.init(NESTED)) == ["sgd", "sgd_2", "sgd_3"]
    found = updates_of(transform)
    assert [np.unique(leaf).tolist() for leaf in sn.tree.leaves(found)] == [[-4.0], [-3.0], [-2.0]]


def test_a_pattern_that_matches_nothing_is_answered_with_the_paths() -> None:
    with pytest.raises(ConfigError, match=r"'body\.\*' matches no parameter.*encoder\.bias, encoder\.weight, head\.0"):
        sn.optim.masked(sn.optim.sgd(), ["body.*"]).init(NESTED)
    with pytest.raises(ConfigError, match="True or False"):
        sn.optim.masked(sn.optim.sgd(), {"encoder": 1, "head": False}).init(NESTED)


def test_accumulation_makes_one_update_of_the_mean_of_several_gradients() -> None:
    recorded = gradients(steps=6)
    means = [{name: np.mean([one[name] for one in recorded[k : k + 3]], axis=0) for name in SHAPES} for k in (0, 3)]
    expected = trained(sn.optim.adam(0.1), params(), means)
    assert relative_error(trained(sn.optim.accumulate(sn.optim.adam(0.1), 3), params(), recorded), expected) < 1e-6


def test_accumulation_leaves_parameters_and_state_alone_in_between() -> None:
    transform = sn.optim.accumulate(sn.optim.adam(0.1), 3)
    start, recorded = params(), gradients(steps=2)
    step = compiled_step(transform)
    current, state = start, transform.init(start)
    for gradient in recorded:
        current, state = step(current, state, gradient)
    assert relative_error(current, start) == 0
    assert int(state["adam"]["step"]) == 0
    assert int(state["seen"]) == 2
    current, state = step(current, sn.optim.with_hyperparameters(state, steps=2), recorded[0])
    assert int(state["adam"]["step"]) == 1
    assert variants(step) == 1


def test_a_running_mean_of_parameters_is_that_of_torch() -> None:
    decay = 0.9
    module = torch.nn.Linear(3, 2)
    judge = torch.optim.swa_utils.AveragedModel(module, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(decay))
    start = {"weight": module.weight.detach().numpy().copy(), "bias": module.bias.detach().numpy().copy()}
    judge.update_parameters(module)
    transform = sn.optim.chain(sn.optim.sgd(0.1), sn.optim.ema(decay))
    step = compiled_step(transform)
    current, state = start, transform.init(start)
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    for gradient in gradients({"weight": (2, 3), "bias": (2,)}, 5):
        current, state = step(current, state, gradient)
        for name, leaf in module.named_parameters():
            leaf.grad = torch.tensor(gradient[name])
        optimizer.step()
        judge.update_parameters(module)
    expected = {name: leaf.detach().numpy() for name, leaf in judge.module.named_parameters()}
    assert relative_error(sn.optim.averaged_params(state), expected) < 1e-6
    with pytest.raises(GraphError, match="no running mean"):
        sn.optim.averaged_params(sn.optim.sgd().init(start))


def test_a_factor_after_an_optimizer_scales_its_updates() -> None:
    transform = sn.optim.chain(sn.optim.sgd(2.0), sn.optim.scale_by_lr_schedule(lr_schedule.linear(1.0, 0.0, steps=2)))
    step = compiled_step(transform)
    start, gradient = {"w": np.zeros((), np.float32)}, {"w": np.ones((), np.float32)}
    state, found = transform.init(start), []
    for _ in range(3):
        after, state = step(start, state, gradient)
        found.append(float(after["w"]))
    assert found == [-2.0, -1.0, 0.0]


def test_a_chain_names_the_states_of_its_transforms() -> None:
    transform = sn.optim.chain(
        sn.optim.clip_by_norm(1.0), sn.optim.adamw(), sn.optim.chain(sn.optim.ema()), sn.optim.clip_by_norm(2.0)
    )
    assert list(transform.init(NESTED)) == ["clip_by_norm", "adamw", "chain", "clip_by_norm_2"]


def test_gradients_that_do_not_fit_are_named_by_path() -> None:
    transform = sn.optim.adam()
    state = transform.init(NESTED)
    wrong: Any = sn.tree.map(np.ones_like, NESTED)
    wrong["encoder"]["bias"] = np.ones(4, np.float32)
    with pytest.raises(
        ShapeError, match=r"gradients\.encoder\.bias: expected the parameter's shape \(3,?\), received \(4"
    ):
        transform.update(wrong, state, NESTED)
    with pytest.raises(GraphError, match="encoder the tree should be a dict with bias, weight"):
        transform.update({"encoder": {"bias": np.ones(3)}, "head": [np.ones((3, 1))]}, state, NESTED)
    with pytest.raises(DTypeError, match=r"params\.ids: expected floats, received i64"):
        transform.init({"ids": np.arange(3)})
    with pytest.raises(GraphError, match="adam: expected the state that its init made, with 'step' in it"):
        transform.update(ONES, {}, NESTED)
    with pytest.raises(ShapeError, match=r"muon expected matrices.*partition"):
        sn.optim.muon().init(NESTED)
