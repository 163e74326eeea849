"""Run-time checks as ordinary outputs: for each check, how often it fails and the value at the first failure.

failures = Σ (not condition)        first = n - max((n - i)·(not condition))        value = values[first]
"""

from __future__ import annotations

from dataclasses import dataclass

from snell.dtypes import bool_, i64
from snell.errors import CompileError
from snell.graph.node import Builder, Check, Graph, Node, Operand, full_view
from snell.graph.primitives import Add, Constant, Contiguous, Iota, LessThan, MaxReduce, Mul, Op, SumReduce
from snell.rewrite.conditions import guards_of
from snell.rewrite.index import define
from snell.rewrite.term import Tensor
from snell.symbolic import Expr, Size, View, as_expr, as_size, product

__all__ = ["CheckOutput", "sizes_known", "with_check_outputs"]


@dataclass(frozen=True, slots=True)
class CheckOutput:
    """Names of the two scalar i64 outputs of a check, and its message (with `{value}`)."""

    failures: str
    value: str
    message: str


def with_check_outputs(graph: Graph) -> tuple[Graph, tuple[CheckOutput, ...]]:
    """The graph with its checks turned into outputs, which come first so that they are computed first."""
    builder = Builder()
    outputs: list[tuple[str, Operand]] = []
    checks: list[CheckOutput] = []
    for number, check in enumerate(graph.checks):
        found = CheckOutput(f"check{number}.failures", f"check{number}.value", _message(check))
        failures, value = _Check(builder, check).outputs()
        outputs += [(found.failures, failures), (found.value, value)]
        checks.append(found)
    return Graph((*outputs, *graph.outputs)), tuple(checks)


def sizes_known(graph: Graph) -> tuple[Expr, ...]:
    """Expressions of sizes that are not negative once the graph's checks have passed.

    A check of sizes alone depends on no kernel, so it is known before anything donated is written.
    """
    found: list[Expr] = []
    for check in graph.checks:
        if check.condition.shape == () and not Graph((("condition", check.condition),)).inputs():
            condition = define(check.condition, Tensor("condition", (), bool_), {}).value
            found += guards_of(condition) or ()
    return tuple(found)


def _message(check: Check) -> str:
    return check.message if "{value}" in check.message else f"{check.message} (received {{value}})"


class _Check:
    """Builds one check's outputs over its elements in row-major order."""

    def __init__(self, builder: Builder, check: Check) -> None:
        if not (check.value.dtype.is_integer or check.value.dtype == bool_):
            raise CompileError(f"the value of check {check.message!r} is {check.value.dtype}; expected an integer")
        self.builder = builder
        self.count: Size = as_size(product(list(check.condition.shape)))
        self.failed = self._negated(self._flat(check.condition))
        self.values = self._cast(self._flat(check.value))

    def outputs(self) -> tuple[Operand, Operand]:
        position = full_view(self.builder.add(Iota(self.count)))
        minus = self._op(Mul(), position, self._constant(-1))
        weight = self._op(Add(), minus, self._size())
        marked = self._op(Mul(), self.failed, weight)
        greatest = full_view(self.builder.add(MaxReduce((0,)), [marked]))
        equal = self._equal(weight, self._spread(greatest))
        first = self._op(Mul(), self._op(Mul(), equal, self.failed), self.values)
        failures = full_view(self.builder.add(SumReduce((0,)), [self._cast(self.failed)]))
        return failures, full_view(self.builder.add(SumReduce((0,)), [first]))

    def _flat(self, operand: Operand) -> Operand:
        return Operand(operand.node, operand.view.reshape((self.count,)))

    def _cast(self, operand: Operand) -> Operand:
        return operand if operand.dtype == i64 else full_view(self.builder.add(Contiguous(i64), [operand]))

    def _op(self, op: Op, *operands: Operand) -> Operand:
        return full_view(self.builder.add(op, operands))

    def _spread(self, scalar: Operand) -> Operand:
        return Operand(scalar.node, scalar.view.expand((self.count,)))

    def _constant(self, value: int) -> Operand:
        return self._spread(full_view(self.builder.add(Constant(value, i64))))

    def _size(self) -> Operand:
        """The element count as a value: the last position plus one."""
        node: Node = self.builder.add(Iota(as_size(as_expr(self.count) + 1)))
        last = View.identity(node.shape).slice((as_expr(self.count),), (1,), (1,))
        return Operand(node, last.expand((self.count,)))

    def _negated(self, condition: Operand) -> Operand:
        true = self._spread(full_view(self.builder.add(Constant(1, bool_))))
        return self._op(LessThan(), condition, true)

    def _equal(self, a: Operand, b: Operand) -> Operand:
        below, above = self._op(LessThan(), a, b), self._op(LessThan(), b, a)
        return self._op(Mul(), self._negated(below), self._negated(above))
