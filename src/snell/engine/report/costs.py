"""What kernels have to do at given sizes: floating-point operations and bytes, counted on their stages.

Bytes are the least a kernel can move: each buffer once, of a table that is looked up only the rows that are.  What masks
leave out is counted as if it were visited, but for results that no loaded index names.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass

from snell.compiler.checks import sizes_known
from snell.compiler.compile import Compilation
from snell.compiler.lowered import Lowered, RepeatStep, SideBySide
from snell.graph.graph_inputs import input_operations
from snell.graph.node import Graph
from snell.loops.build import BuiltKernel
from snell.loops.grouping import Group
from snell.loops.ir import Kernel, ReadAccumulator
from snell.loops.scatter import placed_axes
from snell.loops.stage import Stage
from snell.rewrite.cut import typical_size
from snell.rewrite.term import Cast, Index, Load, Number, Tensor, Term, walk
from snell.symbolic import Axis, Dim, as_expr

__all__ = ["KernelCost", "group_cost", "kernel_costs", "kernel_runs", "plane_bytes", "typical_sizes"]

Sizes = Mapping[Dim, int]


@dataclass(frozen=True, slots=True)
class KernelCost:
    """Of one run."""

    flops: float
    bytes: float


def typical_sizes(graph: Graph) -> dict[Dim, int]:
    """Each dim at its largest typical value; at its smallest where those would not pass the graph's checks together."""
    dims = graph.dims()
    found = {dim: int(typical_size(as_expr(dim))) for dim in dims}
    if all(known.evaluate(found) >= 0 for known in sizes_known(graph)):
        return found
    return {dim: min(dim.typical, default=dim.min) for dim in dims}


def kernel_costs(compilation: Compilation, sizes: Sizes) -> dict[Kernel, KernelCost]:
    """The cost of each distinct kernel."""
    planes = plane_bytes(compilation.lowered.graph)
    costs: dict[Kernel, KernelCost] = {}
    for group, built in _kernels_with_groups(compilation.lowered):
        if built.kernel not in costs:
            costs[built.kernel] = group_cost(group, sizes, planes)
    return costs


def group_cost(group: Group, sizes: Sizes, planes: Mapping[str, int]) -> KernelCost:
    """The cost of a group's kernel; `planes` as `plane_bytes` has them."""
    return KernelCost(_flops(group, sizes), _bytes(group, sizes, planes))


def kernel_runs(compilation: Compilation, sizes: Sizes) -> dict[Kernel, int]:
    """How often each distinct kernel runs in one execution, steps of repetitions counted."""
    runs: dict[Kernel, int] = {}

    def count(lowered: Lowered, times: int) -> None:
        for step in lowered.steps:
            if isinstance(step, RepeatStep):
                count(step.body, times * int(step.length.evaluate(sizes)))
                continue
            for built in step.kernels if isinstance(step, SideBySide) else (step,):
                runs[built.kernel] = runs.get(built.kernel, 0) + times

    count(compilation.lowered, 1)
    return runs


def plane_bytes(graph: Graph) -> dict[str, int]:
    """The bytes of a file that inputs with a storage of their own look at, by name."""
    found: dict[str, int] = {}
    for name, operation in input_operations(graph).items():
        storage = operation.storage
        if storage is not None:
            shape = [int(as_expr(size).constant) for size in operation.shape]
            last = sum((size - 1) * stride for size, stride in zip(shape, storage.strides, strict=True))
            found[name] = storage.offset + (last + operation.dtype.bits + 7) // 8
    return found


def _kernels_with_groups(lowered: Lowered) -> Iterator[tuple[Group, BuiltKernel]]:
    yield from zip(lowered.groups, lowered.own_kernels, strict=True)
    for step in lowered.repetitions():
        yield from _kernels_with_groups(step.body)


def _flops(group: Group, sizes: Sizes) -> float:
    return sum(_stage_flops(stage, sizes) for stage in group.stages)


def _stage_flops(stage: Stage, sizes: Sizes) -> float:
    """Each operation once for every point of the axes it depends on, each term of a reduction once more."""
    computed = (item for item in walk(*stage.terms()) if _is_arithmetic(item))
    placed = placed_axes(stage)

    def met(axes: Set[Axis]) -> Set[Axis]:
        return axes - placed if axes & set(stage.reduced) else axes

    work = sum(_volume(met(item.free | _accumulated(item, stage)), sizes) for item in computed)
    points = _volume(met({*stage.axes, *stage.reduced}), sizes)
    return work + points * sum(partial.body.dtype.is_float for partial in stage.partials)


def _is_arithmetic(item: Term) -> bool:
    return bool(item.args) and item.dtype.is_float and not isinstance(item.op, Load | Cast | Number | Index)


def _accumulated(item: Term, stage: Stage) -> set[Axis]:
    """A finished reduction depends on the stage's axes, which its term does not show."""
    reads = any(isinstance(below.op, ReadAccumulator) for below in walk(item))
    return set(stage.axes) if reads else set()


def _bytes(group: Group, sizes: Sizes, planes: Mapping[str, int]) -> float:
    moved: dict[Tensor, float] = {}

    def touch(tensor: Tensor, axes: Iterable[Axis]) -> None:
        whole = planes.get(tensor.name) or _size(tensor, sizes)
        moved[tensor] = max(moved.get(tensor, 0.0), min(float(whole), _volume(axes, sizes) * tensor.dtype.bits / 8))

    for stage in group.stages:
        touch(stage.tensor, stage.axes)
        for item in stage.loads():
            assert isinstance(item.op, Load)
            touch(item.op.tensor, item.free)
    return sum(size for tensor, size in moved.items() if tensor not in group.local)


def _size(tensor: Tensor, sizes: Sizes) -> float:
    return math.prod(float(as_expr(size).evaluate(sizes)) for size in tensor.shape) * tensor.dtype.bits / 8


def _volume(axes: Iterable[Axis], sizes: Sizes) -> float:
    return math.prod(float(as_expr(axis.extent).evaluate(sizes)) for axis in axes)
