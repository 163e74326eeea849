"""A definition: one stored tensor as a scalar term of its axes."""

from __future__ import annotations

from dataclasses import dataclass

from snell.rewrite.term import Tensor, Term
from snell.symbolic import Axis, Expr

__all__ = ["Definition"]


@dataclass(frozen=True, slots=True)
class Definition:
    """`tensor[indices] = value` for every position of `axes`; the indices reach each element of the tensor once."""

    tensor: Tensor
    axes: tuple[Axis, ...]
    indices: tuple[Expr, ...]
    value: Term

    def __str__(self) -> str:
        places = ", ".join(str(index) for index in self.indices)
        return f"{self.tensor.name}[{places}] = {self.value!r}"
