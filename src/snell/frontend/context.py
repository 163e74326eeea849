"""Trace: the context in which tensors are built: a Builder, the arrays bound to inputs, and the checks.

A function under tracing has one Trace.  A tensor made from nothing (`zeros`, `arange`, an eager array) has a *floating*
trace of its own; where it meets a tensor of another trace its graph is replayed there, so no global state is needed.
Two tensors of two different function traces never mix.

The body of a scan has a *capturing* trace, which lies inside others: a tensor of one of them becomes an input there, and
`captured` says which operand it stands for.  Bodies nest in the order they were begun.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from snell.dtypes import from_numpy
from snell.errors import GraphError
from snell.frontend.evaluator import Array, Evaluator, Interpreter
from snell.graph.custom import plain
from snell.graph.node import Builder, Check, Graph, Node, Operand
from snell.graph.primitives import Input, Op
from snell.symbolic import Shape, View

__all__ = ["Trace", "common_trace"]

# Evaluates tensors made from nothing.
_INTERPRETER: Final = Interpreter()


_BEGUN = itertools.count()
_TWO_PROGRAMS = (
    "the operands belong to two programs under construction; pass one of them as an argument of the other's "
    "function instead of closing over it"
)


@dataclass(frozen=True, slots=True)
class _GuardedCheck:
    """A check and the node whose values it vouches for."""

    check: Check
    guarded: Node


class Trace:
    """Everything that tensors of one program share.  Nodes are interned, so building twice is building once."""

    def __init__(self, evaluator: Evaluator | None = None, *, floating: bool = False, capturing: bool = False) -> None:
        self.builder = Builder()
        self.evaluator = evaluator or (_INTERPRETER if floating else None)
        self.floating = floating
        self.retriever: Callable[[Operand], Any] | None = None
        self.arrays: dict[str, Array] = {}
        self.size = 0
        self.captured: dict[Node, tuple[Trace, Operand]] = {}
        self.capturing = capturing
        self.closed = False
        self._begun = next(_BEGUN)
        self._captures: dict[tuple[int, Node], Node] = {}
        self._names: set[str] = set()
        self._bound: dict[int, Operand] = {}
        self._checks: list[_GuardedCheck] = []
        self._adopted: dict[Node, Node] = {}

    def add(self, op: Op, operands: Sequence[Operand] = ()) -> Operand:
        """The operation's whole result."""
        self.size += 1
        node = self.builder.add(op, operands)
        return Operand(node, _identity(node.shape))

    def input(self, declaration: Input) -> Operand:
        """A new input; GraphError where its name is taken."""
        if declaration.name in self._names:
            raise GraphError(f"the trace already has an input named {declaration.name!r}; give each input its own name")
        self._names.add(declaration.name)
        return self.add(declaration)

    def bind(self, array: Array, name: str = "array") -> Operand:
        """A frozen input that holds `array` (kept by reference, one input an array object)."""
        found = self._bound.get(id(array))
        if found is None:
            declaration = Input(self._free_name(name), array.shape, from_numpy(array.dtype), frozen=True)
            found = self._bound[id(array)] = self.input(declaration)
            self.arrays[declaration.name] = array
        return found

    def _free_name(self, base: str) -> str:
        number = len(self._names)
        while f"{base}{number}" in self._names:
            number += 1
        return f"{base}{number}"

    def check(self, condition: Operand, value: Operand, message: str, guarded: Node) -> None:
        """Record a run-time condition of everything computed from `guarded`."""
        found = _GuardedCheck(Check(condition, value, message), guarded)
        if found not in self._checks:
            self._checks.append(found)

    def graph(self, outputs: Sequence[tuple[str, Operand]], *, all_checks: bool = True) -> Graph:
        """The outputs with every check, or only with those that the outputs depend on, ready to be run."""
        return plain(self._graph(outputs, all_checks=all_checks))

    def _graph(self, outputs: Sequence[tuple[str, Operand]], *, all_checks: bool) -> Graph:
        """As `graph`, of this trace's own nodes; equal checks are made once."""
        reached = None if all_checks else set(Graph(tuple(outputs)).nodes())
        found = (one.check for one in self._checks if reached is None or one.guarded in reached)
        return Graph(tuple(outputs), tuple(dict.fromkeys(found)))

    def evaluate(self, operands: Sequence[Operand]) -> list[Array]:
        """Values through the evaluator; GraphError where there is none or an input has no array."""
        if self.evaluator is None:
            raise GraphError(
                "this tensor has no value: it is part of a program under construction; "
                "return it from the compiled function, or build it with an engine (sn.Graph, sn.array)"
            )
        graph = self.graph([(f"out{k}", operand) for k, operand in enumerate(operands)], all_checks=False)
        missing = [
            node.op.name for node in graph.inputs() if isinstance(node.op, Input) and node.op.name not in self.arrays
        ]
        if missing:
            raise GraphError(f"inputs {', '.join(missing)} have no array yet; set them before asking for a value")
        return list(self.evaluator.evaluate(graph, self.arrays))

    def adopt(self, other: Trace, operand: Operand) -> Operand:
        """The operand of a floating trace, replayed here with its arrays and checks."""
        if other is self:
            return operand
        if not other.floating:
            return self._capture(other, operand)
        graph = other._graph([("adopted", operand)], all_checks=False)
        for node in graph.nodes():
            if node not in self._adopted:
                self._adopted[node] = self._replayed(other, node)
        for check in graph.checks:
            guarded = next(found.guarded for found in other._checks if found.check is check)
            self.check(self._moved(check.condition), self._moved(check.value), check.message, self._adopted[guarded])
        if self.floating:
            self.evaluator = self.evaluator or other.evaluator
        return self._moved(operand)

    def is_inside(self, other: Trace) -> bool:
        """Whether this is the trace of a body begun after `other`, which may be a body itself."""
        return self.capturing and not other.closed and other._begun < self._begun

    def close(self) -> None:
        """The body is complete: its tensors mean nothing from here on."""
        self.closed = True

    def _capture(self, other: Trace, operand: Operand) -> Operand:
        """An operand of a trace around this one, as an input."""
        if not self.is_inside(other):
            raise GraphError(_TWO_PROGRAMS)
        key = (id(other), operand.node)
        if key not in self._captures:
            source = operand.node
            options = (source.op.frozen, False, source.op.storage) if isinstance(source.op, Input) else ()
            made = self.input(Input(self._free_name("captured"), source.shape, source.dtype, *options)).node
            self._captures[key] = made
            self.captured[made] = (other, Operand(source, _identity(source.shape)))
        return Operand(self._captures[key], operand.view)

    @property
    def checks(self) -> tuple[tuple[Check, Node], ...]:
        """Each check with the node it guards."""
        return tuple((found.check, found.guarded) for found in self._checks)

    def _moved(self, operand: Operand) -> Operand:
        return Operand(self._adopted[operand.node], operand.view)

    def _replayed(self, other: Trace, node: Node) -> Node:
        if not isinstance(node.op, Input):
            return self.add(node.op, [self._moved(operand) for operand in node.operands]).node
        array = other.arrays.get(node.op.name)
        if array is None:
            return self.input(replace(node.op, name=self._free_name(node.op.name))).node
        return self.bind(array).node


@functools.lru_cache(maxsize=1 << 14)
def _identity(shape: Shape) -> View:
    """Few shapes occur in a program, and each node needs this view."""
    return View.identity(shape)


def common_trace(traces: Sequence[Trace]) -> Trace:
    """The trace in which an operation on tensors of these traces is built: the innermost body's, where there are some.

    Raises GraphError where two of them belong to different programs, or one to a body that is complete.
    """
    rooted = [trace for trace in dict.fromkeys(traces) if not trace.floating]
    if any(trace.closed for trace in rooted):
        raise GraphError("a tensor of a scan's body was used outside it; return it from the body as carry or row")
    innermost = next((t for t in rooted if all(o is t or t.is_inside(o) for o in rooted)), None)
    if innermost is not None:
        return innermost
    if rooted:
        raise GraphError(_TWO_PROGRAMS)
    if not traces:
        return Trace(floating=True)
    # The larger one takes the smaller ones in, so that a growing eager computation is not replayed at every step.
    return max(traces, key=lambda trace: trace.size)
