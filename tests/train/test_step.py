"""A step is forward, backward and update in one executable, on a state that it takes over."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from tests.train.models import MLP, assert_same, batch_of, state_of, values_of

import snell as sn
from snell import nn, train
from snell.engine.function import CompiledFunction
from snell.errors import ConfigError, DonatedError, DTypeError, GraphError, ShapeError

CROSS_ENTROPY = sn.losses.cross_entropy


def compilations(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one with every variant that any compiled function makes."""
    made: list[int] = []
    compile_variant = CompiledFunction._compile

    def counted(self: CompiledFunction, arguments: Any) -> Any:
        made.append(1)
        return compile_variant(self, arguments)

    monkeypatch.setattr(CompiledFunction, "_compile", counted)
    return made


def test_the_loss_falls_and_the_counters_count() -> None:
    ts, batch = state_of(), batch_of(32)
    losses = []
    for _ in range(40):
        result, ts = train.step(ts, batch, CROSS_ENTROPY)
        losses.append(float(result.loss))
    assert losses[-1] < 0.6 * losses[0]
    assert (int(ts.step), int(ts.skipped)) == (40, 0)
    assert not bool(result.skipped)
    assert float(result.grad_norm) > 0


def test_no_step_after_the_first_compiles_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    ts, made = state_of(), compilations(monkeypatch)
    for seed in range(3):
        _, ts = train.step(ts, batch_of(8, seed), CROSS_ENTROPY)
    assert len(made) == 1


def test_a_lambda_made_anew_in_every_step_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    ts, made, smoothing = state_of(), compilations(monkeypatch), 0.1
    for _ in range(3):
        _, ts = train.step(ts, batch_of(8), lambda p, t: CROSS_ENTROPY(p, t, label_smoothing=smoothing))
    assert len(made) == 1


def test_a_changed_hyperparameter_compiles_nothing_and_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    ts, made = state_of(), compilations(monkeypatch)
    _, ts = train.step(ts, batch_of(8), CROSS_ENTROPY)
    before = values_of(ts.params)
    still = sn.optim.with_hyperparameters(ts.optimizer_state, learning_rate=0.0)
    _, ts = train.step(ts.with_variables({"optimizer_state": still}), batch_of(8), CROSS_ENTROPY)
    assert len(made) == 1
    for old, new in zip(before, values_of(ts.params), strict=True):
        np.testing.assert_array_equal(old, new)


def test_a_step_takes_the_state_over_but_not_what_it_was_created_from() -> None:
    params, state = MLP.init(sn.random.key(0))
    ts = train.TrainState.create(MLP, params, state, sn.optim.adam(1e-3))
    kept, before = ts.copy(), values_of(params)
    train.step(ts, batch_of(8), CROSS_ENTROPY)
    with pytest.raises(DonatedError):
        ts.params["0"]["weight"].numpy()
    for old, new, copied in zip(before, values_of(params), values_of(kept.params), strict=True):
        np.testing.assert_array_equal(old, new)
        np.testing.assert_array_equal(old, copied)


def test_an_evaluation_changes_nothing_and_does_not_train() -> None:
    model = nn.Chain(nn.Linear(6, 16), nn.BatchNorm(16), nn.Dropout(0.5), nn.Linear(16, 3))
    ts = state_of(model)
    before = values_of(ts)
    first, second = (float(train.eval_step(ts, batch_of(8), CROSS_ENTROPY).loss) for _ in range(2))
    assert first == second
    for old, new in zip(before, values_of(ts), strict=True):
        np.testing.assert_array_equal(old, new)
    logits = train.predict(ts, batch_of(8)[0])
    wanted = float(sn.compile(CROSS_ENTROPY)(logits, batch_of(8)[1]))
    assert first == pytest.approx(wanted, rel=1e-6)


def test_the_state_of_layers_moves_with_the_steps() -> None:
    model = nn.Chain(nn.Linear(6, 16), nn.BatchNorm(16), nn.Dropout(0.5), nn.Linear(16, 3))
    ts = state_of(model)
    before = values_of(ts.state)
    _, ts = train.step(ts, batch_of(8), CROSS_ENTROPY)
    assert any((old != new).any() for old, new in zip(before, values_of(ts.state), strict=True))
    assert int(ts.state["2"]["counter"]) == 1


def accuracy_objective(model: Any, params: Any, state: Any, batch: Any) -> Any:
    logits, state = model(batch[0], params, state, train=True)
    return CROSS_ENTROPY(logits, batch[1]), state, {"accuracy": (logits.argmax(-1) == batch[1]).astype("f32").mean()}


def test_an_objective_gives_metrics_and_the_same_step_as_its_loss() -> None:
    first, one = train.step(state_of(), batch_of(16), CROSS_ENTROPY)
    second, other = train.step(state_of(), batch_of(16), accuracy_objective)
    assert_same(one.params, other.params)
    assert float(first.loss) == float(second.loss)
    assert 0 <= float(second.metrics["accuracy"]) <= 1


