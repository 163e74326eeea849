"""Losses have PyTorch's values and gradients, edges included, and count what a mask counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tests.losses.judge import assert_like_torch, normal, uniform, with_gradients
from torch.nn import functional

import snell as sn
from snell.errors import ConfigError, DTypeError, ShapeError

losses = sn.losses

X, Y, Z = normal(4, 3), normal(4, 3, seed=1), normal(4, 3, seed=2)
X[0, 0] = Y[0, 0]  # a difference of 0
X[1, 1] = Y[1, 1] + 1.0  # a difference at the bound of Huber's loss
LOGITS = normal(4, 3, seed=3) * 4
LOGITS[0] = 0.0, 100.0, -100.0
BINARY = np.float32([[1, 1, 1], [0, 0, 0], [0.3, 1, 0], [0, 1, 0.5]])
SIGNS = np.float32([[1, -1, 1], [-1, 1, -1], [1, 1, -1], [-1, -1, 1]])
PAIRS = np.array([1, -1, -1, 1])
POS_WEIGHT = np.float32([0.5, 2.0, 3.0])
COUNTS = np.float32([[0, 1, 2], [3, 7, 1], [0, 0, 5], [20, 2, 1]])
SHARES = functional.softmax(torch.tensor(Y), -1).numpy()
SHARES[0] = 0.0, 1.0, 0.0


def both(function: str, *arguments: Any, **options: Any) -> Callable[..., torch.Tensor]:
    """PyTorch's function with arrays as its other arguments."""
    given = [torch.tensor(one) for one in arguments]
    of_torch = {key: torch.tensor(v) if isinstance(v, np.ndarray) else v for key, v in options.items()}
    return lambda x: getattr(functional, function)(x, *given, **of_torch)


def focal_by_torch(x: torch.Tensor, reduction: str = "none") -> torch.Tensor:
    """Lin et al. (2017), equation 5, as torchvision writes it."""
    t = torch.tensor(BINARY)
    p = torch.sigmoid(x)
    truth = p * t + (1 - p) * (1 - t)
    costs = functional.binary_cross_entropy_with_logits(x, t, reduction="none") * (1 - truth) ** 1.5
    return (0.3 * t + 0.7 * (1 - t)) * costs


