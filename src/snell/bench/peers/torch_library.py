"""The array cases and MiniLM in PyTorch, shared by the eager and the compiled implementation."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 (the name that its documentation uses)
import transformers

from snell.bench.arrays import EPSILON
from snell.bench.cases import Attention, Bert, Case, Fused, FusedLine, Matmul
from snell.bench.minilm import token_ids
from snell.bench.models import model_path
from snell.bench.peers.peer import ArrayLibrary, Timed, array_program, unsupported

__all__ = ["program"]

_DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def program(name: str, case: Case, threads: int, compile: Callable[[Any], Any]) -> Timed:
    """An array case or MiniLM, with ``compile`` around the function or module that is called."""
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    match case:
        case Matmul() | Fused() | Attention():
            return array_program(replace(LIBRARY, name=name, compile=compile), case)
        case Bert():
            return _minilm(case, compile)
        case _:
            raise unsupported(name, case)


def _minilm(case: Bert, compile: Callable[[Any], Any]) -> Timed:
    model = transformers.BertModel.from_pretrained(model_path("minilm"), add_pooling_layer=False)
    model = compile(model.eval().to(_DTYPES[case.dtype]))
    ids = torch.from_numpy(token_ids(case))
    return Timed(lambda: model(ids).last_hidden_state, _get)


def _put(array: np.ndarray, dtype: str) -> torch.Tensor:
    return torch.from_numpy(array).to(_DTYPES[dtype])


def _get(tensor: torch.Tensor) -> np.ndarray:
    return tensor.float().numpy()


def _layer_norm(x: torch.Tensor, gain: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, x.shape[-1:], gain, shift, EPSILON)


def _epilogue(
    x: torch.Tensor, bias: torch.Tensor, residual: torch.Tensor, gain: torch.Tensor, shift: torch.Tensor
) -> torch.Tensor:
    return _layer_norm(F.gelu(x + bias) + residual, gain, shift)


def _linear(weight: torch.Tensor) -> torch.nn.Linear:
    rows, columns = weight.shape
    layer = torch.nn.Linear(rows, columns, bias=False, dtype=weight.dtype)
    layer.weight.data = weight.T.contiguous()
    return layer.eval()


LIBRARY = ArrayLibrary(
    name="torch",
    put=_put,
    get=_get,
    matmul=torch.matmul,
    fused={
        FusedLine.ADD: torch.add,
        FusedLine.SOFTMAX: lambda x: F.softmax(x, dim=-1),
        FusedLine.LAYER_NORM: _layer_norm,
        FusedLine.RMS_NORM: lambda x, gain: F.rms_norm(x, x.shape[-1:], gain, EPSILON),
        FusedLine.GELU_ERF: F.gelu,
        FusedLine.GELU_TANH: lambda x: F.gelu(x, approximate="tanh"),
        FusedLine.EPILOGUE: _epilogue,
        FusedLine.SUM: torch.sum,
    },
    attention=lambda q, k, v, causal: F.scaled_dot_product_attention(q, k, v, is_causal=causal),
    linear=_linear,
)
