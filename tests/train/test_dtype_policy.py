"""Where float64 leaks into training is said by path, and done about what the policy says."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from tests.train.models import MLP, batch_of, state_of

import snell as sn
from snell import nn, train, trees
from snell.errors import DTypeError

CROSS_ENTROPY = sn.losses.cross_entropy
WIDENING = nn.Chain(nn.Linear(6, 6), block=nn.Chain(wide=nn.Lambda(lambda x: x.astype("f64"))), head=nn.Linear(6, 3))


def wide_batch() -> tuple[np.ndarray, np.ndarray]:
    x, y = batch_of(8)
    return x.astype(np.float64), y


def test_a_batch_of_float64_is_warned_of_once_by_path() -> None:
    ts = state_of()
    with pytest.warns(train.DTypeWarning, match=r"batch\.0 is float64"):
        _, ts = train.step(ts, wide_batch(), CROSS_ENTROPY)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, ts = train.step(ts, wide_batch(), CROSS_ENTROPY)


def test_the_error_policy_raises_before_anything_runs() -> None:
    ts = state_of(dtype_policy="error")
    with pytest.raises(DTypeError, match=r"batch\.0: expected at most float32, received float64"):
        train.step(ts, wide_batch(), CROSS_ENTROPY)
    train.step(ts, batch_of(8), CROSS_ENTROPY)


def test_the_convert_policy_trains_as_with_float32() -> None:
    ts, reference = state_of(dtype_policy="convert"), state_of()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            found, ts = train.step(ts, wide_batch(), CROSS_ENTROPY)
            wanted, reference = train.step(reference, batch_of(8), CROSS_ENTROPY)
            assert float(found.loss) == float(wanted.loss)


def test_the_none_policy_lets_it_pass() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train.step(state_of(dtype_policy="none"), wide_batch(), CROSS_ENTROPY)


@pytest.mark.parametrize(("policy", "kind"), [("warn", train.DTypeWarning), ("error", DTypeError)])
def test_the_first_layer_that_makes_float64_is_named(policy: str, kind: Any) -> None:
    ts = state_of(WIDENING, dtype_policy=policy)
    raised = pytest.warns if policy == "warn" else pytest.raises
    with raised(kind, match=r"result of layer block\.wide") as caught:
        train.step(ts, batch_of(8), CROSS_ENTROPY)
    if policy == "warn":
        assert len([one for one in caught if issubclass(one.category, train.DTypeWarning)]) == 1


def test_the_convert_policy_narrows_what_a_layer_made() -> None:
    def objective(model: Any, params: Any, state: Any, batch: Any) -> Any:
        y, state = model(batch[0], params, state, train=True)
        assert y.dtype.name == "f32"
        return CROSS_ENTROPY(y, batch[1]), state, {}

    train.step(state_of(WIDENING, dtype_policy="convert"), batch_of(8), objective)


def test_parameters_of_float64_are_named_and_converted() -> None:
    params, state = MLP.init(sn.random.key(0))
    wide = trees.map(lambda leaf: np.asarray(leaf, np.float64), params)
    with pytest.raises(DTypeError, match=r"params\.0\.bias"):
        train.TrainState.create(MLP, wide, state, sn.optim.sgd(0.1), dtype_policy="error")
    ts = train.TrainState.create(MLP, wide, state, sn.optim.sgd(0.1), dtype_policy="convert")
    assert {leaf.dtype for leaf in trees.leaves(ts.params)} == {np.dtype(np.float32)}
