"""Cross-entropy of logits, with integer targets or probabilities."""

from __future__ import annotations

from snell.errors import ShapeError
from snell.frontend import (
    Tensor,
    TensorLike,
    as_tensor,
    astype,
    exp,
    log,
    log_softmax,
    reshape,
    stop_gradient,
    take_along_axis,
    unsqueeze,
    where,
)
from snell.frontend.ops.indexing import Places, as_indices
from snell.frontend.ops.reduction import raw_max
from snell.frontend.promotion import lift
from snell.frontend.shapes import normal_axis
from snell.losses.reduction import as_floats, reduced
from snell.symbolic import Shape, Size, show_shape

__all__ = ["cross_entropy"]


def cross_entropy(
    prediction: TensorLike,
    target: TensorLike,
    *,
    weight: TensorLike | None = None,
    label_smoothing: float = 0.0,
    ignore_index: int | None = -100,
    axis: int = -1,
    reduction: str = "mean",
) -> Tensor:
    """-ln softmax(prediction) at the target, as `torch.nn.functional.cross_entropy` weighs it.

    `prediction`: logits with the classes on `axis`, of any other axes (images have axis=1).  `target`: integers of the
    shape without that axis, those equal to `ignore_index` not counted; or floats of the prediction's shape, the
    probability of each class (one of probability 0 costs nothing, also where its logit is -inf).  `weight`: a number a
    class, (classes,).  `label_smoothing`: the share of each target that is spread over all classes.

    The mean is over the targets that count, weighted by the weights of their classes; of probabilities, over all
    of them, as in PyTorch.  Where none counts it is NaN, with a gradient of 0.  f32 at least.

    Raises ShapeError for shapes that do not fit; a class out of range is an OutOfRangeError of the running program.
    """
    logits, wanted = lift(prediction, target)
    logits = as_floats(logits, "cross_entropy: prediction")
    k = normal_axis(axis, logits.ndim)
    of_class = None if weight is None else _class_weights(weight, logits, k)
    if not wanted.dtype.is_float:
        labels = as_indices(wanted, "cross_entropy: target")
        return _of_labels(logits, labels, k, of_class, label_smoothing, ignore_index, reduction)
    _check_shape(wanted.shape, logits.shape, "probabilities of")
    scores = log_softmax(logits, k)
    return _of_probabilities(scores, astype(wanted, logits.dtype), k, of_class, label_smoothing, reduction)


def _class_weights(weight: TensorLike, logits: Tensor, axis: int) -> Tensor:
    """The weights of the classes, along the axis of classes."""
    tensor = as_tensor(weight)
    classes = logits.shape[axis]
    if tensor.shape != (classes,):
        raise ShapeError(
            f"cross_entropy: weight: expected one number for each of the {classes} classes, "
            f"received shape {show_shape(tensor.shape)}"
        )
    return reshape(astype(tensor, logits.dtype), [classes if k == axis else 1 for k in range(logits.ndim)])


def _check_shape(received: Shape, expected: Shape, what: str) -> None:
    if received != expected:
        raise ShapeError(
            f"cross_entropy: target: expected {what} shape {show_shape(expected)}, received {show_shape(received)}; "
            "the classes are on `axis`, the last unless told otherwise, and integer targets do not have it"
        )


def _of_labels(
    logits: Tensor,
    labels: Tensor,
    axis: int,
    of_class: Tensor | None,
    smoothing: float,
    ignore_index: int | None,
    reduction: str,
) -> Tensor:
    _check_shape(labels.shape, tuple(size for k, size in enumerate(logits.shape) if k != axis), "classes of")
    counts = None if ignore_index is None else labels != ignore_index
    safe = labels if counts is None else where(counts, labels, 0)
    places = Places(safe, logits.shape[axis], "raise", negative=False)

    def at_label(values: Tensor) -> Tensor:
        # The check of `places` is on the result: a class out of range reads as 0 here and is reported by it.
        return take_along_axis(values, unsqueeze(safe, axis), axis, mode="zero").squeeze(axis)

    # The logit is read from the logits, not from what is made of all of them: those are then never stored.  Shifting
    # both parts by the maximum keeps the digits of a small cost between large logits.
    greatest = stop_gradient(raw_max(logits, axis, keepdims=True))
    spread = log(exp(logits - greatest).sum(axis))
    costs = spread - (at_label(logits) - greatest.squeeze(axis))
    weights = None
    if of_class is not None:
        weights = at_label(of_class.expand(logits.shape))
        costs = costs * weights
    if smoothing != 0.0:
        of_all = unsqueeze(spread, axis) - (logits - greatest)
        smooth = (of_all if of_class is None else of_all * of_class).sum(axis)
        costs = costs * (1.0 - smoothing) + smooth * _part(smoothing, logits.shape[axis])
    if weights is not None and counts is not None:
        weights = where(counts, weights, 0.0)
    return places.guard(reduced(costs, reduction, counts, weights), "cross_entropy")


def _part(smoothing: float, classes: Size) -> float | Tensor:
    """The share of a target that each class is given."""
    return smoothing / classes if isinstance(classes, int) else smoothing / as_tensor(classes)


def _of_probabilities(
    scores: Tensor, target: Tensor, axis: int, of_class: Tensor | None, smoothing: float, reduction: str
) -> Tensor:
    if smoothing != 0.0:
        target = target * (1.0 - smoothing) + _part(smoothing, scores.shape[axis])
    costs = -where(target == 0, 0.0, target * scores)
    if of_class is not None:
        costs = costs * of_class
    return reduced(costs.sum(axis), reduction)
