"""Muon: the nearest orthogonal matrix to a momentum."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from snell.errors import ConfigError, ShapeError
from snell.frontend import DTypeLike, Tensor, as_dtype, astype, matmul, maximum, sqrt
from snell.optim.checks import check_fractions, check_range
from snell.optim.decay import decoupled_update, with_kept
from snell.optim.hyperparameters import Hyperparameter, Numbers
from snell.optim.leaf_rule import LeafRule, Slots, from_leaf_rule
from snell.optim.mask import Mask
from snell.optim.running_mean import running_mean
from snell.optim.transform import Transform
from snell.symbolic import Shape, show_shape

__all__ = ["muon"]

_SCALES: dict[str, Callable[[int, int], float]] = {
    "original": lambda rows, columns: math.sqrt(max(1.0, rows / columns)),
    "match_rms_adamw": lambda rows, columns: 0.2 * math.sqrt(max(rows, columns)),
}


def muon(
    learning_rate: Hyperparameter = 1e-3,
    *,
    weight_decay: Hyperparameter = 0.1,
    momentum: Hyperparameter = 0.95,
    nesterov: bool = True,
    coefficients: tuple[Hyperparameter, Hyperparameter, Hyperparameter] = (3.4445, -4.775, 2.0315),
    eps: Hyperparameter = 1e-7,
    iterations: int = 5,
    adjust_learning_rate: str = "original",
    dtype: DTypeLike = "bf16",
    decay_mask: Mask = True,
) -> Transform:
    """Muon (Jordan et al., 2024) as in `torch.optim.Muon`, for the matrices of hidden layers; see `partition`.

    The momentum b ← momentum·b + (1 - momentum)·g, with Nesterov's (1 - momentum)·g + momentum·b, goes through
    `iterations` Newton–Schulz steps X ← a·X + (b·A + c·A²)·X, A = X·Xᵀ, computed in `dtype`; decay is decoupled.  The learning
    rate of an (m, n) matrix is scaled by √max(1, m/n) ("original") or 0.2·√max(m, n) ("match_rms_adamw", Liu et al.,
    2025).  Hyperparameters: learning_rate, weight_decay, momentum, eps, and the coefficients a, b, c.

    Raises ConfigError for numbers out of range, ShapeError for a parameter that is no matrix of known sizes.
    """
    check_range("muon", learning_rate=learning_rate, weight_decay=weight_decay, eps=eps)
    check_fractions("muon", momentum=momentum)
    if adjust_learning_rate not in _SCALES:
        raise ConfigError(
            f"muon: adjust_learning_rate is one of {', '.join(_SCALES)}, received {adjust_learning_rate!r}"
        )
    if len(coefficients) != 3:
        raise ConfigError(f"muon: expected three coefficients, received {coefficients}")
    named = {
        "learning_rate": learning_rate, "weight_decay": weight_decay, "momentum": momentum, "eps": eps,
        "a": coefficients[0], "b": coefficients[1], "c": coefficients[2],
    }  # fmt: skip
    rule = _Rule(_SCALES[adjust_learning_rate], nesterov, iterations, dtype)
    return from_leaf_rule("muon", named, LeafRule(_slots, _prepared, rule.update), decay_mask)


def _slots(parameter: Tensor) -> dict[str, Shape]:
    if parameter.ndim != 2 or not all(isinstance(size, int) for size in parameter.shape):
        raise ShapeError(
            f"muon expected matrices, received a parameter of shape {show_shape(parameter.shape)}; "
            "give other parameters another optimizer with partition"
        )
    return {"momentum": parameter.shape}


def _prepared(n: Numbers, step: Tensor) -> Numbers:
    return {**with_kept(n), "share": 1.0 - n["momentum"]}


@dataclass(frozen=True, slots=True)
class _Rule:
    """The choices that are part of the program."""

    scale: Callable[[int, int], float]
    nesterov: bool
    iterations: int
    dtype: DTypeLike

    def update(self, gradient: Tensor, parameter: Tensor, slots: Slots, n: Numbers) -> tuple[Tensor, Slots]:
        momentum = running_mean(slots["momentum"], gradient, n["share"])
        ahead = momentum + (momentum - gradient) * (n["momentum"] - 1.0)
        direction = ahead if self.nesterov else momentum
        orthogonal = astype(self._orthogonalised(direction, n), parameter.dtype)
        rows, columns = (int(size) for size in parameter.shape)  # type: ignore[arg-type]  # `_slots` has checked them
        update = orthogonal * (n["learning_rate"] * -self.scale(rows, columns))
        return decoupled_update(update, parameter, n), {"momentum": momentum}

    def _orthogonalised(self, direction: Tensor, n: Numbers) -> Tensor:
        """All singular values brought near 1 by a quintic iteration, on the side on which the products are small."""
        rows, columns = direction.shape
        low = as_dtype(self.dtype)
        wide = low if low.bits > 16 else as_dtype("f32")

        def rounded(x: Tensor) -> Tensor:
            return astype(astype(x, low), wide)

        x = rounded(direction.T if rows > columns else direction)  # type: ignore[operator]  # sizes are integers
        a, b, c, eps = (astype(n[name], wide) for name in ("a", "b", "c", "eps"))
        x = rounded(x / maximum(rounded(sqrt((x * x).sum())), eps))
        for _ in range(self.iterations):
            gram = rounded(matmul(x, x.T))
            polynomial = rounded(gram * b + matmul(gram, gram) * c)
            x = rounded(x * a + matmul(polynomial, x))
        return x.T if rows > columns else x  # type: ignore[operator]  # sizes are integers
