"""Gradients of every loss, compiled in float64, agree with finite differences: by the prediction and by float targets."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import snell as sn
from snell import losses

RNG = np.random.default_rng(6)
X, Y, Z = (RNG.normal(size=(4, 3)) for _ in range(3))
SHARES = (RNG.dirichlet(np.ones(3), 4) + 0.2) / 1.6  # no small ones, around which differences are coarse
LOGARITHMS = np.log(SHARES[::-1] ** 2 * 2)
PROBABILITIES, TRUTHS = RNG.uniform(0.1, 0.9, (4, 3)), RNG.uniform(0.1, 0.9, (4, 3))
SIGNS, PAIRS = np.sign(RNG.normal(size=(4, 3))), np.array([1.0, -1.0, -1.0, 1.0])
CLASSES, LABELS = np.array([0, 2, 1, -100]), np.array([[1, 2], [3, 3]])
FRAMES = np.log((RNG.dirichlet(np.ones(4), (6, 2)) + 0.2) / 1.8)
MASK = np.array([[True], [False], [True], [True]])

# The loss of floats, and the floats.
CASES: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "mse": (losses.mse, (X, Y)),
    "mae": (partial(losses.mae, mask=MASK), (X, Y)),
    "huber": (partial(losses.huber, delta=0.7), (X, Y)),
    "smooth_l1": (partial(losses.smooth_l1, beta=0.6), (X, Y)),
    "poisson": (losses.poisson, (X, Y)),
    "poisson of rates": (partial(losses.poisson, log_input=False, full=True), (PROBABILITIES * 3, TRUTHS + 1.5)),
    "binary_cross_entropy": (losses.binary_cross_entropy, (PROBABILITIES, TRUTHS)),
    "binary_cross_entropy_with_logits": (losses.binary_cross_entropy_with_logits, (X, TRUTHS)),
    "focal": (losses.focal, (X, TRUTHS)),
    "cross_entropy": (lambda x: losses.cross_entropy(x, CLASSES), (X,)),
    "cross_entropy, smoothed": (
        lambda x, w: losses.cross_entropy(x, CLASSES, label_smoothing=0.2, weight=w),
        (X, SHARES[0]),
    ),
    "cross_entropy of shares": (losses.cross_entropy, (X, SHARES)),
    "ctc": (lambda x: losses.ctc(x, LABELS), (FRAMES,)),
    "kl_divergence": (losses.kl_divergence, (LOGARITHMS, SHARES)),
    "kl_divergence of logarithms": (
        partial(losses.kl_divergence, log_target=True),
        (LOGARITHMS, LOGARITHMS[::-1].copy()),
    ),
    "dice": (losses.dice, (PROBABILITIES, TRUTHS)),
    "dice, squared": (partial(losses.dice, squared=True), (PROBABILITIES, TRUTHS)),
    "hinge": (lambda x: losses.hinge(x, SIGNS), (X,)),
    "hinge, squared": (lambda x: losses.hinge(x, SIGNS, squared=True), (X,)),
    "cosine": (losses.cosine, (X, Y)),
    "cosine_embedding": (lambda x, y: losses.cosine_embedding(x, y, PAIRS, margin=-0.9), (X, Y)),
    "triplet": (losses.triplet, (X, Y, Z)),
    "triplet, swapped": (partial(losses.triplet, swap=True, p=3.0), (X, Y, Z)),
}
STEP = 1e-5


@pytest.fixture(scope="module")
def derivatives() -> dict[str, tuple[float, float]]:
    """Of each loss the derivative along a direction: by the gradient, and by differences; all by one program."""
    given = {name: list(floats) for name, (_, floats) in CASES.items()}
    direction = sn.tree.map(lambda leaf: RNG.normal(size=leaf.shape), given)

    def every(given: Any) -> Any:
        found = {name: loss(*given[name]) for name, (loss, _) in CASES.items()}
        return sum(found.values()), found

    program = sn.compile(sn.value_and_grad(every, has_aux=True))
    _, gradient = program(given)
    slopes = sn.tree.map(lambda g, d: float((np.asarray(g) * d).sum()), gradient, direction)

    def moved(step: float) -> Any:
        return program(sn.tree.map(lambda leaf, d: leaf + step * d, given, direction))[0][1]

    ahead, behind = moved(STEP), moved(-STEP)
    return {n: (sum(sn.tree.leaves(slopes[n])), float(ahead[n] - behind[n]) / (2 * STEP)) for n in CASES}


def test_every_loss_is_here() -> None:
    assert set(losses.__all__) <= CASES.keys()


@pytest.mark.parametrize("name", CASES)
def test_the_gradient_is_the_limit_of_differences(name: str, derivatives: dict[str, tuple[float, float]]) -> None:
    by_gradient, by_differences = derivatives[name]
    assert by_gradient == pytest.approx(by_differences, rel=1e-7, abs=1e-7)
    assert abs(by_gradient) > 1e-4
