"""What losses share: operands of one shape, computed in at least f32, and the reduction of what each element costs."""

from __future__ import annotations

from snell.errors import DTypeError, ShapeError, UnsupportedError
from snell.frontend import Tensor, TensorLike, as_tensor, astype, broadcast_to, where
from snell.frontend.promotion import lift
from snell.symbolic import show_shape

__all__ = ["REDUCTIONS", "as_floats", "matching", "reduced"]

REDUCTIONS = ("mean", "sum", "none")


def as_floats(value: TensorLike, label: str) -> Tensor:
    """The value as floats of at least 32 bits; DTypeError for what is no float."""
    tensor = as_tensor(value)
    if not tensor.dtype.is_float:
        raise DTypeError(f"{label}: expected floats, received {tensor.dtype}; cast them with .astype('f32')")
    return astype(tensor, "f32") if tensor.dtype.bits < 32 else tensor


def matching(loss: str, prediction: TensorLike, target: TensorLike, name: str = "target") -> tuple[Tensor, Tensor]:
    """Both in the prediction's dtype, f32 at least.

    Raises ShapeError unless they have one shape: a loss that broadcasts would pair every prediction with every target.
    """
    predicted, wanted = lift(prediction, target)
    if predicted.shape != wanted.shape:
        raise ShapeError(
            f"{loss}: expected {name} of the prediction's shape {show_shape(predicted.shape)}, "
            f"received {show_shape(wanted.shape)}; reshape one of them"
        )
    floats = as_floats(predicted, f"{loss}: prediction")
    return floats, astype(wanted, floats.dtype)


def reduced(values: Tensor, reduction: str, mask: TensorLike | None = None, weights: Tensor | None = None) -> Tensor:
    """The mean, the sum or all of `values`, of those elements that the mask (bool, broadcast) counts.

    The mean divides by the sum of `weights` where they are given: values already carry theirs.  It is NaN where nothing
    counts, as in PyTorch.  Raises UnsupportedError for another reduction.
    """
    if reduction not in REDUCTIONS:
        raise UnsupportedError(f"reduction: expected one of {', '.join(REDUCTIONS)}, received {reduction!r}")
    counted = None if mask is None else broadcast_to(astype(mask, "bool"), values.shape)
    kept = values if counted is None else where(counted, values, 0.0)
    if reduction == "none":
        return kept
    if reduction == "sum":
        return kept.sum()
    if weights is not None:
        return kept.sum() / weights.sum()
    return kept.mean() if counted is None else kept.sum() / astype(counted.sum(), kept.dtype)
