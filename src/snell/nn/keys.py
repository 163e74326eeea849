"""Keys of layers: folded with the name of each part of a path, and counted where a layer draws at every call.

A layer's key depends on its path and the model's key alone, so adding a layer changes no other layer's numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from snell.dtypes import u32
from snell.errors import GraphError
from snell.frontend import Tensor, TensorLike, as_tensor, random, zeros

__all__ = ["drawn_key", "named_key", "random_state"]


def named_key(key: TensorLike, name: str) -> Tensor:
    """The key of what `name` names inside of what `key` belongs to: u32 (2,)."""
    # Python's own hash of a text differs from process to process.
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    # An array and no constant, so that one kernel makes the keys of all names.
    words = np.frombuffer(digest, "<u4").astype(np.uint32)
    return random.bits(random.bits(key, (2,)) + words, (2,))


def random_state(key: TensorLike) -> dict[str, Tensor]:
    """The state of a layer that draws random numbers: its key and how often it has drawn, `{"key", "counter"}`."""
    return {"key": as_tensor(key), "counter": zeros((), u32)}


def drawn_key(state: Mapping[str, Any]) -> tuple[Tensor, dict[str, Any]]:
    """A key that no other call has, and the state after it: the same state gives the same key again.

    The counter wraps after 2³² calls.  Raises GraphError for a state that is no such one.
    """
    if not {"key", "counter"} <= state.keys():
        raise GraphError(
            f"a layer that draws expected a state with 'key' and 'counter', received {', '.join(state) or 'none'}; "
            "pass what the model's init made"
        )
    counter = as_tensor(state["counter"])
    return random.fold_in(state["key"], counter), {**state, "counter": counter + 1}
