"""Attention of several heads as a layer (Vaswani et al., 2017), with grouped heads, masks, rotary positions and a cache.

    MultiHeadAttention(256, 8, kv_heads=2, causal=True, rotary=RotaryPositions(32))

One token at a time, the cache in the state: `dataclasses.replace(layer, cache=(texts, positions))` has the same parameters,
and appends the keys and values of each call to those of the calls before.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

from snell.dtypes import f32
from snell.errors import ConfigError, ShapeError
from snell.frontend import (
    DTypeLike,
    Tensor,
    TensorLike,
    as_tensor,
    attention_weights,
    matmul,
    reshape,
    scaled_dot_product_attention,
    transpose,
)
from snell.nn.attention_cache import appended, empty_cache
from snell.nn.checking import expect_fraction, expect_positive, expect_rank, expect_size
from snell.nn.initialisers import Initialiser, Uniform, Zeros
from snell.nn.keys import drawn_key, named_key, random_state
from snell.nn.label import label
from snell.nn.layer import Layer, Params, State
from snell.nn.positions import RotaryPositions

__all__ = ["AttentionInput", "MultiHeadAttention"]


class AttentionInput(NamedTuple):
    """What attention reads.  Keys default to the queries, values to the keys.

    query (…, queries, embed_dim), key (…, keys, key_dim), value (…, keys, value_dim); `mask` broadcasts to
    (…, heads, queries, keys): bool, True = may attend, or numbers added to the scores.
    """

    query: TensorLike
    key: TensorLike | None = None
    value: TensorLike | None = None
    mask: TensorLike | None = None


@dataclass(frozen=True)
class MultiHeadAttention(Layer):
    """Attention of `num_heads` heads between projections of queries, keys and values.

    x is a tensor (…, seq, embed_dim) that attends to itself, a tuple (query, key, value) or an `AttentionInput`; the result is
    (…, queries, embed_dim), and with `return_scores` a pair of it and the weights of every head (…, heads, queries, keys).

    `kv_heads` below `num_heads` share keys and values among heads (Ainslie et al., 2023); `head_dim` defaults to
    embed_dim / num_heads; `causal`: no query attends to later keys.  `rotary` turns queries and keys.  `dropout` drops
    weights in training, so its state holds a key and a counter.  A row that may attend to nothing gives the output bias.

    With `cache=(texts, positions)` the state holds the keys and values of all calls so far, and each call, in training or
    not, appends its own: `{"cache": {"keys", "values", "length"}}`, both (texts, kv_heads, positions, head_dim).  A cache
    needs `causal`.

    Parameters: `weight` (in, out) and `bias` of `q_proj`, `k_proj`, `v_proj` and `out_proj`, initially PyTorch's: Glorot's
    uniform numbers, as of one matrix where all three inputs are as wide, biases 0.

    Raises ConfigError for sizes that do not fit, ShapeError for inputs of other shapes, OutOfRangeError (when run) where
    the cache is full.
    """

    embed_dim: int
    num_heads: int
    _: KW_ONLY
    kv_heads: int | None = None
    head_dim: int | None = None
    key_dim: int | None = None
    value_dim: int | None = None
    causal: bool = False
    rotary: RotaryPositions | None = None
    dropout: float = 0.0
    bias: bool = True
    return_scores: bool = False
    cache: tuple[int, int] | None = None
    weight_init: Initialiser | None = None
    dtype: DTypeLike = f32

    def __post_init__(self) -> None:
        expect_positive(self, embed_dim=self.embed_dim, num_heads=self.num_heads, kv_heads=self._shared_heads)
        expect_fraction(self, dropout=self.dropout)
        name = type(self).__name__
        if self.head_dim is None and self.embed_dim % self.num_heads:
            raise ConfigError(
                f"{name}: expected an embed_dim that {self.num_heads} heads divide, received {self.embed_dim}; or give head_dim"
            )
        if self.num_heads % self._shared_heads:
            raise ConfigError(f"{name}: expected kv_heads that divide {self.num_heads} heads, received {self.kv_heads}")
        if self.rotary is not None and (self.rotary.counted or self.rotary.dim > self._width):
            raise ConfigError(
                f"{name}: expected rotary positions of at most {self._width} elements that are not counted (the cache "
                f"counts), received {label(self.rotary)}"
            )
        if self.cache is not None:
            object.__setattr__(self, "cache", tuple(self.cache))
            if not self.causal or len(self.cache) != 2 or min(self.cache) < 1:
                raise ConfigError(
                    f"{name}: expected cache=(texts, positions) with causal=True, received {self.cache} and "
                    f"causal={self.causal}"
                )

    @property
    def _shared_heads(self) -> int:
        return self.num_heads if self.kv_heads is None else self.kv_heads

    @property
    def _width(self) -> int:
        """Elements of a head."""
        return self.embed_dim // self.num_heads if self.head_dim is None else self.head_dim

    @property
    def _sizes(self) -> dict[str, tuple[int, int]]:
        """(in, out) of each projection."""
        heads, shared = self.num_heads * self._width, self._shared_heads * self._width
        key_dim, value_dim = self.key_dim or self.embed_dim, self.value_dim or self.embed_dim
        return {
            "q_proj": (self.embed_dim, heads),
            "k_proj": (key_dim, shared),
            "v_proj": (value_dim, shared),
            "out_proj": (heads, self.embed_dim),
        }

    def parameters(self, key: Tensor) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for name, shape in self._sizes.items():
            own = named_key(key, name)
            initialiser = self.weight_init or Uniform(-self._bound(name), self._bound(name))
            made[name] = {"weight": initialiser(named_key(own, "weight"), shape, self.dtype)}
            if self.bias:
                made[name]["bias"] = Zeros()(named_key(own, "bias"), (shape[1],), self.dtype)
        return made

    def _bound(self, name: str) -> float:
        """PyTorch's: the output as a linear layer, the inputs by Glorot's rule, as one matrix where they are as wide."""
        inner, outer = self._sizes[name]
        if name == "out_proj":
            return 1.0 / math.sqrt(inner)
        inputs = [self._sizes[other] for other in ("q_proj", "k_proj", "v_proj")]
        if len({width for width, _ in inputs}) == 1:
            outer = sum(width for _, width in inputs)
        return math.sqrt(6.0 / (inner + outer))

    def initial_state(self, key: Tensor) -> dict[str, Any]:
        state: dict[str, Any] = random_state(key) if self.dropout else {}
        if self.cache is not None:
            texts, positions = self.cache
            state["cache"] = empty_cache(texts, self._shared_heads, positions, self._width, self.dtype)
        return state

    def __call__(
        self,
        x: TensorLike | tuple[TensorLike | None, ...],
        params: Params,
        state: State,
        *,
        train: bool = False,
    ) -> tuple[Any, dict[str, Any]]:
        given = self._input(x)
        query, key, value = self._heads(given, params)
        start: Any = as_tensor(state["cache"]["length"]) if self.cache is not None else 0
        if self.rotary is not None:
            query, key = self.rotary.turned(query, start), self.rotary.turned(key, start)
        after = dict(state)
        if self.cache is not None:
            after["cache"] = appended(state["cache"], key, value, label(self))
            key, value = after["cache"]["keys"], after["cache"]["values"]
        options: dict[str, Any] = {"mask": given.mask, "is_causal": self.causal, "query_offset": start}
        dropped: dict[str, Any] = {}
        if self.dropout and train:
            drawn, after = drawn_key(after)
            dropped = {"dropout": self.dropout, "dropout_key": drawn}
        attended = transpose(scaled_dot_product_attention(query, key, value, **options, **dropped), -3, -2)
        joined = reshape(attended, [*attended.shape[:-2], self.num_heads * self._width])
        result = self._product("out_proj", joined, params)
        return (result, attention_weights(query, key, **options)) if self.return_scores else result, after

    def _input(self, x: Any) -> AttentionInput:
        """Queries, keys, values and a mask, with keys for queries and values for keys where there are none."""
        given = AttentionInput(*x) if isinstance(x, tuple) and 1 <= len(x) <= 4 else AttentionInput(x)
        key = given.query if given.key is None else given.key
        value = key if given.value is None else given.value
        checked = [
            expect_rank(self, expect_size(self, one, -1, size, f"(…, seq, {size}) as {name}"), 2, f"(…, seq, {size})")
            for name, one, size in (
                ("query", given.query, self.embed_dim),
                ("key", key, self._sizes["k_proj"][0]),
                ("value", value, self._sizes["v_proj"][0]),
            )
        ]
        lengths = [one.shape[-2] for one in checked]
        if lengths[1] != lengths[2] or (self.cache is not None and lengths[0] != lengths[1]):
            raise ShapeError(
                f"{label(self)} expected as many keys as values"
                + (" and queries" if self.cache is not None else "")
                + f", received {lengths[0]} queries, {lengths[1]} keys and {lengths[2]} values"
            )
        return AttentionInput(*checked, given.mask)

    def _heads(self, given: AttentionInput, params: Params) -> tuple[Tensor, Tensor, Tensor]:
        """The projections, each (…, heads, seq, head_dim)."""
        named = {"q_proj": given.query, "k_proj": given.key, "v_proj": given.value}
        made: list[Tensor] = []
        for name, x in named.items():
            y = self._product(name, x, params)
            made.append(transpose(reshape(y, [*y.shape[:-1], -1, self._width]), -3, -2))
        return made[0], made[1], made[2]

    def _product(self, name: str, x: TensorLike | None, params: Params) -> Tensor:
        own = params[name]
        y = matmul(x, own["weight"])  # type: ignore[arg-type]  # a tensor, see _input
        return y + own["bias"] if self.bias else y
