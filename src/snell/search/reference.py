"""What a kernel has to compute, worked out from its stages' definitions in float64, on the operands that trials use.

Nothing here has seen a schedule: `rewrite.evaluate` gives the definitions their meaning, so a fault that the first kernel
and every candidate share shows too.  The axes that a group's stages walk together (all data axes of a lone stage) are
taken at a sample of positions, the first and the last among them; the rest of each stage is evaluated whole.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from snell.dtypes import i64
from snell.errors import CompileError
from snell.graph.planes import unpacked
from snell.loops.grouping import Group
from snell.loops.retarget import Parts, split_stage
from snell.loops.stage import Stage, definition_of
from snell.rewrite.evaluate import evaluate
from snell.rewrite.term import Load, Tensor, index, load
from snell.search.arrays import Array, operands, shape_at
from snell.search.candidate import Candidate, read_buffers
from snell.symbolic import Axis, Dim, Opaque, as_expr

__all__ = ["Expected", "expected_values"]

_SAMPLES = 64
_MOST_POINTS = 2_000_000.0  # of a sample's iteration space: about 0.2 s
_MOST_VALUES = 256
_MOST_BYTES = 128 << 20  # of operands, whose numbers have to be drawn
_MOST_FIELDS = 4 << 20  # of an operand that has to be decoded


@dataclass(frozen=True, slots=True)
class Expected:
    """Values of one result: the buffer's name, their places in its memory, and what belongs there."""

    buffer: str
    places: tuple[int, ...]
    values: tuple[float, ...]


def expected_values(group: Group, candidate: Candidate, sizes: Mapping[str, int]) -> tuple[Expected, ...]:
    """A sample of what a canonical group's kernel has to write; nothing where one position alone is too much work."""
    known = {dim: sizes[dim.name] for stage in group.stages for dim in _dims(stage)}
    walked = group.outer or group.stages[0].axes
    count = min(_SAMPLES, int(_MOST_POINTS / _points(group, walked, known)))
    if not count or any(_extent(axis, known) == 0 for axis in walked) or _is_large(group, candidate, sizes):
        return ()
    tensors = _read(group, candidate, sizes)
    sample = Axis("sample", count)
    parts = _sampled(walked, sample, known, tensors)
    found: list[Expected] = []
    try:
        for stage in group.stages:
            places = _evaluated(split_stage(stage, parts), sample, tensors, known)
            if stage.tensor.name in candidate.writes:
                found.append(_expected(stage.tensor, tensors[stage.tensor.name], places))
    except CompileError:  # random operands lead a lookup outside of its table: no results to compare
        return ()
    return tuple({item.buffer: item for item in found}.values())


def _dims(stage: Stage) -> set[Dim]:
    """The dims of a stage's axes and tensors, and of its terms."""
    shapes = [size for tensor in (*stage.reads(), stage.tensor) for size in tensor.shape]
    extents = [axis.extent for axis in (*stage.axes, *stage.reduced)]
    places = [e for item in stage.loads() if isinstance(item.op, Load) for e in (*item.op.indices, *item.op.guards)]
    return {dim for size in (*shapes, *extents, *places) for dim in as_expr(size).dims()}


def _points(group: Group, walked: Sequence[Axis], known: Mapping[Dim, int]) -> float:
    """Points of all stages at one position of the axes walked together."""
    inner = ([axis for axis in (*stage.axes, *stage.reduced) if axis not in walked] for stage in group.stages)
    return sum(math.prod(float(max(1, _extent(axis, known))) for axis in axes) for axes in inner)


def _extent(axis: Axis, known: Mapping[Dim, int]) -> int:
    return int(as_expr(axis.extent).evaluate(known))


def _is_large(group: Group, candidate: Candidate, sizes: Mapping[str, int]) -> bool:
    """Whether drawing or decoding the operands takes longer than the check is worth."""
    read = [(buffer, math.prod(shape_at(buffer, sizes))) for buffer in read_buffers(candidate)]
    fields = max((count for buffer, count in read if buffer.tensor.storage is not None), default=0)
    return sum(count * buffer.dtype.itemsize for buffer, count in read) > _MOST_BYTES or fields > _MOST_FIELDS


def _read(group: Group, candidate: Candidate, sizes: Mapping[str, int]) -> dict[str, Array]:
    """The operands of a trial in their tensors' shapes, those in bytes of a file decoded."""
    drawn = operands(read_buffers(candidate), sizes)
    known = {dim: sizes[dim.name] for stage in group.stages for dim in _dims(stage)}
    found: dict[str, Array] = {}
    for tensor in {t for stage in group.stages for t in stage.reads() if t.name in drawn}:
        shape = tuple(int(as_expr(size).evaluate(known)) for size in tensor.shape)
        if tensor.storage is None:
            found[tensor.name] = drawn[tensor.name].reshape(shape)
        else:
            found[tensor.name] = unpacked(drawn[tensor.name], tensor.storage, shape, tensor.dtype)
    return found


def _sampled(
    walked: Sequence[Axis], sample: Axis, known: Mapping[Dim, int], tensors: dict[str, Array]
) -> dict[Axis, Parts]:
    """Each walked axis as a lookup in a table of positions, which joins the tensors."""
    generator = np.random.default_rng(1)
    parts: dict[Axis, Parts] = {}
    for number, axis in enumerate(walked):
        length = _extent(axis, known)
        positions = generator.integers(0, length, int(as_expr(sample.extent).constant))
        positions[0], positions[-1] = 0, length - 1
        table = Tensor(f"positions {number}", (sample.extent,), i64)
        tensors[table.name] = positions
        key = load(table, (as_expr(sample),))
        parts[axis] = (), as_expr(Opaque(key, 0, length - 1, key.free))
    return parts


def _evaluated(stage: Stage, sample: Axis, tensors: dict[str, Array], known: Mapping[Dim, int]) -> list[Array]:
    """Store a stage's values at the sample; the index arrays of where they are."""
    axes = (sample, *stage.axes)
    values = evaluate(definition_of(stage).value, axes, tensors, known)
    places = [evaluate(index(expression), axes, tensors, known) for expression in stage.indices]
    name, shape = stage.tensor.name, [int(as_expr(size).evaluate(known)) for size in stage.tensor.shape]
    stored = tensors[name] = tensors.get(name, np.zeros(shape, values.dtype))
    stored[tuple(places)] = values if places else values.reshape(-1)[0]
    return places


def _expected(tensor: Tensor, values: Array, places: Sequence[Array]) -> Expected:
    flat: Any = np.ravel_multi_index(tuple(map(np.ravel, places)), values.shape) if places else np.zeros(1, np.int64)
    chosen = np.random.default_rng(2).permutation(np.unique(flat))[:_MOST_VALUES]
    with np.errstate(over="ignore"):
        rounded = values.reshape(-1)[chosen].astype(tensor.dtype.numpy).astype(np.float64)
    return Expected(tensor.name, tuple(map(int, chosen)), tuple(map(float, rounded)))
