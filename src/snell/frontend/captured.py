"""Captured: a function of trees, traced on stand-ins for its arguments in a trace inside the caller's.

What is computed there is made again in the caller's trace (`moved`), so a transform may look at it, and change it, before
it becomes part of the program.  Two arguments that are one tensor have two stand-ins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from snell import trees
from snell.errors import GraphError
from snell.frontend.context import Trace, common_trace
from snell.frontend.leaves import Leaves
from snell.frontend.promotion import as_tensor
from snell.frontend.tensor import Tensor
from snell.graph.node import Node, Operand, full_view
from snell.graph.primitives import Input
from snell.graph.replay import Replay

__all__ = ["Captured"]


@dataclass(frozen=True, slots=True)
class Captured:
    """The trace, the arguments with their stand-ins, and the result, whose tensors are the trace's."""

    trace: Trace
    arguments: Leaves
    stand_ins: tuple[Tensor, ...]
    result: Any
    home: Trace

    @staticmethod
    def of(function: Callable[..., Any], arguments: tuple[Any, ...], name: str = "argument") -> Captured:
        """Call the function once on stand-ins for the leaves of `arguments`."""
        leaves = Leaves.of(arguments, name)
        trace = Trace(capturing=True)
        stand_ins = tuple(_stand_in(trace, k, tensor) for k, tensor in enumerate(leaves.tensors))
        try:
            result = function(*trees.unflatten(leaves.structure, stand_ins))
            found, structure = trees.flatten(result)
            result = trees.unflatten(structure, [as_tensor(leaf, trace) for leaf in found])
        finally:
            trace.close()
        around = [*(t.trace for t in leaves.tensors), *(other for other, _ in trace.captured.values())]
        return Captured(trace, leaves, stand_ins, result, common_trace(around))

    def input(self, like: Operand) -> Operand:
        """One more input of the trace, such as a cotangent."""
        return self.trace.input(Input(f"given{self.trace.size}", like.shape, like.dtype))

    def outside(self, target: Trace, known: Mapping[Node, Operand]) -> dict[Node, Operand]:
        """What each input of the trace stands for, in `target`; `known` says it of some."""
        found = dict(known)
        for stand_in, tensor in zip(self.stand_ins, self.arguments.tensors, strict=True):
            found.setdefault(stand_in.operand.node, as_tensor(tensor, target).operand)
        for node in self.trace.builder.nodes():
            if isinstance(node.op, Input) and node not in found:
                value = self._value(node, node.op.name, target)
                if value is not None:
                    found[node] = value
        return found

    def _value(self, node: Node, name: str, target: Trace) -> Operand | None:
        if node in self.trace.captured:
            return target.adopt(*self.trace.captured[node])
        array = self.trace.arrays.get(name)
        return None if array is None else target.bind(array)

    def moved(self, operands: Sequence[Operand], target: Trace, known: Mapping[Node, Operand]) -> list[Tensor]:
        """The operands and every check of the trace, made again in `target`."""
        replay = Replay(target.builder, self.outside(target, known))
        found = [Tensor(self._checked(replay, operand), target) for operand in operands]
        for check, guarded in self.trace.checks:
            condition, value, result = (replay(o) for o in (check.condition, check.value, full_view(guarded)))
            target.check(condition, value, check.message, result.node)
        return found

    @staticmethod
    def _checked(replay: Replay, operand: Operand) -> Operand:
        try:
            return replay(operand)
        except KeyError as error:
            raise GraphError(f"a transformed function reads {error}, which has no value yet; set it first") from error


def _stand_in(trace: Trace, number: int, tensor: Tensor) -> Tensor:
    return Tensor(trace.input(Input(f"stand_in{number}", tensor.shape, tensor.dtype)), trace, weak=tensor.weak)
