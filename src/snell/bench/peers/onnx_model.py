"""The array cases as ONNX models, for the implementations that run ONNX files.

``onnx_model(case)`` returns a model of opset 20 whose inputs are named ``x0, x1, …`` in the order of the case's
operands; a constant right operand of a product and the parameters of a normalisation are initialisers, as in a real model, so
that a runtime may lay them out in advance.
"""

from collections.abc import Sequence
from math import sqrt
from typing import assert_never

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from snell.bench.arrays import EPSILON, ArrayCase, inputs
from snell.bench.cases import Attention, Fused, FusedLine, Matmul

__all__ = ["fed_operands", "onnx_model"]

OPSET, IR_VERSION = 20, 9


def fed_operands(case: ArrayCase) -> int:
    """How many of the case's operands are fed at each call; the others are initialisers."""
    match case:
        case Matmul(constant=constant):
            return 1 if constant else 2
        case Fused(line=FusedLine.ADD):
            return 2
        case Fused(line=FusedLine.EPILOGUE):
            # x, bias, residual: the bias comes between, so it is fed too.
            return 3
        case Fused():
            return 1
        case Attention():
            return 3
        case _:
            assert_never(case)


def onnx_model(case: ArrayCase) -> onnx.ModelProto:
    """The case as a checked model."""
    operands = inputs(case)
    fed = fed_operands(case)
    graph = helper.make_graph(
        _nodes(case),
        case.name.replace("/", "_"),
        [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, operands[i].shape) for i in range(fed)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(operands[i], f"x{i}") for i in range(fed, len(operands))] + _constants(case),
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    return onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)


def _nodes(case: ArrayCase) -> list[onnx.NodeProto]:
    match case:
        case Matmul():
            return [_node("MatMul", "x0 x1", "y")]
        case Fused(line=line):
            return _fused(line)
        case Attention(causal=causal):
            return _attention(causal)
        case _:
            assert_never(case)


def _fused(line: FusedLine) -> list[onnx.NodeProto]:
    match line:
        case FusedLine.ADD:
            return [_node("Add", "x0 x1", "y")]
        case FusedLine.SOFTMAX:
            return [_node("Softmax", "x0", "y", axis=-1)]
        case FusedLine.LAYER_NORM:
            return [_node("LayerNormalization", "x0 x1 x2", "y", epsilon=EPSILON)]
        case FusedLine.RMS_NORM:
            return [
                _node("Mul", "x0 x0", "square"),
                _node("ReduceMean", "square axes", "mean"),
                _node("Add", "mean epsilon", "shifted"),
                _node("Sqrt", "shifted", "root"),
                _node("Div", "x0 root", "scaled"),
                _node("Mul", "scaled x1", "y"),
            ]
        case FusedLine.GELU_ERF:
            return [_node("Gelu", "x0", "y")]
        case FusedLine.GELU_TANH:
            return [_node("Gelu", "x0", "y", approximate="tanh")]
        case FusedLine.EPILOGUE:
            return [
                _node("Add", "x0 x1", "biased"),
                _node("Gelu", "biased", "active"),
                _node("Add", "active x2", "summed"),
                _node("LayerNormalization", "summed x3 x4", "y", epsilon=EPSILON),
            ]
        case FusedLine.SUM:
            return [_node("ReduceSum", "x0", "y", keepdims=0)]
        case _:
            assert_never(line)


def _attention(causal: bool) -> list[onnx.NodeProto]:
    scores = "masked" if causal else "scaled"
    nodes = [
        _node("Transpose", "x1", "keys", perm=[0, 1, 3, 2]),
        _node("MatMul", "x0 keys", "scores"),
        _node("Mul", "scores scale", "scaled"),
        _node("Softmax", scores, "weights", axis=-1),
        _node("MatMul", "weights x2", "y"),
    ]
    return [*nodes[:3], _node("Add", "scaled mask", "masked"), *nodes[3:]] if causal else nodes


def _constants(case: ArrayCase) -> list[onnx.TensorProto]:
    match case:
        case Fused(line=FusedLine.RMS_NORM):
            return [_constant("axes", np.array([-1])), _constant("epsilon", np.float32(EPSILON))]
        case Attention(causal=causal, sequence=sequence):
            scale = _constant("scale", np.float32(1 / sqrt(64)))
            mask = np.triu(np.full((sequence, sequence), -np.inf, np.float32), 1)
            return [scale, _constant("mask", mask)] if causal else [scale]
        case _:
            return []


def _constant(name: str, value: np.ndarray | np.generic) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(value), name)


def _node(kind: str, operands: str, result: str, **attributes: float | int | str | Sequence[int]) -> onnx.NodeProto:
    return helper.make_node(kind, operands.split(), [result], **attributes)
