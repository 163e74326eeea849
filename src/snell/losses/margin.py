"""Losses with a margin: hinge, cosine embedding and triplet, and the cosine distance."""

from __future__ import annotations

from snell.errors import ShapeError
from snell.frontend import Tensor, TensorLike, as_tensor, astype, maximum, power, sign, sqrt, where
from snell.frontend.promotion import lift
from snell.frontend.shapes import normal_axis
from snell.losses.reduction import matching, reduced
from snell.symbolic import show_shape

__all__ = ["cosine", "cosine_embedding", "hinge", "triplet"]

# PyTorch's bounds: of each norm in the cosine similarity, and added to squared norms in the embedding loss.
_LEAST_NORM = 1e-8
_ADDED = 1e-12


def hinge(
    prediction: TensorLike,
    target: TensorLike,
    *,
    margin: float = 1.0,
    squared: bool = False,
    mask: TensorLike | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, margin - target·prediction), or its square, for targets of -1 and 1 and scores of one shape; f32 at least."""
    x, t = matching("hinge", prediction, target)
    costs = maximum(margin - t * x, 0.0)
    return reduced(costs * costs if squared else costs, reduction, mask)


def cosine(
    prediction: TensorLike,
    target: TensorLike,
    *,
    axis: int = -1,
    mask: TensorLike | None = None,
    reduction: str = "mean",
) -> Tensor:
    """1 - cos of the angle between vectors along `axis`, norms taken to be 1e-8 at least; one shape; f32 at least."""
    x, t = matching("cosine", prediction, target)
    k = normal_axis(axis, x.ndim)
    x_unit = x / maximum(sqrt((x * x).sum(k, keepdims=True)), _LEAST_NORM)
    t_unit = t / maximum(sqrt((t * t).sum(k, keepdims=True)), _LEAST_NORM)
    return reduced(1.0 - (x_unit * t_unit).sum(k), reduction, mask)


def cosine_embedding(
    first: TensorLike, second: TensorLike, target: TensorLike, *, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """1 - cos of pairs whose target is 1, max(0, cos - margin) of those whose target is -1.

    `first` and `second`: (…, width), `target` (…), as `torch.nn.functional.cosine_embedding_loss`.  f32 at least.
    """
    x, y = matching("cosine_embedding", first, second, "second")
    _, label = lift(x, target)
    if label.shape != x.shape[:-1]:
        raise ShapeError(
            f"cosine_embedding: expected a target for each pair, shape {show_shape(x.shape[:-1])}, "
            f"received {show_shape(label.shape)}"
        )
    similarity = (x * y).sum(-1) / sqrt(((x * x).sum(-1) + _ADDED) * ((y * y).sum(-1) + _ADDED))
    apart = where(label == -1, maximum(similarity - margin, 0.0), 0.0)
    return reduced(where(label == 1, 1.0 - similarity, apart), reduction)


def triplet(
    anchor: TensorLike,
    positive: TensorLike,
    negative: TensorLike,
    *,
    margin: float = 1.0,
    p: float = 2.0,
    swap: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """max(0, d(anchor, positive) - d(anchor, negative) + margin), with d the p-norm of the difference.

    All (…, width); as `torch.nn.functional.triplet_margin_loss`, with `eps` added to differences.  `swap` takes the
    positive for the anchor of the negative where that is nearer (Balntas et al., 2016).  f32 at least.
    """
    a, b = matching("triplet", anchor, positive, "positive")
    a, c = matching("triplet", a, negative, "negative")
    far = _distance(a, c, p, eps)
    if swap:
        # PyTorch's minimum hands half of the gradient to each of two equal distances; here the first has it.
        other = _distance(b, c, p, eps)
        far = where(other < far, other, far)
    return reduced(maximum(_distance(a, b, p, eps) - far + margin, 0.0), reduction)


def _distance(x: Tensor, y: Tensor, p: float, eps: float) -> Tensor:
    difference = astype(x - as_tensor(y), x.dtype) + eps
    if p == 2:
        return sqrt((difference * difference).sum(-1))
    size = difference * sign(difference)
    return size.sum(-1) if p == 1 else power(power(size, p).sum(-1), 1.0 / p)
