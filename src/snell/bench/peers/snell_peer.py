"""snell itself, through its public interface only, as a user would write each case."""

from __future__ import annotations

import numpy as np

import snell as sn
from snell.bench.arrays import EPSILON
from snell.bench.cases import (
    Attention,
    Bert,
    Case,
    Fused,
    FusedLine,
    Llm,
    Matmul,
    Quality,
    Serve,
    Startup,
    StartupFigure,
    Train,
)
from snell.bench.peers.judged import judged
from snell.bench.peers.peer import ArrayLibrary, Program, Timed, array_program
from snell.bench.peers.snell_models import compile_minilm, language_model, minilm
from snell.bench.peers.snell_server import language_server
from snell.bench.peers.snell_training import training_step
from snell.bench.peers.startup import import_time, tiny_operands
from snell.dtypes import from_name

__all__ = ["prepare"]


def prepare(case: Case, threads: int) -> Program:
    """A program for the case; compiling happens in its first call, which is not timed."""
    match case:
        case Matmul() | Fused() | Attention():
            return array_program(LIBRARY, case)
        case Bert():
            return minilm(case, threads)
        case Llm():
            return language_model(case, threads)
        case Quality():
            return judged(case, threads, lambda path: sn.llm.load(path, threads=threads).logits)
        case Serve():
            return language_server(case, threads)
        case Train(model=model):
            return training_step(model)
        case Startup(figure=StartupFigure.IMPORT):
            return import_time("snell")
        case Startup(figure=StartupFigure.CALL):
            a, b = tiny_operands()
            add = sn.compile(lambda x, y: x + y)
            return Timed(lambda: add(a, b))
        case Startup(figure=figure):
            return compile_minilm(figure)


def _rms_norm(x: sn.Tensor, gain: sn.Tensor) -> sn.Tensor:
    return x / sn.sqrt(sn.mean(x * x, axis=-1, keepdims=True) + EPSILON) * gain


def _epilogue(x: sn.Tensor, bias: sn.Tensor, residual: sn.Tensor, gain: sn.Tensor, shift: sn.Tensor) -> sn.Tensor:
    return sn.layer_norm(sn.gelu(x + bias) + residual, gain, shift)


LIBRARY = ArrayLibrary(
    name="snell",
    put=lambda array, dtype: array.astype(from_name(dtype).numpy),
    get=lambda result: np.asarray(result).astype(np.float32),
    matmul=lambda a, b: a @ b,
    fused={
        FusedLine.ADD: lambda a, b: a + b,
        FusedLine.SOFTMAX: lambda x: sn.softmax(x, axis=-1),
        FusedLine.LAYER_NORM: lambda x, gain, shift: sn.layer_norm(x, gain, shift),
        FusedLine.RMS_NORM: _rms_norm,
        FusedLine.GELU_ERF: lambda x: sn.gelu(x),
        FusedLine.GELU_TANH: lambda x: sn.gelu(x, approximate="tanh"),
        FusedLine.EPILOGUE: _epilogue,
        FusedLine.SUM: lambda x: sn.sum(x),
    },
    attention=lambda q, k, v, causal: sn.scaled_dot_product_attention(q, k, v, is_causal=causal),
    compile=lambda function: sn.compile(function),
)
