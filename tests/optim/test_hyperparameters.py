"""Hyperparameters are numbers of the state: they change without compiling, and are named in messages."""

from __future__ import annotations

import numpy as np
import pytest
from tests.optim.judge import compiled_step, gradients, params, variants

import snell as sn
from snell.errors import ConfigError
from snell.optim import hyperparameters, lr_schedule, with_hyperparameters

SHAPES = {"w": (3, 2), "b": (2,)}


def test_a_changed_rate_changes_the_update_and_compiles_nothing() -> None:
    transform = sn.optim.adamw(1e-3)
    step = compiled_step(transform)
    start, (gradient,) = params(SHAPES), gradients(SHAPES, 1)
    state = transform.init(start)
    small, _ = step(start, state, gradient)
    large, _ = step(start, with_hyperparameters(state, learning_rate=1e-2), gradient)
    moved = np.asarray(large["w"]) - start["w"]
    np.testing.assert_allclose(moved, 10 * (np.asarray(small["w"]) - start["w"]), rtol=1e-3)
    assert variants(step) == 1


def test_betas_eps_and_decay_change_without_compiling_and_in_the_state_that_a_step_gave() -> None:
    transform = sn.optim.adamw()
    step = compiled_step(transform)
    start, recorded = params(SHAPES), gradients(SHAPES, 3)
    current, state = step(start, transform.init(start), recorded[0])
    state = with_hyperparameters(state, beta1=0.8, beta2=0.9, eps=1e-3, weight_decay=0.3)
    current, state = step(current, state, recorded[1])
    assert variants(step) == 1
    shown = {name: round(float(value), 4) for name, value in hyperparameters(state).items()}
    assert shown == {"beta1": 0.8, "beta2": 0.9, "eps": 0.001, "learning_rate": 0.001, "weight_decay": 0.3}


def test_hyperparameters_change_inside_a_compiled_step() -> None:
    transform = sn.optim.sgd(1.0)

    @sn.compile
    def step(params, state, gradients, loss):  # type: ignore[no-untyped-def]
        state = with_hyperparameters(state, learning_rate=sn.where(loss > 1.0, 0.5, 0.25))
        updates, state = transform.update(gradients, state, params)
        return sn.optim.apply_updates(params, updates), state

    start = {"w": np.zeros(2, np.float32)}
    for loss, rate in ((2.0, 0.5), (0.5, 0.25)):
        after, state = step(start, transform.init(start), {"w": np.ones(2, np.float32)}, loss)
        np.testing.assert_array_equal(np.asarray(after["w"]), np.float32([-rate, -rate]))
        assert float(state["hyperparameters"]["learning_rate"]) == rate


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    state = sn.optim.sgd(1.0, momentum=0.9).init({"w": np.zeros(2, np.float32)})
    with pytest.raises(
        ConfigError, match=r"'lr' is no hyperparameter.*dampening, learning_rate, momentum, weight_decay"
    ):
        with_hyperparameters(state, lr=0.1)


def test_a_name_of_two_transforms_has_to_be_qualified() -> None:
    transform = sn.optim.partition([("w", sn.optim.sgd(1.0))], otherwise=sn.optim.adam(1.0))
    state = transform.init({"w": np.zeros(2, np.float32), "b": np.zeros(2, np.float32)})
    with pytest.raises(ConfigError, match=r"several transforms.*adam\.learning_rate, sgd\.learning_rate"):
        with_hyperparameters(state, learning_rate=0.1)
    changed = with_hyperparameters(state, **{"adam.learning_rate": 0.5})
    assert float(hyperparameters(changed)["adam.learning_rate"]) == 0.5
    assert float(hyperparameters(changed)["sgd.learning_rate"]) == 1.0


def test_the_numbers_of_a_schedule_are_hyperparameters_too() -> None:
    transform = sn.optim.sgd(lr_schedule.warm_up(2, lr_schedule.cosine(1.0, steps=10)))
    step = compiled_step(transform)
    start, gradient = {"w": np.zeros((), np.float32)}, {"w": np.ones((), np.float32)}
    state = transform.init(start)
    assert "learning_rate.then.initial" in hyperparameters(state)
    state = with_hyperparameters(state, **{"then.initial": 4.0})
    rates = []
    for _ in range(3):
        after, state = step(start, state, gradient)
        rates.append(-float(after["w"]))
    assert rates == [0.0, 2.0, 4.0]
    assert variants(step) == 1


@pytest.mark.parametrize("value", ["fast", None, True, np.ones(2), float("nan")])
def test_what_is_no_number_is_refused(value: object) -> None:
    state = sn.optim.sgd(1.0).init({"w": np.zeros(2, np.float32)})
    with pytest.raises(ConfigError, match="learning_rate: expected"):
        with_hyperparameters(state, learning_rate=value)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: sn.optim.sgd(-1.0), "sgd: learning_rate is a number from 0 up, received -1"),
        (lambda: sn.optim.adam(betas=(1.0, 0.9)), "adam: beta1 .* received 1"),
        (lambda: sn.optim.sgd(1.0, nesterov=True), "nesterov needs a momentum"),
        (lambda: sn.optim.adafactor(beta2_decay=0.8), "beta2_decay is a number from 0 down"),
        (lambda: sn.optim.muon(adjust_learning_rate="max"), "one of original, match_rms_adamw"),
        (lambda: sn.optim.adam("fast"), "adam: learning_rate: expected a number or an lr_schedule, received 'fast'"),
        (lambda: sn.optim.accumulate(sn.optim.sgd(), 0), "at least 1 step"),
        (lambda: sn.optim.chain(), "chain expected transforms"),
        (lambda: lr_schedule.cosine(1.0, steps=0), "steps is a number of updates above 0"),
        (lambda: lr_schedule.joined([lr_schedule.constant(1.0)], [3]), "expected 0 increasing boundaries"),
        (lambda: lr_schedule.one_cycle(1.0, steps=10, warm_up=2), "between 0 and 1"),
        (lambda: lr_schedule.reduce_on_plateau(factor=1.0), "factor is below 1"),
    ],
)
def test_an_optimizer_is_not_made_with_numbers_out_of_range(make: object, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make()  # type: ignore[operator]


def test_a_beta_near_one_is_read_with_the_digits_it_was_written_with() -> None:
    transform = sn.optim.adam(betas=(0.9, 0.9999))
    gradient = {"w": np.float32([1.0])}
    update = sn.compile(lambda g, s, p: transform.update(g, s, p)[1])
    state = update(gradient, transform.init(gradient), gradient)
    # 1 - f32(0.9999) is 1.0002e-4.
    np.testing.assert_allclose(np.asarray(state["second_moment"]["w"]), 1e-4, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(state["first_moment"]["w"]), 0.1, rtol=1e-6)
