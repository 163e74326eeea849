"""Diagnosis: which layer made the first value that is infinite or NaN.

The model is run once more with every layer watched.  Forward, the culprit is the innermost layer whose inputs and
parameters are finite and whose result is not.  Backward it is the one whose result has a finite cotangent while those of
its input or its parameters are not.  Cotangents are seen through probes: a zero that is added to a value has the sum of
the value's cotangent as its gradient.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from snell import trees
from snell.engine.defaults import compile
from snell.errors import NonFiniteError
from snell.frontend import (
    Tensor,
    Trace,
    as_tensor,
    astype,
    isfinite,
    logical_and,
    random,
    value_and_grad,
)
from snell.train.objective import Objective
from snell.train.step_program import Recipe, narrowed
from snell.train.watch import Call, Path, watched

__all__ = ["raise_diagnosed"]


@dataclass(slots=True)
class _Watch:
    """The calls of a model's layers in the order in which they ended, with a probe at each input and result."""

    probes: Sequence[Tensor]
    home: Trace
    entered: int = 0
    left: int = 0
    open: list[int] | None = None
    paths: list[Path] | None = None
    flags: list[tuple[Tensor, Tensor]] | None = None
    numbers: list[tuple[int, int]] | None = None

    def __post_init__(self) -> None:
        self.open, self.paths, self.flags, self.numbers = [], [], [], []