def test_an_objective_is_given_a_key_of_each_step_and_whether_it_trains() -> None:
    def objective(model: Any, params: Any, state: Any, batch: Any, *, key: Any, train: bool) -> Any:
        drawn = sn.random.uniform(key)
        return (params["w"] * batch).sum() + drawn * 0.0, state, {"drawn": drawn, "train": float(train)}

    ts = train.TrainState.create(None, {"w": np.ones(2, np.float32)}, {}, sn.optim.sgd(0.1), key=sn.random.key(3))
    batch = np.ones(2, np.float32)
    drawn = []
    for _ in range(3):
        result, ts = train.step(ts, batch, objective)
        drawn.append(float(result.metrics["drawn"]))
        assert float(result.metrics["train"]) == 1.0
    assert len(set(drawn)) == 3
    assert float(train.eval_step(ts, batch, objective).metrics["train"]) == 0.0


def test_gradients_that_are_computed_and_applied_make_the_same_step() -> None:
    _, whole = train.step(state_of(), batch_of(16), CROSS_ENTROPY)
    ts = state_of()
    gradients = train.compute_gradients(ts, batch_of(16), CROSS_ENTROPY)
    assert gradients.grads["head"]["weight"].shape == (16, 3)
    ts = train.apply_gradients(ts, gradients)
    for one, other in zip(values_of(ts.params), values_of(whole.params), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-8)
    assert int(ts.step) == 1


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_step_that_is_not_finite_changes_nothing_and_is_counted(bad: float) -> None:
    model = nn.Chain(nn.Linear(6, 8), nn.BatchNorm(8), nn.Linear(8, 3))
    ts = state_of(model)
    _, ts = train.step(ts, batch_of(8), CROSS_ENTROPY)
    before = [values_of(tree) for tree in (ts.params, ts.state, ts.optimizer_state)]
    x, y = batch_of(8)
    x[3, 2] = bad
    result, ts = train.step(ts, (x, y), CROSS_ENTROPY)
    assert bool(result.skipped)
    assert (int(ts.step), int(ts.skipped)) == (2, 1)
    for old, tree in zip(before, (ts.params, ts.state, ts.optimizer_state), strict=True):
        assert_same(tree, old)
    result, ts = train.step(ts, batch_of(8), CROSS_ENTROPY)
    assert not bool(result.skipped)
    assert (int(ts.step), int(ts.skipped)) == (3, 1)


def test_a_ragged_last_batch_is_compiled_once_for_all_sizes_and_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    ts, made = state_of(), compilations(monkeypatch)
    _, ts = train.step(ts, batch_of(16), CROSS_ENTROPY)
    with pytest.warns(
        train.CompilationWarning, match=r"batch\.0 was float32\(16, 6\) and is float32\(5, 6\).*every size"
    ):
        _, ts = train.step(ts, batch_of(5), CROSS_ENTROPY)
    assert len(made) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rows in (16, 5, 7, 1, 33):
            _, ts = train.step(ts, batch_of(rows), CROSS_ENTROPY)
    assert len(made) == 2
    assert int(ts.step) == 7


def test_the_program_of_all_sizes_takes_the_step_that_a_program_of_one_size_takes() -> None:
    for rows in (5, 1, 12):
        _, fixed = train.step(state_of(batch_axis="fixed"), batch_of(rows), CROSS_ENTROPY)
        _, symbolic = train.step(state_of(batch_axis="symbolic"), batch_of(rows), CROSS_ENTROPY)
        for one, other in zip(values_of(fixed.params), values_of(symbolic.params), strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6)


def test_a_fixed_batch_axis_compiles_each_size_and_says_so() -> None:
    ts = state_of(batch_axis="fixed")
    _, ts = train.step(ts, batch_of(4), CROSS_ENTROPY)
    with pytest.warns(train.CompilationWarning, match="compiled by itself"):
        _, ts = train.step(ts, batch_of(5), CROSS_ENTROPY)
    assert int(ts.step) == 2


def test_functions_that_are_no_objective_are_refused_with_what_was_expected() -> None:
    with pytest.raises(ConfigError, match=r"\(prediction, target\).*'absolute'"):
        train.step(state_of(), batch_of(4), sn.abs)
    with pytest.raises(GraphError, match=r"must return \(loss, state, metrics\)"):
        train.step(state_of(), batch_of(4), lambda model, params, state, batch: 1.0)
    with pytest.raises(ShapeError, match="one float number"):
        train.step(state_of(), batch_of(4), lambda p, t: p)
    with pytest.raises(GraphError, match="batch is \\(input, target\\)"):
        train.step(state_of(), batch_of(4)[0], CROSS_ENTROPY)
    with pytest.raises(GraphError, match="a tree like the one before"):
        train.step(state_of(), batch_of(4), lambda model, params, state, batch: (sn.as_tensor(1.0), {"new": 1}, {}))


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("compute_dtype", "i32"),
        ("loss_scaling", "sometimes"),
        ("accumulate", 0),
        ("dtype_policy", "ignore"),
        ("batch_axis", "first"),
    ],
)
def test_an_option_that_means_nothing_is_refused_by_name(option: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=option):
        state_of(**{option: value})


def test_parameters_that_are_no_floats_are_refused_by_path() -> None:
    with pytest.raises(DTypeError, match=r"params\.a\.b: expected floats, received int64"):
        train.TrainState.create(MLP, {"a": {"b": np.arange(3)}}, {}, sn.optim.sgd(0.1))
