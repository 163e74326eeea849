"""Losses of distributions and of areas: Kullback–Leibler divergence and Dice."""

from __future__ import annotations

from snell.frontend import Tensor, TensorLike, exp, log, where
from snell.frontend.shapes import AxisLike, normal_axes, normal_axis
from snell.losses.reduction import matching, reduced

__all__ = ["dice", "kl_divergence"]


def kl_divergence(
    prediction: TensorLike,
    target: TensorLike,
    *,
    log_target: bool = False,
    axis: int = -1,
    mask: TensorLike | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Σ t·(ln t - prediction) along `axis`, of a prediction of log-probabilities and a target of probabilities.

    With `log_target` both are logarithms.  The mean is over distributions (PyTorch's "batchmean"; its "mean" divides by
    the number of classes, too), those that `mask` counts.  A target of 0 costs nothing.  One shape; f32 at least.
    """
    x, t = matching("kl_divergence", prediction, target)
    k = normal_axis(axis, x.ndim)
    if log_target:
        # e^t is 0 at -inf, where the difference is not finite.
        costs = where(exp(t) == 0, 0.0, exp(t) * (t - x))
    else:
        costs = where(t == 0, 0.0, t * (log(t) - x))
    return reduced(costs.sum(k), reduction, mask)


def dice(
    prediction: TensorLike,
    target: TensorLike,
    *,
    smooth: float = 1.0,
    squared: bool = False,
    axis: AxisLike = None,
    reduction: str = "mean",
) -> Tensor:
    """1 - (2·Σ p·t + smooth) / (Σ p + Σ t + smooth) of probabilities p and targets t in 0..1, of one shape.

    Sums are over `axis`: every axis but the first unless given, so that each image has its loss.  `squared` sums squares
    in the denominator (Milletari, Navab and Ahmadi, 2016).  f32 at least.
    """
    p, t = matching("dice", prediction, target)
    axes = tuple(range(1, p.ndim)) if axis is None else normal_axes(axis, p.ndim)
    overlap = (p * t).sum(axes)
    total = (p * p + t * t).sum(axes) if squared else (p + t).sum(axes)
    return reduced(1.0 - (overlap * 2.0 + smooth) / (total + smooth), reduction)
