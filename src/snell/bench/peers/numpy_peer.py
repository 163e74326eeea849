"""NumPy, with the BLAS of its wheel; it has no error function, no bf16, and whole models are not its business."""

from math import pi, sqrt

import numpy as np

from snell.bench.arrays import EPSILON
from snell.bench.cases import Attention, Case, Fused, FusedLine, Matmul, Startup, StartupFigure
from snell.bench.peers.peer import ArrayLibrary, Program, Timed, array_program, unsupported
from snell.bench.peers.startup import import_time, tiny_operands

__all__ = ["prepare"]


def prepare(case: Case, threads: int) -> Program:
    """A program for the case; the thread count was set in the environment, before NumPy was loaded."""
    match case:
        case Matmul() | Fused() | Attention():
            return array_program(LIBRARY, case)
        case Startup(figure=StartupFigure.IMPORT):
            return import_time("numpy")
        case Startup(figure=StartupFigure.CALL):
            a, b = tiny_operands()
            return Timed(lambda: np.add(a, b))
        case _:
            raise unsupported("numpy", case)


def _softmax(x: np.ndarray) -> np.ndarray:
    y = np.exp(x - x.max(axis=-1, keepdims=True))
    y /= y.sum(axis=-1, keepdims=True)
    return y


def _layer_norm(x: np.ndarray, gain: np.ndarray, shift: np.ndarray) -> np.ndarray:
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = np.mean(np.square(centred), axis=-1, keepdims=True)
    return centred / np.sqrt(variance + np.float32(EPSILON)) * gain + shift


def _rms_norm(x: np.ndarray, gain: np.ndarray) -> np.ndarray:
    return x / np.sqrt(np.mean(np.square(x), axis=-1, keepdims=True) + np.float32(EPSILON)) * gain


def _gelu_tanh(x: np.ndarray) -> np.ndarray:
    cubic = x + np.float32(0.044715) * (x * x * x)
    return np.float32(0.5) * x * (1 + np.tanh(np.float32(sqrt(2 / pi)) * cubic))


def _attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool) -> np.ndarray:
    scores = q @ k.swapaxes(-1, -2) * np.float32(1 / sqrt(q.shape[-1]))
    if causal:
        scores += np.triu(np.full(scores.shape[-2:], -np.inf, np.float32), 1)
    return _softmax(scores) @ v


LIBRARY = ArrayLibrary(
    name="numpy",
    put=lambda array, dtype: array,
    get=np.asarray,
    matmul=np.matmul,
    fused={
        FusedLine.ADD: np.add,
        FusedLine.SOFTMAX: _softmax,
        FusedLine.LAYER_NORM: _layer_norm,
        FusedLine.RMS_NORM: _rms_norm,
        FusedLine.GELU_TANH: _gelu_tanh,
        FusedLine.SUM: np.sum,
    },
    attention=_attention,
    dtypes=frozenset({"f32"}),
)
