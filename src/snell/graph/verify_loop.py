"""The rules of a scan node: its operands fit the inputs of the body that they stand for."""

from __future__ import annotations

from snell.errors import GraphError
from snell.graph.node import Node, Operand
from snell.graph.primitives import Input, Source
from snell.graph.scan import Loop, Scan
from snell.symbolic import Shape, show_shape

__all__ = ["verify_scan"]


def verify_scan(node: Node, op: Scan) -> None:
    """Raise GraphError where an operand is not what the body reads, or the result does not exist."""
    loop = op.loop
    if not 0 <= op.result < len(loop.body.outputs) or loop.carries > len(loop.body.outputs):
        raise GraphError(f"{node!r} asks for result {op.result} of a body with {len(loop.body.outputs)} outputs")
    if len(set(loop.inputs)) < len(loop.inputs):
        raise GraphError(f"{node!r} expected distinct inputs of the body, received {', '.join(loop.inputs)}")
    inputs = {n.op.name: n.op for n in loop.body.inputs() if isinstance(n.op, Input)}
    unknown = sorted(inputs.keys() - set(loop.inputs))
    if unknown:
        raise GraphError(f"{node!r}: the body reads {', '.join(unknown)}, which no operand stands for")
    for place, (name, operand) in enumerate(zip(loop.inputs, node.operands, strict=True)):
        where = f"{node!r}, operand {place} for {name!r}"
        _verify_storable(operand, where)
        if place < loop.carries:
            _verify_type(operand, loop.result_type(place)[0], loop.body.outputs[place][1].dtype, where)
        if name in inputs:
            _verify_input(loop, place, operand, inputs[name], where)


def _verify_storable(operand: Operand, where: str) -> None:
    op = operand.node.op
    if not operand.is_whole:
        raise GraphError(f"{where} is a view; a scan reads whole nodes, make it Contiguous first")
    if isinstance(op, Source) and not isinstance(op, Input):
        raise GraphError(f"{where} is a {type(op).__name__}; a scan reads stored values, make it Contiguous first")


def _verify_input(loop: Loop, place: int, operand: Operand, declared: Input, where: str) -> None:
    walked = loop.carries <= place < loop.carries + loop.rows
    _verify_type(operand, (loop.length, *declared.shape) if walked else declared.shape, declared.dtype, where)
    source = operand.node.op
    storage = source.storage if isinstance(source, Input) else None
    if storage != declared.storage:
        raise GraphError(f"{where} is stored as {storage}, the body expects {declared.storage}")
    if declared.frozen and not (isinstance(source, Input) and source.frozen):
        raise GraphError(f"{where} is not frozen, the body expects a frozen input")


def _verify_type(operand: Operand, shape: Shape, dtype: object, where: str) -> None:
    if operand.shape != shape or operand.dtype != dtype:
        raise GraphError(
            f"{where} expected {dtype}{show_shape(shape)}, received {operand.dtype}{show_shape(operand.shape)}"
        )
