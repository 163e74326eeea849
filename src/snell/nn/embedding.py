"""Embedding: a row of a table for each id."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from snell.dtypes import f32
from snell.errors import ConfigError
from snell.frontend import (
    DTypeLike,
    Tensor,
    TensorLike,
    arange,
    as_tensor,
    embedding,
    equal,
    stop_gradient,
    unsqueeze,
    where,
)
from snell.nn.checking import expect_positive, own_leaf
from snell.nn.initialisers import Initialiser, Normal
from snell.nn.keys import named_key
from snell.nn.layer import Layer, Params, State

__all__ = ["Embedding"]

_STANDARD = Normal()


@dataclass(frozen=True)
class Embedding(Layer):
    """Rows of a table: integer ids of any shape → (*ids.shape, embedding_dim).

    Parameter: `weight` (num_embeddings, embedding_dim), by default standard normal as in `torch.nn.Embedding`.  The row
    `padding_idx` (a negative one counts from the end) begins as zeros and its gradient is zero, so that it stays.

    Raises DTypeError for ids that are not integers, OutOfRangeError (when run) for ids outside the table.
    """

    num_embeddings: int
    embedding_dim: int
    padding_idx: int | None = None
    _: KW_ONLY
    weight_init: Initialiser = _STANDARD
    dtype: DTypeLike = f32

    def __post_init__(self) -> None:
        expect_positive(self, num_embeddings=self.num_embeddings, embedding_dim=self.embedding_dim)
        if self.padding_idx is not None and not -self.num_embeddings <= self.padding_idx < self.num_embeddings:
            raise ConfigError(
                f"Embedding: expected padding_idx within {self.num_embeddings} rows, received {self.padding_idx}"
            )

    def parameters(self, key: Tensor) -> dict[str, Any]:
        shape = (self.num_embeddings, self.embedding_dim)
        weight = self.weight_init(named_key(key, "weight"), shape, self.dtype)
        if self.padding_idx is not None:
            weight = where(unsqueeze(equal(arange(self.num_embeddings), self._padding), 1), 0.0, weight)
        return {"weight": weight}

    def __call__(
        self, x: TensorLike, params: Params, state: State, *, train: bool = False
    ) -> tuple[Tensor, dict[str, Any]]:
        y = embedding(own_leaf(self, params, "weight", (self.num_embeddings, self.embedding_dim)), x)
        if self.padding_idx is not None:
            y = where(unsqueeze(equal(as_tensor(x), self._padding), -1), stop_gradient(y), y)
        return y, dict(state)

    @property
    def _padding(self) -> int:
        assert self.padding_idx is not None  # asked for where there is one
        return self.padding_idx % self.num_embeddings
