"""CTC has PyTorch's values and gradients: lengths, repeated labels, impossible targets."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from tests.losses.judge import assert_like_torch, every_reduction, normal, with_gradients
from torch.nn import functional

import snell as sn
from snell.errors import DTypeError, OutOfRangeError, ShapeError

TIMES, BATCH, CLASSES = 12, 5, 6
LOGITS = normal(TIMES, BATCH, CLASSES)
# Repeated labels, a single one, none at all, and padding that is no class.
TARGET = np.array([[1, 2, 2, 3], [4, 4, 4, 4], [5, -1, -1, -1], [99, 99, 99, 99], [1, 2, 1, 99]])
FRAME_COUNTS = np.array([12, 9, 3, 7, 5])
LABEL_COUNTS = np.array([4, 4, 1, 0, 3])


def by_torch(x: torch.Tensor, frames: Any = FRAME_COUNTS, labels: Any = LABEL_COUNTS, **options: Any) -> torch.Tensor:
    flat = torch.tensor(np.concatenate([row[:count] for row, count in zip(TARGET, labels, strict=True)]))
    scores = functional.log_softmax(x, -1)
    return functional.ctc_loss(scores, flat, torch.tensor(frames), torch.tensor(labels), **options)


def by_snell(x: Any, frames: Any = FRAME_COUNTS, labels: Any = LABEL_COUNTS, **options: Any) -> sn.Tensor:
    return sn.losses.ctc(sn.log_softmax(x, -1), TARGET, frames, labels, **options)


def test_values_and_gradients_are_those_of_torch() -> None:
    assert_like_torch(
        lambda x: every_reduction(partial(by_snell, x), sn.concat),
        lambda x: every_reduction(partial(by_torch, x), torch.cat),
        LOGITS,
    )


def test_a_target_without_an_alignment_costs_infinity_or_zero() -> None:
    short = np.array([12, 6, 3, 7, 5])  # four equal labels take seven frames
    value, _ = with_gradients(lambda x: by_snell(x, short, reduction="none"), LOGITS)
    assert np.isinf(value).tolist() == [False, True, False, False, False]
    assert_like_torch(
        lambda x: by_snell(x, short, zero_infinity=True), lambda x: by_torch(x, short, zero_infinity=True), LOGITS
    )


def test_without_lengths_everything_counts_and_the_blank_may_be_another_class() -> None:
    labels = np.array([[1, 2], [3, 3], [4, 0], [0, 1], [2, 2]])
    full_lengths = torch.full((BATCH,), TIMES), torch.full((BATCH,), 2)
    assert_like_torch(
        lambda x: sn.losses.ctc(sn.log_softmax(x, -1), labels, blank=5),
        lambda x: functional.ctc_loss(functional.log_softmax(x, -1), torch.tensor(labels), *full_lengths, blank=5),
        LOGITS,
    )


def test_classes_that_cannot_be_have_no_gradient_and_spoil_nothing() -> None:
    logits = LOGITS.copy()
    logits[:, :, 3] = -np.inf
    value, (gradient,) = with_gradients(lambda x: by_snell(x, reduction="none", zero_infinity=True), logits)
    assert value[0] == 0  # it needs the class
    assert np.isfinite(value).all()
    assert np.isfinite(gradient).all()
    expected = by_torch(torch.tensor(logits), reduction="none", zero_infinity=True)
    np.testing.assert_allclose(value, expected, rtol=1e-5)


def test_half_precision_is_computed_in_f32() -> None:
    scores = functional.log_softmax(torch.tensor(LOGITS), -1).numpy().astype(np.float16)

    @sn.compile
    def both(x: Any) -> Any:
        given = TARGET, FRAME_COUNTS, LABEL_COUNTS
        return sn.losses.ctc(x, *given), sn.losses.ctc(x.astype("f32"), *given)

    narrow, wide = (np.asarray(value) for value in both(scores))
    assert narrow.dtype == np.float32
    np.testing.assert_allclose(narrow, wide, rtol=1e-6)


def test_operands_that_do_not_fit_are_named() -> None:
    with pytest.raises(ShapeError, match=r"expected a target \(batch, labels\) with the prediction's batch of 5"):
        sn.losses.ctc(LOGITS, TARGET[:3])
    with pytest.raises(ShapeError, match="prediction_lengths: expected integers of shape"):
        sn.losses.ctc(LOGITS, TARGET, FRAME_COUNTS[:2])
    with pytest.raises(DTypeError, match="expected integer classes"):
        sn.losses.ctc(LOGITS, TARGET.astype(np.float32))
    with pytest.raises(ShapeError, match="blank 6 is none of the 6 classes"):
        sn.losses.ctc(LOGITS, TARGET, blank=6)
    compiled = sn.compile(lambda x, y: sn.losses.ctc(x, y))
    with pytest.raises(OutOfRangeError, match="ctc: index 6 is out of range"):
        compiled(LOGITS, np.full((BATCH, 2), 6))
