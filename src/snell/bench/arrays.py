"""Inputs of the array cases, and their right answers in NumPy float64.

``inputs(case)`` is a deterministic function of the case, so that every process makes the same arrays; values are
random in the operation's domain, never zeros, which some kernels run faster. bf16 inputs are given in float32 already
rounded to bf16, so that the reference sees what the implementation sees.
"""

import zlib
from math import erf, prod, sqrt
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from snell.bench.cases import HEAD_DIM, HEADS, Attention, Fused, FusedLine, Matmul

__all__ = [
    "F32",
    "F64",
    "ArrayCase",
    "gelu",
    "inputs",
    "layer_norm",
    "reference",
    "round_to_bf16",
    "softmax",
    "tolerance",
]

ArrayCase = Matmul | Fused | Attention
F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
EPSILON = 1e-5

# NumPy has no error function; a Python call an element takes half a second on the largest case.
_erf = np.vectorize(erf, otypes=[np.float64])


def inputs(case: ArrayCase) -> tuple[F32, ...]:
    """The operands of a case, float32 and C-contiguous."""
    random = np.random.default_rng(zlib.crc32(case.name.encode()))

    def normal(*shape: int) -> F32:
        return random.standard_normal(shape, dtype=np.float32)

    match case:
        case Matmul(m=m, k=k, n=n, dtype=dtype):
            operands = normal(m, k), normal(k, n)
            return tuple(round_to_bf16(x) for x in operands) if dtype == "bf16" else operands
        case Fused(line=FusedLine.ADD, shape=shape):
            return normal(*shape), normal(*shape)
        case Fused(line=FusedLine.LAYER_NORM, shape=shape):
            return normal(*shape), 1 + normal(shape[-1]) / 10, normal(shape[-1]) / 10
        case Fused(line=FusedLine.RMS_NORM, shape=shape):
            return normal(*shape), 1 + normal(shape[-1]) / 10
        case Fused(line=FusedLine.EPILOGUE, shape=shape):
            gain, shift = 1 + normal(shape[-1]) / 10, normal(shape[-1]) / 10
            return normal(*shape), normal(shape[-1]), normal(*shape), gain, shift
        case Fused(shape=shape):
            return (normal(*shape),)
        case Attention(sequence=sequence):
            shape = (1, HEADS, sequence, HEAD_DIM)
            return normal(*shape), normal(*shape), normal(*shape)
        case _:
            assert_never(case)


def reference(case: ArrayCase, operands: tuple[F32, ...]) -> F64:
    """The right answer, computed in float64."""
    wide = tuple(operand.astype(np.float64) for operand in operands)
    match case:
        case Matmul():
            return wide[0] @ wide[1]
        case Fused(line=line):
            return _fused(line, wide)
        case Attention(causal=causal):
            return _attention(*wide, causal=causal)
        case _:
            assert_never(case)


def tolerance(case: ArrayCase) -> float:
    """The largest error allowed, as a fraction of the largest element of the right answer.

    A sum of n random terms in float32 errs by about sqrt(n) roundings, and so does the answer's size grow; the factor
    64 covers other orders of summation and approximations of a few units in the last place.
    """
    match case:
        case Matmul(dtype="bf16"):
            return 2.0**-7
        case Fused(line=FusedLine.SUM, shape=shape):
            # The sum of zero-mean terms may nearly cancel, so its own size is no yardstick.
            return max(1e-4, 1e-6 * sqrt(prod(shape)))
        case _:
            return 64 * 2.0**-24


def round_to_bf16(x: F32) -> F32:
    """Round float32 to the nearest bf16, ties to even, kept as float32."""
    bits = x.view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return rounded.astype(np.uint32).view(np.float32)


def _fused(line: FusedLine, operands: tuple[F64, ...]) -> F64:
    x = operands[0]
    match line:
        case FusedLine.ADD:
            return x + operands[1]
        case FusedLine.SOFTMAX:
            return softmax(x)
        case FusedLine.LAYER_NORM:
            return layer_norm(x, operands[1], operands[2])
        case FusedLine.RMS_NORM:
            return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + EPSILON) * operands[1]
        case FusedLine.GELU_ERF:
            return gelu(x)
        case FusedLine.GELU_TANH:
            return 0.5 * x * (1 + np.tanh(sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
        case FusedLine.EPILOGUE:
            _, bias, residual, gain, shift = operands
            return layer_norm(gelu(x + bias) + residual, gain, shift)
        case FusedLine.SUM:
            return np.sum(x)
        case _:
            assert_never(line)


def softmax(x: F64) -> F64:
    """Over the last axis."""
    exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def layer_norm(x: F64, gain: F64, shift: F64, epsilon: float = EPSILON) -> F64:
    """Normalise over the last axis by the two-pass formula."""
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + epsilon) * gain + shift


def gelu(x: F64) -> F64:
    """``x·Φ(x)``."""
    return 0.5 * x * (1 + _erf(x / sqrt(2)))


def _attention(q: F64, k: F64, v: F64, *, causal: bool) -> F64:
    out = np.empty_like(q)
    masked = np.triu(np.full((q.shape[2], k.shape[2]), -np.inf), 1) if causal else 0.0
    # One head at a time keeps the score matrix of a long sequence small.
    for head in range(q.shape[1]):
        scores = q[0, head] @ k[0, head].T / sqrt(q.shape[-1]) + masked
        out[0, head] = softmax(scores) @ v[0, head]
    return out
