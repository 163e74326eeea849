"""Binary cross-entropy of probabilities and of logits, and the focal loss."""

from __future__ import annotations

from typing import Any

from snell.frontend import (
    Tensor,
    TensorLike,
    as_tensor,
    astype,
    custom_vjp,
    log,
    log1p,
    maximum,
    power,
    sigmoid,
    softplus,
)
from snell.losses.reduction import matching, reduced

__all__ = ["binary_cross_entropy", "binary_cross_entropy_with_logits", "focal"]

# Bounds that keep the cost of a certain error and its gradient finite; PyTorch's.
_LEAST_LOG = -100.0
_LEAST_VARIANCE = 1e-12


def binary_cross_entropy(
    prediction: TensorLike,
    target: TensorLike,
    *,
    weight: TensorLike | None = None,
    mask: TensorLike | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-(t·ln p + (1 - t)·ln(1 - p)) of probabilities p in 0..1, as `torch.nn.functional.binary_cross_entropy`.

    Logarithms are -100 at least, and the gradient is that of variances p·(1 - p) of 1e-12 at least.  `target` has the
    prediction's shape; `weight` broadcasts; the mean is over the elements that `mask` counts.  Logits are more accurate
    in `binary_cross_entropy_with_logits`.  f32 at least.
    """
    p, t = matching("binary_cross_entropy", prediction, target)
    return reduced(_weighted(_bernoulli_cost(p, t), weight), reduction, mask)


def _bernoulli(p: Tensor, t: Tensor) -> tuple[Tensor, Any]:
    hit, miss = maximum(log(p), _LEAST_LOG), maximum(log1p(-p), _LEAST_LOG)
    return (t - 1.0) * miss - t * hit, (p, t, miss - hit)


def _bernoulli_pullback(kept: Any, cotangent: Tensor) -> tuple[Tensor, Tensor]:
    p, t, difference = kept
    return cotangent * (p - t) / maximum((1.0 - p) * p, _LEAST_VARIANCE), cotangent * difference


_bernoulli_cost = custom_vjp(_bernoulli, _bernoulli_pullback)


def binary_cross_entropy_with_logits(
    prediction: TensorLike,
    target: TensorLike,
    *,
    weight: TensorLike | None = None,
    pos_weight: TensorLike | None = None,
    mask: TensorLike | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Binary cross-entropy of sigmoid(prediction), as `torch.nn.functional.binary_cross_entropy_with_logits`.

    `target` in 0..1 has the prediction's shape; `weight` and `pos_weight`, a factor of the cost of a missed positive,
    broadcast; the mean is over the elements that `mask` counts.  f32 at least.
    """
    x, t = matching("binary_cross_entropy_with_logits", prediction, target)
    return reduced(_weighted(_logistic_cost(x, t, pos_weight), weight), reduction, mask)


def _logistic_cost(x: Tensor, t: Tensor, pos_weight: TensorLike | None = None) -> Tensor:
    """-t·ln σ(x)·w - (1 - t)·ln(1 - σ(x)), with ln σ(x) = -softplus(-x) and ln(1 - σ(x)) = -x - softplus(-x)."""
    miss = softplus(-x)
    share = 1.0 if pos_weight is None else (astype(pos_weight, x.dtype) - 1.0) * t + 1.0
    return (1.0 - t) * x + share * miss


def focal(
    prediction: TensorLike,
    target: TensorLike,
    *,
    gamma: float = 2.0,
    alpha: float | None = 0.25,
    mask: TensorLike | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Focal loss (Lin et al., 2017) of logits: binary cross-entropy times (1 - p)^gamma, p the chance given to the truth.

    `target` in 0..1 has the prediction's shape; `alpha` weighs positives, 1 - alpha negatives, None neither; the mean is
    over the elements that `mask` counts.  f32 at least.
    """
    x, t = matching("focal", prediction, target)
    chance = sigmoid(x)
    error = chance + t - chance * t * 2.0  # 1 - p
    costs = _logistic_cost(x, t) * power(error, gamma)
    if alpha is not None:
        costs = costs * (t * alpha + (1.0 - t) * (1.0 - alpha))
    return reduced(costs, reduction, mask)


def _weighted(costs: Tensor, weight: TensorLike | None) -> Tensor:
    return costs if weight is None else costs * astype(as_tensor(weight), costs.dtype)
