"""Mixed precision keeps f32 masters; f16 losses are scaled; accumulated parts make the step of the whole batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.train.models import batch_of, state_of, values_of

import snell as sn
from snell import nn, train, trees
from snell.errors import ConfigError, ShapeError

CROSS_ENTROPY = sn.losses.cross_entropy


@pytest.mark.parametrize(("dtype", "tolerance"), [("bf16", 0.05), ("f16", 0.01)])
def test_parameters_and_gradients_stay_f32_and_the_layers_compute_in_the_narrow_dtype(
    dtype: str, tolerance: float
) -> None:
    seen: list[Any] = []

    def objective(model: Any, params: Any, state: Any, batch: Any) -> Any:
        y, state = model(batch[0], params, state, train=True)
        seen.append(y.dtype.name)
        return CROSS_ENTROPY(y, batch[1]), state, {}

    ts, reference = state_of(compute_dtype=dtype), state_of()
    found = train.compute_gradients(ts, batch_of(32), objective)
    wanted = train.compute_gradients(reference, batch_of(32), CROSS_ENTROPY)
    assert set(seen) == {dtype}
    assert {leaf.dtype for leaf in trees.leaves(found.grads)} == {np.dtype(np.float32)}
    for one, other in zip(values_of(found.grads), values_of(wanted.grads), strict=True):
        np.testing.assert_allclose(one, other, atol=tolerance * np.abs(other).max())
    _, ts = train.step(ts, batch_of(32), objective)
    assert {leaf.dtype for leaf in trees.leaves(ts.params)} == {np.dtype(np.float32)}


def test_the_running_statistics_of_a_narrow_model_stay_f32() -> None:
    model = nn.Chain(nn.Linear(6, 8), nn.BatchNorm(8), nn.Linear(8, 3))
    ts = state_of(model, compute_dtype="bf16")
    before = [leaf.dtype for leaf in values_of(ts.state)]
    _, ts = train.step(ts, batch_of(8), CROSS_ENTROPY)
    assert [leaf.dtype for leaf in values_of(ts.state)] == before


def tiny_loss(prediction: Any, target: Any) -> Any:
    """Its gradients are below the least f16."""
    return CROSS_ENTROPY(prediction, target) * 1e-7


def test_a_scaled_f16_loss_keeps_gradients_that_would_vanish() -> None:
    unscaled = train.compute_gradients(state_of(compute_dtype="f16", loss_scaling=None), batch_of(8), tiny_loss)
    scaled = train.compute_gradients(state_of(compute_dtype="f16", loss_scaling=2.0**20), batch_of(8), tiny_loss)
    wanted = train.compute_gradients(state_of(), batch_of(8), tiny_loss)
    assert float(unscaled.grad_norm) < 0.5 * float(wanted.grad_norm)
    assert float(scaled.grad_norm) == pytest.approx(float(wanted.grad_norm), rel=0.02)
    assert float(scaled.loss) == pytest.approx(float(wanted.loss), rel=0.02)


def test_the_scale_shrinks_after_an_overflow_and_grows_after_a_run_of_finite_steps() -> None:
    scaling = train.LossScaling(initial=2.0**40, interval=3)
    ts = state_of(compute_dtype="f16", loss_scaling=scaling)
    scales, skipped = [], []
    for _ in range(40):
        result, ts = train.step(ts, batch_of(8), CROSS_ENTROPY)
        scales.append(float(ts.loss_scale["scale"]))
        skipped.append(bool(result.skipped))
    assert skipped[0]
    assert not all(skipped)
    factors = {(was, now): skip for was, now, skip in zip(scales[:-1], scales[1:], skipped[1:], strict=True)}
    assert all(now == was / 2 for (was, now), skip in factors.items() if skip)
    assert any(now == was * 2 for (was, now) in factors)
    assert int(ts.skipped) == sum(skipped)


def test_a_scaling_that_cannot_work_is_refused() -> None:
    with pytest.raises(ConfigError, match="growth"):
        train.LossScaling(growth=0.5)


def test_accumulated_parts_make_the_step_of_the_whole_batch() -> None:
    whole, one = train.step(state_of(), batch_of(24), CROSS_ENTROPY)
    parts, other = train.step(state_of(accumulate=4), batch_of(24), CROSS_ENTROPY)
    assert float(parts.loss) == pytest.approx(float(whole.loss), rel=1e-6)
    assert float(parts.grad_norm) == pytest.approx(float(whole.grad_norm), rel=1e-5)
    for a, b in zip(values_of(one.params), values_of(other.params), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_accumulated_parts_average_means_add_counts_and_draw_different_numbers() -> None:
    model = nn.Chain(nn.Linear(6, 3), nn.Dropout(0.5))

    def objective(model: Any, params: Any, state: Any, batch: Any) -> Any:
        y, state = model(batch[0], params, state, train=True)
        return CROSS_ENTROPY(y, batch[1]), state, {"rows": sn.ones_like(batch[1]).sum(), "mean": batch[0].mean()}

    result, ts = train.step(state_of(model, accumulate=3), batch_of(12), objective)
    assert int(result.metrics["rows"]) == 12
    assert float(result.metrics["mean"]) == pytest.approx(batch_of(12)[0].mean(), abs=1e-6)
    assert int(ts.state["1"]["counter"]) == 3


def test_a_batch_that_has_no_equal_parts_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"accumulate=4.*multiple of 4"):
        train.step(state_of(accumulate=4), batch_of(6), CROSS_ENTROPY)