CASES: dict[str, tuple[Callable[..., Any], Callable[..., torch.Tensor], Any]] = {
    "mse": (lambda x: losses.mse(x, Y, reduction="none"), both("mse_loss", Y, reduction="none"), X),
    "mae": (lambda x: losses.mae(x, Y, reduction="none"), both("l1_loss", Y, reduction="none"), X),
    "huber": (
        lambda x: losses.huber(x, Y, delta=0.5, reduction="none"),
        both("huber_loss", Y, delta=0.5, reduction="none"), X,
    ),
    "smooth_l1": (
        lambda x: losses.smooth_l1(x, Y, beta=1.0, reduction="none"),
        both("smooth_l1_loss", Y, beta=1.0, reduction="none"), X,
    ),
    "binary_cross_entropy_with_logits": (
        lambda x: losses.binary_cross_entropy_with_logits(x, BINARY, reduction="none"),
        both("binary_cross_entropy_with_logits", BINARY, reduction="none"), LOGITS,
    ),
    "binary_cross_entropy_with_logits, weighted": (
        lambda x: losses.binary_cross_entropy_with_logits(x, BINARY, weight=COUNTS, pos_weight=POS_WEIGHT),
        both("binary_cross_entropy_with_logits", BINARY, weight=COUNTS, pos_weight=POS_WEIGHT), LOGITS,
    ),
    "focal": (
        lambda x: losses.focal(x, BINARY, gamma=1.5, alpha=0.3, reduction="none"), focal_by_torch,
        LOGITS.clip(-10, 10),
    ),
    "kl_divergence": (
        lambda x: losses.kl_divergence(sn.log_softmax(x), SHARES),
        lambda x: functional.kl_div(functional.log_softmax(x, -1), torch.tensor(SHARES), reduction="batchmean"), X,
    ),
    "kl_divergence of logarithms": (
        lambda x: losses.kl_divergence(sn.log_softmax(x), np.log(SHARES + 0.1), log_target=True),
        lambda x: functional.kl_div(
            functional.log_softmax(x, -1), torch.tensor(np.log(SHARES + 0.1)), reduction="batchmean", log_target=True
        ), X,
    ),
    "cosine": (
        lambda x: losses.cosine(x, Y, reduction="none"),
        lambda x: 1 - functional.cosine_similarity(x, torch.tensor(Y), dim=-1), X,
    ),
    "cosine_embedding": (
        lambda x: losses.cosine_embedding(x, Y, PAIRS, margin=-0.3, reduction="none"),
        lambda x: functional.cosine_embedding_loss(
            x, torch.tensor(Y), torch.tensor(PAIRS), margin=-0.3, reduction="none"
        ), X,
    ),
    "triplet": (
        lambda x: losses.triplet(x, Y, Z, reduction="none"), both("triplet_margin_loss", Y, Z, reduction="none"), X,
    ),
    "triplet of another norm, swapped": (
        lambda x: losses.triplet(x, Y, Z, p=3.0, swap=True, margin=2.0, reduction="none"),
        both("triplet_margin_loss", Y, Z, p=3.0, swap=True, margin=2.0, reduction="none"), X,
    ),
    "triplet of sums of magnitudes": (
        lambda x: losses.triplet(x, Y, Z, p=1.0), both("triplet_margin_loss", Y, Z, p=1.0), X,
    ),
    "poisson": (
        lambda x: losses.poisson(x, COUNTS, full=True, reduction="none"),
        both("poisson_nll_loss", COUNTS, full=True, reduction="none"), X,
    ),
    "poisson of rates": (
        lambda x: losses.poisson(x, COUNTS, log_input=False, reduction="none"),
        both("poisson_nll_loss", COUNTS, log_input=False, reduction="none"), np.abs(X) + 0.1,
    ),
    "hinge": (
        lambda x: losses.hinge(x, SIGNS, reduction="none"), lambda x: (1 - torch.tensor(SIGNS) * x).clamp(min=0), X,
    ),
    "squared hinge": (
        lambda x: losses.hinge(x, SIGNS, squared=True),
        lambda x: ((1 - torch.tensor(SIGNS) * x).clamp(min=0) ** 2).mean(), X,
    ),
    "dice": (
        lambda x: losses.dice(x, BINARY, reduction="none"),
        lambda x: 1 - (2 * (x * torch.tensor(BINARY)).sum(1) + 1) / (x.sum(1) + torch.tensor(BINARY).sum(1) + 1),
        uniform(4, 3),
    ),
    "dice of squares": (
        lambda x: losses.dice(x, BINARY, squared=True, smooth=0.1, axis=(0, 1)),
        lambda x: 1 - (2 * (x * torch.tensor(BINARY)).sum() + 0.1)
        / ((x**2).sum() + (torch.tensor(BINARY) ** 2).sum() + 0.1),
        uniform(4, 3),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_loss_has_the_values_and_gradients_of_torch(case: str) -> None:
    loss, judge, prediction = CASES[case]
    assert_like_torch(loss, judge, prediction)


def test_binary_cross_entropy_stays_finite_at_its_edges() -> None:
    probabilities = np.float32([[0.0, 1.0, 0.5], [0.0, 1.0, 0.2], [0.9, 1e-7, 1.0], [0.3, 0.99999, 0.0]])
    assert_like_torch(
        lambda p: losses.binary_cross_entropy(p, BINARY, weight=POS_WEIGHT, reduction="none"),
        lambda p: functional.binary_cross_entropy(
            p, torch.tensor(BINARY), weight=torch.tensor(POS_WEIGHT).expand(4, 3), reduction="none"
        ),
        probabilities,
    )


def test_gradients_reach_targets_that_are_computed() -> None:
    probabilities, target = uniform(4, 3), uniform(4, 3, seed=1)
    assert_like_torch(
        lambda p, t: losses.binary_cross_entropy(p, t), functional.binary_cross_entropy, probabilities, target
    )
    assert_like_torch(lambda a, b: losses.mse(a, b), functional.mse_loss, X, Y)


ELEMENTWISE = [
    losses.mse, losses.mae, losses.huber, losses.smooth_l1, losses.poisson, losses.hinge, losses.focal,
    losses.binary_cross_entropy_with_logits,
]  # fmt: skip


@pytest.mark.parametrize("loss", ELEMENTWISE, ids=lambda loss: loss.__name__)
def test_the_mean_is_over_what_the_mask_counts_whatever_the_rest_is(loss: Any) -> None:
    mask = np.array([[True, False, True]] * 4)
    spoiled = np.where(mask, X, np.nan).astype(np.float32)
    value, (gradient,) = with_gradients(lambda x: loss(x, BINARY, mask=mask), spoiled)
    expected, (wanted,) = with_gradients(lambda x: loss(x, BINARY[:, [0, 2]]), X[:, [0, 2]])
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    np.testing.assert_allclose(gradient[:, [0, 2]], wanted, rtol=1e-5, atol=1e-7)
    assert not gradient[:, 1].any()


def test_half_precision_and_64_bit_targets_are_computed_in_f32() -> None:
    @sn.compile
    def costs(x: Any, t: Any) -> Any:
        return [(loss(x, t), loss(x.astype("f32"), t.astype("f32"))) for loss in ELEMENTWISE]

    for narrow, wide in costs(X.astype(np.float16), BINARY.astype(np.float64)):
        assert narrow.dtype == np.float32
        np.testing.assert_allclose(np.asarray(narrow), np.asarray(wide), rtol=1e-6)


def test_operands_that_do_not_fit_are_named() -> None:
    with pytest.raises(ShapeError, match=r"mse: expected target of the prediction's shape \(4, 3\), received \(4, 1\)"):
        losses.mse(X, Y[:, :1])
    with pytest.raises(ShapeError, match="triplet: expected negative"):
        losses.triplet(X, Y, Z[:2])
    with pytest.raises(ShapeError, match="cosine_embedding: expected a target for each pair"):
        losses.cosine_embedding(X, Y, PAIRS[:2])
    with pytest.raises(DTypeError, match="mae: prediction: expected floats, received i64"):
        losses.mae(PAIRS, PAIRS)
    with pytest.raises(ConfigError, match="huber: delta is a number above 0"):
        losses.huber(X, Y, delta=0.0)
