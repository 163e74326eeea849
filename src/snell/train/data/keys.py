"""Keys on the host: what `sn.random` computes from a key in a program, computed here with NumPy.

The order of an epoch is a function of (key, epoch) alone, so a data loader may begin anywhere, and needs no compiler.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from snell.errors import DTypeError
from snell.graph.philox import philox_bits

__all__ = ["Key", "as_key", "folded", "permutation"]

Key = tuple[int, int]
"""Two 32-bit words."""

# As in `snell.frontend.ops.random`: a folded key is no key that splitting gives.
_FOLD_TAG = 0x9E3779B9
_WORD = 0xFFFFFFFF


def as_key(key: Any) -> Key:
    """The words of a key from `sn.random.key`, an array u32 (2,), or a whole number (a seed).

    Raises DTypeError for anything else.
    """
    if isinstance(key, int) and not isinstance(key, bool):
        return key & _WORD, (key >> 32) & _WORD
    words = np.asarray(key)
    if words.shape != (2,) or words.dtype.kind not in "ui":
        raise DTypeError(
            f"expected a key, u32 (2,) as sn.random.key(seed) gives, or a seed; received {words.dtype}{words.shape}"
        )
    return int(words[0]) & _WORD, int(words[1]) & _WORD


def folded(key: Key, number: int) -> Key:
    """The same key as `sn.random.fold_in(key, number)`."""
    mixed = [int(word) for word in philox_bits(2, key)]
    words = (number & _WORD, ((number >> 32) + _FOLD_TAG) & _WORD)
    first, second = philox_bits(2, ((mixed[0] + words[0]) & _WORD, (mixed[1] + words[1]) & _WORD))
    return int(first), int(second)


def permutation(key: Key, count: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The same order of 0..count-1 as `sn.random.permutation(key, count)`: i64 (count,)."""
    return np.argsort(philox_bits(count, key), kind="stable")
