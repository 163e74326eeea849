"""Options: how a state is trained, apart from the model and the optimizer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from snell import dtypes
from snell.config import SearchBudget
from snell.dtypes import DType
from snell.errors import ConfigError
from snell.frontend import DTypeLike, as_dtype
from snell.train.dtype_policy import DTypePolicy
from snell.train.loss_scale import LossScaling

__all__ = ["BatchAxis", "Options"]


class BatchAxis(Enum):
    """When the batch axis is a symbolic size: once a second size is seen, from the first call on, or never."""

    AUTO = "auto"
    SYMBOLIC = "symbolic"
    FIXED = "fixed"


@dataclass(frozen=True, slots=True)
class Options:
    """See `TrainState.create`, whose arguments these are."""

    compute_dtype: DType | None = None
    loss_scaling: LossScaling | None = None
    accumulate: int = 1
    dtype_policy: DTypePolicy = DTypePolicy.WARN
    batch_axis: BatchAxis = BatchAxis.AUTO
    precision: str = "default"
    search: SearchBudget | None = None

    @staticmethod
    def of(
        compute_dtype: DTypeLike | None,
        loss_scaling: LossScaling | float | str | None,
        accumulate: int,
        dtype_policy: str,
        batch_axis: str,
        precision: str,
        search: SearchBudget | None,
    ) -> Options:
        """Options from what a user writes.  ConfigError for what means nothing."""
        dtype = None if compute_dtype is None else as_dtype(compute_dtype)
        if dtype is not None and not dtype.is_float:
            raise ConfigError(f"compute_dtype: expected a float dtype, such as bf16, received {dtype}")
        if accumulate < 1:
            raise ConfigError(f"accumulate: expected at least 1 part of a batch, received {accumulate}")
        try:
            axis = BatchAxis(batch_axis)
        except ValueError:
            known = ", ".join(choice.value for choice in BatchAxis)
            raise ConfigError(f"batch_axis: expected one of {known}, received {batch_axis!r}") from None
        policy = DTypePolicy.named(dtype_policy)
        return Options(dtype, _scaling(loss_scaling, dtype), accumulate, policy, axis, precision, search)


def _scaling(given: Any, dtype: DType | None) -> LossScaling | None:
    if given == "auto":  # f16 has no exponent to spare; bf16 has that of f32
        return LossScaling() if dtype == dtypes.f16 else None
    if given is None or isinstance(given, LossScaling):
        return given
    if isinstance(given, int | float) and not isinstance(given, bool):
        return LossScaling(initial=float(given), interval=0)
    raise ConfigError(f"loss_scaling: expected 'auto', a number, a LossScaling or None, received {given!r}")
