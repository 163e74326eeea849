"""With debug, a step that is not finite raises an error that names the layer where that began."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.train.models import batch_of, state_of

import snell as sn
from snell import nn, train
from snell.errors import NonFiniteError

CROSS_ENTROPY = sn.losses.cross_entropy
Break = Callable[[Any], Any]
# The identity, with a gradient that is not finite.
BREAKS_BACKWARD = sn.custom_vjp(lambda x: (x, x), lambda x, cotangent: (cotangent * sn.log(-1.0 - x * x),))


def model_with(function: Break) -> nn.Chain:
    """The function in the middle of a block in the middle of a model."""
    block = nn.Chain(nn.Linear(8, 8), bad=nn.Lambda(function))
    return nn.Chain(nn.Linear(6, 8, sn.tanh), block=nn.Chain(nn.Linear(8, 8), inner=block), head=nn.Linear(8, 3))


@pytest.mark.parametrize(
    ("function", "direction"),
    [
        pytest.param(lambda x: sn.log(-(x * x) - 1.0), "forward", id="nan forward"),
        pytest.param(lambda x: BREAKS_BACKWARD(x), "backward", id="nan backward"),
    ],
)
def test_the_innermost_layer_that_made_the_first_one_is_named(function: Break, direction: str) -> None:
    ts = state_of(model_with(function))
    with pytest.raises(NonFiniteError, match=rf"layer block\.inner\.bad .*{direction} pass") as caught:
        train.step(ts, batch_of(8), CROSS_ENTROPY, debug=True)
    assert caught.value.path == "block.inner.bad"
    assert np.isfinite(ts.params["0"]["weight"].numpy()).all()  # the state is still there


def test_a_batch_and_parameters_that_are_not_finite_are_named() -> None:
    x, y = batch_of(8)
    x[0, 0] = np.nan
    with pytest.raises(NonFiniteError, match=r"batch\.0 is not finite"):
        train.step(state_of(), (x, y), CROSS_ENTROPY, debug=True)
    ts = state_of()
    ts.params["head"]["weight"].numpy()[0, 0] = np.inf
    with pytest.raises(NonFiniteError, match=r"params\.head\.weight is not finite"):
        train.step(ts, batch_of(8), CROSS_ENTROPY, debug=True)


def test_a_loss_that_makes_it_is_named() -> None:
    with pytest.raises(NonFiniteError, match="the loss is not finite") as caught:
        train.step(state_of(), batch_of(8), lambda p, t: sn.log(-sn.square(p).mean()), debug=True)
    assert caught.value.path == "loss"
    with pytest.raises(NonFiniteError, match="gradient of the loss"):
        train.step(state_of(), batch_of(8), lambda p, t: BREAKS_BACKWARD(p).mean(), debug=True)


def test_a_layer_that_is_repeated_is_named_as_a_whole() -> None:
    model = nn.Chain(nn.Linear(6, 6), body=nn.Repeated(nn.Chain(nn.Linear(6, 6), sn.log), 2), head=nn.Linear(6, 3))
    with pytest.raises(NonFiniteError, match="layer body gives"):
        train.step(state_of(model), batch_of(8), CROSS_ENTROPY, debug=True)


def test_an_overflow_of_the_scale_alone_is_no_error() -> None:
    ts = state_of(compute_dtype="f16", loss_scaling=train.LossScaling(initial=2.0**40))
    result, ts = train.step(ts, batch_of(8), CROSS_ENTROPY, debug=True)
    assert bool(result.skipped)
    assert float(ts.loss_scale["scale"]) == 2.0**39
