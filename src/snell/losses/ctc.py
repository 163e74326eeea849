"""Connectionist temporal classification: the likelihood of a labelling over all of its alignments."""

from __future__ import annotations

import math

from snell.errors import DTypeError, ShapeError, UnsupportedError
from snell.frontend import (
    Tensor,
    TensorLike,
    arange,
    as_tensor,
    astype,
    concatenate,
    exp,
    full,
    isinf,
    less,
    log,
    maximum,
    pad,
    reshape,
    scan,
    stack,
    stop_gradient,
    take_along_axis,
    unsqueeze,
    where,
)
from snell.frontend.ops.indexing import Places
from snell.frontend.promotion import lift
from snell.losses.reduction import REDUCTIONS, as_floats, reduced
from snell.symbolic import Size, show_shape

__all__ = ["ctc"]


def ctc(
    prediction: TensorLike,
    target: TensorLike,
    prediction_lengths: TensorLike | None = None,
    target_lengths: TensorLike | None = None,
    *,
    blank: int = 0,
    zero_infinity: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """-ln of the probability that the frames spell the target (Graves et al., 2006), as `torch.nn.functional.ctc_loss`.

    `prediction`: log-probabilities (time, batch, classes), of `log_softmax`.  `target`: classes (batch, labels), padded
    with any class.  The lengths, (batch,) integers, say how many frames and labels count; all of them unless given.  A
    target that fits no alignment costs inf, or with `zero_infinity` 0 and no gradient.  The mean is that of the costs,
    each divided by its number of labels.  The recursion over alignments (forward variables, in logarithms) is one scan
    over time, so time and memory of the gradient grow with time·labels.  f32 at least.

    Raises ShapeError or DTypeError for operands that do not fit; a class out of range is an OutOfRangeError of the
    running program.
    """
    frames, labels = lift(prediction, target)
    frames = as_floats(frames, "ctc: prediction")
    _check(frames, labels, blank, reduction)
    times, batch, _ = frames.shape
    frame_counts = _lengths(prediction_lengths, times, batch, "prediction_lengths")
    label_counts = _lengths(target_lengths, labels.shape[1], batch, "target_lengths")
    is_label = less(arange(labels.shape[1], dtype="i32"), unsqueeze(label_counts, 1))
    counted = where(is_label, astype(labels, "i32"), blank)
    places = Places(counted, frames.shape[2], "raise", negative=False)
    states, may_skip = _states(counted, blank)
    costs = -_log_likelihood(frames, states, may_skip, frame_counts, label_counts)
    if zero_infinity:
        costs = where(isinf(costs), 0.0, costs)
    if reduction == "mean":
        costs = costs / maximum(astype(label_counts, costs.dtype), 1.0)
    return places.guard(reduced(costs, reduction), "ctc")


def _check(frames: Tensor, labels: Tensor, blank: int, reduction: str) -> None:
    if reduction not in REDUCTIONS:
        raise UnsupportedError(f"reduction: expected one of {', '.join(REDUCTIONS)}, received {reduction!r}")
    if frames.ndim != 3:
        raise ShapeError(f"ctc: expected a prediction (time, batch, classes), received {show_shape(frames.shape)}")
    if labels.ndim != 2 or labels.shape[0] != frames.shape[1]:
        raise ShapeError(
            f"ctc: expected a target (batch, labels) with the prediction's batch of {frames.shape[1]}, "
            f"received {show_shape(labels.shape)}"
        )
    if not labels.dtype.is_integer:
        raise DTypeError(f"ctc: expected integer classes as target, received {labels.dtype}")
    classes = frames.shape[2]
    if isinstance(classes, int) and not 0 <= blank < classes:
        raise ShapeError(f"ctc: blank {blank} is none of the {classes} classes")


def _lengths(given: TensorLike | None, whole: Size, batch: Size, name: str) -> Tensor:
    if given is None:
        return full((batch,), as_tensor(whole), "i32")
    tensor = as_tensor(given)
    if tensor.shape != (batch,) or not tensor.dtype.is_integer:
        raise ShapeError(
            f"ctc: {name}: expected integers of shape {show_shape((batch,))}, "
            f"received {tensor.dtype}{show_shape(tensor.shape)}"
        )
    return astype(tensor, "i32")


def _states(labels: Tensor, blank: int) -> tuple[Tensor, Tensor]:
    """The labels with blanks around each, (batch, 2·labels + 1), and where a path may leave out the blank before."""
    batch, count = labels.shape
    blanks = full((batch, count), blank, "i32")
    pairs = reshape(stack([blanks, labels], 2), (batch, 2 * count))
    states = concatenate([pairs, full((batch, 1), blank, "i32")], 1)
    before = _moved(states, 2, blank)
    return states, (states != blank) & (states != before)


def _moved(x: Tensor, places: int, value: float) -> Tensor:
    """Each row moved to the right, `value` coming in."""
    return pad(x, [(0, 0), (places, -places)], value)


def _log_likelihood(
    frames: Tensor, states: Tensor, may_skip: Tensor, frame_counts: Tensor, label_counts: Tensor
) -> Tensor:
    """ln of the sum over all paths that end in the last label or the blank after it."""
    places = arange(states.shape[1], dtype="i32")

    def step(alpha: Tensor, row: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        scores, time = row
        skipped = where(may_skip, _moved(alpha, 2, -math.inf), -math.inf)
        ways = _log_sum(alpha, _moved(alpha, 1, -math.inf), skipped)
        emitted = take_along_axis(scores, states, 1, mode="zero")  # the check of `places` is on the result
        following = where(unsqueeze(less(time, frame_counts), 1), ways + emitted, alpha)
        return following, time

    # Before the first frame a path is in the first blank: the step takes it into the first two states.
    start = where(places == 0, 0.0, -math.inf)
    start = astype(start, frames.dtype).expand(states.shape)
    alpha, _ = scan(step, start, (frames, arange(frames.shape[0], dtype="i32")))
    last = unsqueeze(label_counts * 2, 1)
    at_blank, at_label = places == last, places == last - 1
    return _log_sum(_only(alpha, at_blank), _only(alpha, at_label))


def _only(alpha: Tensor, selected: Tensor) -> Tensor:
    """The value at the one selected place of each row, -inf where there is none."""
    return where(selected, alpha, -math.inf).max(1)


def _log_sum(*terms: Tensor) -> Tensor:
    """ln Σ exp of the terms; -inf, without a gradient, where all are -inf."""
    greatest = terms[0]
    for term in terms[1:]:
        greatest = maximum(greatest, term)
    is_empty = greatest == -math.inf
    shift = stop_gradient(where(is_empty, 0.0, greatest))
    total = exp(terms[0] - shift)
    for term in terms[1:]:
        total = total + exp(term - shift)
    return where(is_empty, -math.inf, log(where(is_empty, 1.0, total)) + shift)
