"""The KV cache of an attention layer: the keys and values of the tokens so far, as a part of the layer's state.

`{"keys", "values", "length"}`: keys and values (texts, heads, positions, head_dim), of which the first `length` positions, an
i32 scalar, are filled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from snell.dtypes import i32
from snell.errors import ShapeError
from snell.frontend import DTypeLike, Tensor, as_tensor, size_of, update_rows, zeros
from snell.symbolic import show_shape

__all__ = ["appended", "empty_cache"]


def empty_cache(texts: int, heads: int, positions: int, width: int, dtype: DTypeLike) -> dict[str, Tensor]:
    """A cache that holds nothing yet."""
    shape = (texts, heads, positions, width)
    return {"keys": zeros(shape, dtype), "values": zeros(shape, dtype), "length": zeros((), i32)}


def appended(cache: Mapping[str, Any], keys: Tensor, values: Tensor, layer: str) -> dict[str, Tensor]:
    """The cache with keys and values (texts, heads, new, head_dim) behind those it holds.

    Only the new rows are written where the cache is donated.  Raises ShapeError where the texts or the heads differ from the
    cache's, OutOfRangeError (when run) where the cache has no room for them.
    """
    kept = cache["keys"].shape
    if keys.ndim != 4 or keys.shape[:2] != kept[:2] or values.shape != keys.shape:
        raise ShapeError(
            f"{layer} expected keys and values of shape ({kept[0]}, {kept[1]}, new, {kept[3]}) for its cache, received "
            f"{show_shape(keys.shape)} and {show_shape(values.shape)}"
        )
    start = as_tensor(cache["length"])
    return {
        "keys": update_rows(cache["keys"], keys, start, mode="raise"),
        "values": update_rows(cache["values"], values, start, mode="raise"),
        "length": start + size_of(keys.shape[-2]),
    }
