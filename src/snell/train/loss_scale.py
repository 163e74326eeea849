"""Loss scaling: a factor on the loss that keeps small f16 gradients from vanishing, taken out again before the update.

Method: Micikevicius et al., "Mixed Precision Training" (2018), with the dynamic rule and defaults of PyTorch's GradScaler.
The factor is a power of two as long as `growth` and `backoff` are, so scaling rounds nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from snell.errors import ConfigError
from snell.frontend import Tensor, as_tensor, logical_and, maximum, where

__all__ = ["LossScaling"]

_LEAST = 1.0


@dataclass(frozen=True, slots=True)
class LossScaling:
    """After `interval` finite steps in a row the scale grows by `growth`; after one that is not it shrinks by `backoff`.

    With an interval of 0 it stays `initial`.  It never falls below 1.  ConfigError for factors on the wrong side of 1.
    """

    initial: float = 2.0**16
    growth: float = 2.0
    backoff: float = 0.5
    interval: int = 2000

    def __post_init__(self) -> None:
        if not (self.initial >= _LEAST and self.growth >= 1 >= self.backoff > 0 and self.interval >= 0):
            raise ConfigError(
                "expected initial >= 1, growth >= 1 >= backoff > 0 and interval >= 0, received "
                f"{self.initial}, {self.growth}, {self.backoff} and {self.interval}"
            )

    def state(self) -> dict[str, Any]:
        """The scale before the first step, and the finite steps since it last changed."""
        return {"scale": np.float32(self.initial), "finite_steps": np.int32(0)}

    def following(self, state: Mapping[str, Any], finite: Tensor) -> dict[str, Tensor]:
        """The state after a step, `finite` (a bool scalar) telling how it went."""
        scale, steps = as_tensor(state["scale"]), as_tensor(state["finite_steps"])
        if self.interval == 0:
            return {"scale": scale, "finite_steps": steps}
        counted = steps + 1
        grows = logical_and(finite, counted >= self.interval)
        grown = where(grows, scale * self.growth, scale)
        return {
            "scale": where(finite, grown, maximum(scale * self.backoff, _LEAST)),
            "finite_steps": where(logical_and(finite, counted < self.interval), counted, 0),
        }
