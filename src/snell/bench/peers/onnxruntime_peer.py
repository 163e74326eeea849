"""ONNX Runtime's CPU provider with all graph optimisations."""

import numpy as np
import onnxruntime

from snell.bench.arrays import inputs
from snell.bench.cases import Attention, Bert, Case, Fused, Matmul, Startup, StartupFigure
from snell.bench.minilm import token_ids
from snell.bench.peers.onnx_minilm import onnx_minilm
from snell.bench.peers.onnx_model import fed_operands, onnx_model
from snell.bench.peers.peer import Program, Timed, unsupported
from snell.bench.peers.startup import import_time

__all__ = ["prepare"]


def prepare(case: Case, threads: int) -> Program:
    """A program for the case; float32 only."""
    match case:
        case Matmul(dtype="f32") | Fused() | Attention():
            session = _session(onnx_model(case).SerializeToString(), threads)
            feed = {f"x{i}": operand for i, operand in enumerate(inputs(case)[: fed_operands(case)])}
            return _program(session, feed)
        case Bert(dtype="f32"):
            return _program(_session(str(onnx_minilm()), threads), {"ids": token_ids(case)})
        case Startup(figure=StartupFigure.IMPORT):
            return import_time("onnxruntime")
        case _:
            raise unsupported("onnxruntime", case)


def _session(model: bytes | str, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _program(session: onnxruntime.InferenceSession, feed: dict[str, np.ndarray]) -> Timed:
    return Timed(lambda: session.run(None, feed)[0], np.asarray)
