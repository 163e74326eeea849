"""OpenVINO on the CPU, with static shapes; float32 is asked for explicitly because it runs bf16 by default."""

from pathlib import Path

import numpy as np
import openvino

from snell.bench.arrays import inputs
from snell.bench.cases import Attention, Bert, Case, Fused, Matmul, Startup, StartupFigure
from snell.bench.minilm import token_ids
from snell.bench.peers.onnx_minilm import onnx_minilm
from snell.bench.peers.onnx_model import fed_operands, onnx_model
from snell.bench.peers.peer import Program, Timed, unsupported
from snell.bench.peers.startup import import_time

__all__ = ["prepare"]


def prepare(case: Case, threads: int) -> Program:
    """A program for the case."""
    match case:
        case Matmul(dtype="f32") | Fused() | Attention():
            operands = inputs(case)[: fed_operands(case)]
            return _program(onnx_model(case).SerializeToString(), list(operands), "f32", threads)
        case Bert(dtype=dtype):
            return _program(onnx_minilm(), [token_ids(case)], dtype, threads)
        case Startup(figure=StartupFigure.IMPORT):
            return import_time("openvino")
        case _:
            raise unsupported("openvino", case)


def _program(source: bytes | Path, operands: list[np.ndarray], dtype: str, threads: int) -> Timed:
    core = openvino.Core()
    model = core.read_model(source)
    model.reshape({index: operand.shape for index, operand in enumerate(operands)})
    options = {
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": dtype,
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
    }
    request = core.compile_model(model, "CPU", options).create_infer_request()

    def call() -> np.ndarray:
        return request.infer(operands, share_inputs=True, share_outputs=True)[0]

    return Timed(call, lambda result: np.array(result, np.float32))
