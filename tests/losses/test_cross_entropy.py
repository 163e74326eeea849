"""Cross-entropy weighs, smooths and ignores as PyTorch's does, in its corners too."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from tests.losses.judge import assert_like_torch, every_reduction, normal, with_gradients
from torch.nn import functional

import snell as sn
from snell.errors import DTypeError, OutOfRangeError, ShapeError, UnsupportedError

LOGITS = normal(6, 5) * 3
LABELS = np.array([0, 4, 2, -100, 1, 4])
WEIGHT = np.float32([0.5, 2.0, 1.0, 0.0, 3.0])
PROBABILITIES = functional.softmax(torch.tensor(normal(6, 5, seed=1)), -1).numpy()


def assert_weighs_as_torch(target: Any, weight: Any, smoothing: float) -> None:
    of_torch = None if weight is None else torch.tensor(weight)
    options: dict[str, Any] = {"label_smoothing": smoothing}
    assert_like_torch(
        lambda x: every_reduction(partial(sn.losses.cross_entropy, x, target, weight=weight, **options), sn.concat),
        lambda x: every_reduction(
            partial(functional.cross_entropy, x, torch.tensor(target), weight=of_torch, **options), torch.cat
        ),
        LOGITS,
    )


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_integer_targets_weigh_as_in_torch(weight: Any, smoothing: float) -> None:
    assert_weighs_as_torch(LABELS, weight, smoothing)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["unweighted", "weighted"])
def test_probabilities_as_targets_weigh_as_in_torch(weight: Any) -> None:
    assert_weighs_as_torch(PROBABILITIES, weight, 0.2)


def test_classes_may_lie_on_any_axis() -> None:
    logits, labels = normal(2, 5, 3, 4), np.random.default_rng(2).integers(0, 5, (2, 3, 4))
    assert_like_torch(
        lambda x: sn.losses.cross_entropy(x, labels, axis=1, weight=WEIGHT),
        lambda x: functional.cross_entropy(x, torch.tensor(labels), weight=torch.tensor(WEIGHT)),
        logits,
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_mean_over_no_target_is_nan_without_a_gradient(smoothing: float) -> None:
    labels = np.full(6, -100)
    value, (gradient,) = with_gradients(lambda x: sn.losses.cross_entropy(x, labels, label_smoothing=smoothing), LOGITS)
    assert np.isnan(value)
    np.testing.assert_array_equal(gradient, np.zeros_like(LOGITS))


def test_classes_of_weight_zero_cost_nothing() -> None:
    labels = np.array([3, 3, 0, 1, 3, 2])
    assert_like_torch(
        lambda x: sn.losses.cross_entropy(x, labels, weight=WEIGHT),
        lambda x: functional.cross_entropy(x, torch.tensor(labels), weight=torch.tensor(WEIGHT)),
        LOGITS,
    )


def test_a_logit_of_minus_infinity_excludes_its_class() -> None:
    logits = LOGITS.copy()
    logits[:, 3] = -np.inf
    assert_like_torch(
        lambda x: sn.losses.cross_entropy(x, LABELS, reduction="none"),
        lambda x: functional.cross_entropy(x, torch.tensor(LABELS), reduction="none"),
        logits,
    )
    excluded = np.full(6, 3)
    value, _ = with_gradients(lambda x: sn.losses.cross_entropy(x, excluded), logits)
    assert value == np.inf


def test_a_probability_of_zero_costs_nothing_at_a_logit_of_minus_infinity() -> None:
    logits, target = LOGITS.copy(), PROBABILITIES.copy()
    logits[:, 3], target[:, 3] = -np.inf, 0.0
    value, (gradient,) = with_gradients(lambda x: sn.losses.cross_entropy(x, target), logits)
    others = [0, 1, 2, 4]
    expected, (wanted,) = with_gradients(lambda x: sn.losses.cross_entropy(x, target[:, others]), LOGITS[:, others])
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    np.testing.assert_allclose(gradient[:, others], wanted, rtol=1e-5, atol=1e-7)
    assert not gradient[:, 3].any()


@pytest.mark.parametrize("size", [1e4, 80.0])
def test_large_logits_neither_overflow_nor_lose_digits(size: float) -> None:
    assert_like_torch(
        lambda x: sn.losses.cross_entropy(x, LABELS, reduction="none"),
        lambda x: functional.cross_entropy(x, torch.tensor(LABELS), reduction="none"),
        (LOGITS * size).astype(np.float32),
    )


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_half_precision_is_computed_in_f32(dtype: str) -> None:
    low = LOGITS.astype(sn.dtypes.from_name(dtype).numpy)
    value, (gradient,) = with_gradients(lambda x: sn.losses.cross_entropy(x, LABELS), low)
    expected, (wanted,) = with_gradients(lambda x: sn.losses.cross_entropy(x, LABELS), low.astype(np.float32))
    assert value.dtype == np.float32
    assert gradient.dtype == low.dtype
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    np.testing.assert_allclose(gradient.astype(np.float32), wanted.astype(low.dtype).astype(np.float32), rtol=1e-2)


@pytest.mark.parametrize("label", [5, -1, -99])
def test_a_class_out_of_range_is_reported_with_its_number(label: int) -> None:
    labels = LABELS.copy()
    labels[2] = label
    compiled = sn.compile(lambda x, y: sn.losses.cross_entropy(x, y))
    with pytest.raises(OutOfRangeError, match=f"cross_entropy: index {label} is out of range for an axis of extent 5"):
        compiled(LOGITS, labels)
    with pytest.raises(OutOfRangeError, match=f"index {label} "):
        sn.compile(sn.grad(lambda x, y: sn.losses.cross_entropy(x, y)))(LOGITS, labels)


def test_another_index_is_ignored_or_none() -> None:
    labels = np.array([0, 4, 2, 0, 1, 4])
    assert_like_torch(
        lambda x: sn.losses.cross_entropy(x, labels, ignore_index=4),
        lambda x: functional.cross_entropy(x, torch.tensor(labels), ignore_index=4),
        LOGITS,
    )
    value, _ = with_gradients(lambda x: sn.losses.cross_entropy(x, labels, ignore_index=None), LOGITS)
    np.testing.assert_allclose(value, functional.cross_entropy(torch.tensor(LOGITS), torch.tensor(labels)), rtol=1e-6)


def test_logits_over_a_large_vocabulary_are_not_stored() -> None:
    compiled = sn.compile(lambda x, w, y: sn.losses.cross_entropy(x @ w, y))
    x, w, y = normal(32, 16), normal(16, 20_000), np.arange(32)
    expected = functional.cross_entropy(torch.tensor(x) @ torch.tensor(w), torch.tensor(y))
    np.testing.assert_allclose(np.asarray(compiled(x, w, y)), expected, rtol=1e-5)
    arena = re.search(r"arena +(\d+) bytes", str(compiled.explain()))
    assert arena is not None
    assert int(arena[1]) < 32 * 20_000


def test_a_batch_of_any_size_is_one_program() -> None:
    compiled = sn.compile(lambda x, y: sn.losses.cross_entropy(x, y), dims={"x": ("n", None), "y": ("n",)})
    for rows in (6, 3, 1):
        expected = functional.cross_entropy(torch.tensor(LOGITS[:rows]), torch.tensor(LABELS[:rows]))
        np.testing.assert_allclose(np.asarray(compiled(LOGITS[:rows], LABELS[:rows])), expected, rtol=1e-6)
    assert "1 compiled" in repr(compiled)


def test_operands_that_do_not_fit_are_named() -> None:
    loss = sn.losses.cross_entropy
    with pytest.raises(ShapeError, match=r"target: expected classes of shape \(6,?\), received \(5,?\)"):
        loss(LOGITS, LABELS[:5])
    with pytest.raises(ShapeError, match=r"target: expected probabilities of shape \(6, 5\)"):
        loss(LOGITS, PROBABILITIES[:, :3])
    with pytest.raises(ShapeError, match="one number for each of the 5 classes"):
        loss(LOGITS, LABELS, weight=WEIGHT[:4])
    with pytest.raises(DTypeError, match="prediction: expected floats, received i64"):
        loss(LABELS, LABELS)
    with pytest.raises(UnsupportedError, match="one of mean, sum, none, received 'average'"):
        loss(LOGITS, LABELS, reduction="average")
