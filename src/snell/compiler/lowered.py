"""What lowering makes: the passes' values, and steps in order: kernels and repetitions of kernels.

    Step        ::= BuiltKernel | SideBySide | RepeatStep
    SideBySide  ::= BuiltKernel*
    RepeatStep  ::= length, CarryTensors*, RowTensors*, Step*, check outputs

Tensors have names of their own across the whole program: those of a body are prefixed with their repetition's name,
except where they stand for a tensor outside.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from snell.compiler.checks import CheckOutput
from snell.graph.node import Graph
from snell.loops.build import BuiltKernel, renamed_kernel
from snell.loops.grouping import Group
from snell.loops.retarget import retarget_term
from snell.rewrite.definition import Definition
from snell.rewrite.reassociate import Reassociation
from snell.rewrite.template import Instance
from snell.rewrite.term import Tensor
from snell.symbolic import Expr

__all__ = [
    "CarryTensors",
    "Lowered",
    "Naming",
    "PassTimes",
    "RepeatStep",
    "RowTensors",
    "SideBySide",
    "Step",
    "kernels_of",
    "renamed_step",
]


@dataclass(slots=True)
class PassTimes:
    """Seconds spent in each named pass, in the order they first ran."""

    seconds: dict[str, float] = field(default_factory=dict[str, float])

    @contextmanager
    def measure(self, name: str) -> Generator[None, None, None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


@dataclass(frozen=True, slots=True)
class CarryTensors:
    """A carried value.  A step reads `before` and writes `after`: the `initial` tensor at first, then `result` and
    `spare` in turn, so that the last step writes `result`."""

    initial: Tensor
    before: Tensor
    after: Tensor
    result: Tensor
    spare: Tensor


@dataclass(frozen=True, slots=True)
class RowTensors:
    """`row` is the current step's row of `whole`, read or written in place."""

    whole: Tensor
    row: Tensor


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Kernels in one dispatch: none of them touches what another one writes (`loops.dispatches`)."""

    kernels: tuple[BuiltKernel, ...]


@dataclass(frozen=True, slots=True)
class RepeatStep:
    """Steps that run `length` times; `body` is what their graph was lowered to, in the body's own names."""

    name: str
    length: Expr
    carries: tuple[CarryTensors, ...]
    rows: tuple[RowTensors, ...]
    steps: tuple[Step, ...]
    checks: tuple[CheckOutput, ...]
    body: Lowered


Step = BuiltKernel | SideBySide | RepeatStep


@dataclass(frozen=True, slots=True)
class Lowered:
    """Everything the passes made: `aliases` maps an output tensor to the donated input whose memory it takes over."""

    graph: Graph
    program: tuple[Instance, ...]
    groups: tuple[Group, ...]
    steps: tuple[Step, ...]
    aliases: dict[Tensor, Tensor]
    times: PassTimes
    built: Mapping[Group, BuiltKernel]
    """The kernel of each canonical group, those of repetitions' bodies among them."""
    orders: tuple[Reassociation, ...] = ()
    """Products that were put into a cheaper order, without those of repetitions."""

    @property
    def kernels(self) -> tuple[BuiltKernel, ...]:
        """Every kernel, those of repetitions once."""
        return tuple(kernels_of(self.steps))

    @property
    def own_kernels(self) -> tuple[BuiltKernel, ...]:
        """The kernels of `groups`, in their order: every kernel but those of repetitions."""
        return tuple(kernels_of(step for step in self.steps if not isinstance(step, RepeatStep)))

    def definitions(self) -> tuple[Definition, ...]:
        """The program as definitions over its own tensors, without those of repetitions."""
        return tuple(
            replace(i.template, tensor=i.stored, value=retarget_term(i.template.value, i.tensors)) for i in self.program
        )

    def repetitions(self) -> tuple[RepeatStep, ...]:
        """The outermost repetitions, in order."""
        return tuple(step for step in self.steps if isinstance(step, RepeatStep))


@dataclass(frozen=True, slots=True)
class Naming:
    """A body's tensors in the program around it: known ones by name, the others under a prefix."""

    prefix: str
    known: Mapping[str, Tensor]

    def __call__(self, tensor: Tensor) -> Tensor:
        return self.known.get(tensor.name) or replace(tensor, name=self.name(tensor.name))

    def name(self, name: str) -> str:
        return self.known[name].name if name in self.known else f"{self.prefix}.{name}"


def renamed_step(step: Step, naming: Naming) -> Step:
    """The step on the tensors of the program around the body."""
    match step:
        case BuiltKernel():
            return _renamed(step, naming)
        case SideBySide():
            return SideBySide(tuple(_renamed(kernel, naming) for kernel in step.kernels))
        case RepeatStep():
            return replace(
                step,
                name=f"{naming.prefix}.{step.name}",
                carries=tuple(_renamed_carry(carry, naming) for carry in step.carries),
                rows=tuple(RowTensors(naming(row.whole), naming(row.row)) for row in step.rows),
                steps=tuple(renamed_step(inner, naming) for inner in step.steps),
                checks=tuple(renamed_check(check, naming) for check in step.checks),
            )


def _renamed(kernel: BuiltKernel, naming: Naming) -> BuiltKernel:
    return renamed_kernel(kernel, {tensor: naming(tensor) for tensor in _tensors(kernel)})


def renamed_check(check: CheckOutput, naming: Naming) -> CheckOutput:
    """The check with its outputs' names in the program around the body."""
    return CheckOutput(naming.name(check.failures), naming.name(check.value), check.message)


def _renamed_carry(carry: CarryTensors, naming: Naming) -> CarryTensors:
    tensors = (carry.initial, carry.before, carry.after, carry.result, carry.spare)
    return CarryTensors(*(naming(tensor) for tensor in tensors))


def _tensors(kernel: BuiltKernel) -> tuple[Tensor, ...]:
    """What the kernel touches and what its preparations read."""
    return (*kernel.tensors, *(tensor for prepare in kernel.prepares for tensor in prepare.tensors))


def kernels_of(steps: Iterable[Step]) -> Iterator[BuiltKernel]:
    """The kernels of steps in order, those of repetitions once."""
    for step in steps:
        match step:
            case BuiltKernel():
                yield step
            case SideBySide():
                yield from step.kernels
            case RepeatStep():
                yield from kernels_of(step.steps)
