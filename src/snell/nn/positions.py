"""Where tokens stand: rotary, sinusoidal and learned positions.

Each counts from 0 at every call or, where it is `counted`, from where the call before ended: its state then holds the
`length` so far, i32, as a model that decodes token by token needs.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from snell.dtypes import f32, i32
from snell.errors import ConfigError, ShapeError
from snell.frontend import (
    DTypeLike,
    Tensor,
    TensorLike,
    arange,
    as_tensor,
    astype,
    embedding,
    reshape,
    rope,
    rope_table,
    size_of,
    stack,
    zeros,
)
from snell.nn.checking import expect_positive, expect_rank, expect_size
from snell.nn.initialisers import Initialiser, Normal
from snell.nn.keys import named_key
from snell.nn.label import label
from snell.nn.layer import Layer, Params, State

__all__ = ["LearnedPositions", "RotaryPositions", "SinusoidalPositions"]


@dataclass(frozen=True)
class RotaryPositions(Layer):
    """Pairs of the last axis turned by angles that grow with the position (Su et al., 2021): (…, seq, d) → (…, seq, d).

    Pair k of position p turns by p·base^(-2k/dim).  Pairs are (k, k + dim/2) as in Hugging Face's models, or (2k, 2k + 1)
    where `interleaved`; what is beyond the first `dim` elements passes through.  Raises ShapeError where d is below `dim`.
    """

    dim: int
    base: float = 10000.0
    _: KW_ONLY
    interleaved: bool = False
    counted: bool = False

    def __post_init__(self) -> None:
        _expect_even(self, self.dim)

    def initial_state(self, key: Tensor) -> dict[str, Any]:
        return _initial_length(self.counted)

    def __call__(
        self, x: TensorLike, params: Params, state: State, *, train: bool = False
    ) -> tuple[Tensor, dict[str, Any]]:
        start, after = _start(x, state, self.counted)
        return self.turned(x, start), after

    def turned(self, x: TensorLike, start: TensorLike = 0) -> Tensor:
        """x (…, seq, d), whose first element along `seq` stands at the position `start`, an integer scalar."""
        given = expect_rank(self, x, 2, f"(…, seq, at least {self.dim})")
        width = given.shape[-1]
        if isinstance(width, int) and width < self.dim:
            return expect_size(self, given, -1, self.dim, f"(…, seq, at least {self.dim})")
        cosines, sines = rope_table(arange(given.shape[-2]) + start, self.dim, self.base)
        return rope(given, cosines, sines, interleaved=self.interleaved)


@dataclass(frozen=True)
class SinusoidalPositions(Layer):
    """x plus sines and cosines of the position (Vaswani et al., 2017): (…, seq, embedding_dim) → the same.

    Elements 2k and 2k + 1 of position p are sin and cos of p·base^(-2k/embedding_dim).  Raises ShapeError for an x of another
    width.
    """

    embedding_dim: int
    base: float = 10000.0
    _: KW_ONLY
    counted: bool = False

    def __post_init__(self) -> None:
        _expect_even(self, self.embedding_dim)

    def initial_state(self, key: Tensor) -> dict[str, Any]:
        return _initial_length(self.counted)

    def __call__(
        self, x: TensorLike, params: Params, state: State, *, train: bool = False
    ) -> tuple[Tensor, dict[str, Any]]:
        shape = f"(…, seq, {self.embedding_dim})"
        given = expect_rank(self, expect_size(self, x, -1, self.embedding_dim, shape), 2, shape)
        start, after = _start(given, state, self.counted)
        cosines, sines = rope_table(arange(given.shape[-2]) + start, self.embedding_dim, self.base)
        table = reshape(stack([sines, cosines], -1), [given.shape[-2], self.embedding_dim])
        return given + astype(table, given.dtype), after


@dataclass(frozen=True)
class LearnedPositions(Layer):
    """x plus a learned vector a position: (…, seq, embedding_dim) → the same.

    Parameter: `weight` (num_positions, embedding_dim), by default normal of deviation 0.02 (Radford et al., 2019).  Raises
    ShapeError for an x of another width or longer than `num_positions`, OutOfRangeError (when run) for a counted position
    beyond.
    """

    num_positions: int
    embedding_dim: int
    _: KW_ONLY
    counted: bool = False
    weight_init: Initialiser | None = None
    dtype: DTypeLike = f32

    def __post_init__(self) -> None:
        expect_positive(self, num_positions=self.num_positions, embedding_dim=self.embedding_dim)

    def parameters(self, key: Tensor) -> dict[str, Any]:
        shape = (self.num_positions, self.embedding_dim)
        usual = Normal(0.0, 0.02)
        return {"weight": (self.weight_init or usual)(named_key(key, "weight"), shape, self.dtype)}

    def initial_state(self, key: Tensor) -> dict[str, Any]:
        return _initial_length(self.counted)

    def __call__(
        self, x: TensorLike, params: Params, state: State, *, train: bool = False
    ) -> tuple[Tensor, dict[str, Any]]:
        shape = f"(…, seq, {self.embedding_dim})"
        given = expect_rank(self, expect_size(self, x, -1, self.embedding_dim, shape), 2, shape)
        length = given.shape[-2]
        if isinstance(length, int) and length > self.num_positions:
            raise ShapeError(f"{label(self)} expected at most {self.num_positions} positions, received {length}")
        start, after = _start(given, state, self.counted)
        if isinstance(length, int) and not self.counted:
            return given + as_tensor(params["weight"])[:length], after
        return given + embedding(params["weight"], arange(length) + start), after


def _initial_length(counted: bool) -> dict[str, Any]:
    return {"length": zeros((), i32)} if counted else {}


def _start(x: TensorLike, state: State, counted: bool) -> tuple[TensorLike, dict[str, Any]]:
    """The position of the first token, and the state after the call."""
    if not counted:
        return 0, dict(state)
    start = as_tensor(state["length"])
    return start, {**state, "length": start + size_of(x.shape[-2])}  # type: ignore[union-attr]  # x was checked


def _expect_even(layer: Layer, dim: int) -> None:
    if dim < 2 or dim % 2:
        raise ConfigError(f"{type(layer).__name__}: expected an even number of elements, received {dim}")
