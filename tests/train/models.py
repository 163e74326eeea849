"""Small models, data and states that the tests of training share."""

from __future__ import annotations

from typing import Any

import numpy as np

import snell as sn
from snell import nn, trees
from snell.train import TrainState

MLP = nn.Chain(nn.Linear(6, 16, sn.tanh), head=nn.Linear(16, 3))


def batch_of(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Inputs f32 (rows, 6) and labels of three classes that follow from them."""
    random = np.random.default_rng(seed)
    x = random.standard_normal((rows, 6)).astype(np.float32)
    return x, (np.abs(x[:, :3]).argmax(1)).astype(np.int32)


def state_of(model: Any = MLP, optimizer: Any = None, seed: int = 0, **options: Any) -> TrainState:
    """A state of the model with its initial parameters."""
    params, state = model.init(sn.random.key(seed))
    return TrainState.create(model, params, state, optimizer or sn.optim.adam(1e-2), **options)


def values_of(tree: Any) -> list[np.ndarray]:
    """Copies of all leaves."""
    return [np.array(leaf) for leaf in trees.leaves(tree)]


def assert_same(found: Any, wanted: Any) -> None:
    """Equal bit for bit, NaN included."""
    for one, other in zip(values_of(found), values_of(wanted), strict=True):
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()
