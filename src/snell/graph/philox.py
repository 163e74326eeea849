"""Philox4x32-10: counter-based random bits (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).

Element `n` of a Random node (row-major index in its own shape) is word `n mod 4` of block `n // 4`, whose counter is
`(lo32(n // 4), hi32(n // 4), 0, 0)` and whose key is the node's key operand.  A value depends on nothing else, so
fusion, layout, threads and recomputation cannot change it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["MULTIPLIERS", "ROUNDS", "WEYL", "philox_bits", "philox_blocks", "philox_words"]

_Words = np.ndarray[Any, np.dtype[np.uint32]]
MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10


def philox_blocks(counters: _Words, key: tuple[int, int]) -> _Words:
    """The ten-round bijection: counters (…, 4) u32 → four random words each, of the same shape."""
    a, b, c, d = (counters[..., k].astype(np.uint64) for k in range(4))
    low = np.uint64(0xFFFFFFFF)
    for round_ in range(ROUNDS):
        k0, k1 = (np.uint64((key[k] + round_ * WEYL[k]) & 0xFFFFFFFF) for k in range(2))
        first, second = a * MULTIPLIERS[0], c * MULTIPLIERS[1]
        a, b, c, d = (second >> np.uint64(32)) ^ b ^ k0, second & low, (first >> np.uint64(32)) ^ d ^ k1, first & low
    return np.stack([a, b, c, d], axis=-1).astype(np.uint32)


def philox_bits(count: int, key: tuple[int, int]) -> _Words:
    """The first `count` words of a key, in row-major element order."""
    blocks = np.arange((count + 3) // 4, dtype=np.uint64)
    counters = np.zeros((len(blocks), 4), np.uint32)
    counters[:, 0] = (blocks & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    counters[:, 1] = (blocks >> np.uint64(32)).astype(np.uint32)
    return philox_blocks(counters, key).reshape(-1)[:count]


def philox_words(key: tuple[int, int], positions: np.ndarray[Any, np.dtype[Any]]) -> _Words:
    """The words of a key at row-major positions (of any shape)."""
    flat = positions.reshape(-1)
    blocks = flat // 4
    counters = np.zeros((blocks.size, 4), np.uint32)
    counters[:, 0], counters[:, 1] = blocks & 0xFFFFFFFF, blocks >> 32
    return philox_blocks(counters, key)[np.arange(blocks.size), flat % 4].reshape(positions.shape)
