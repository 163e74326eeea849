"""A group as text: all that its kernel depends on, for keys and for reading."""

from __future__ import annotations

from collections.abc import Iterable

from snell.loops.grouping import Group
from snell.loops.stage import Stage
from snell.loops.text import show_expression, show_term
from snell.rewrite.term import Load, Tensor
from snell.symbolic import Axis, Dim, Expr, as_expr

__all__ = ["group_text"]


def group_text(group: Group) -> str:
    """One line for each dim, axis, tensor and stage; equal for equal groups, different for different ones."""
    axes = list(dict.fromkeys(axis for stage in group.stages for axis in (*stage.axes, *stage.reduced)))
    tensors = list(dict.fromkeys(tensor for stage in group.stages for tensor in _tensors(stage)))
    lines = [f"dim {d.name} {d.min}..{d.max} {d.multiple} {d.typical}" for d in _dims(axes, tensors)]
    lines += [f"axis {axis.name} {show_expression(as_expr(axis.extent))}" for axis in axes]
    lines += [_tensor(tensor, tensor in group.local) for tensor in tensors]
    lines.append(f"outer {_names(group.outer)}")
    if group.blocks is not None:
        steps = ", ".join(f"{axis.name}:{step}" for axis, step in group.blocks.levels)
        pieces = f" pieces {group.blocks.pieces[0].name}:{group.blocks.pieces[1]}" if group.blocks.pieces else ""
        lines.append(f"blocks {steps} stages {group.blocks.start}:{group.blocks.stop}{pieces}")
    return "\n".join([*lines, *map(_stage, group.stages)])


def _tensors(stage: Stage) -> list[Tensor]:
    return [*(item.op.tensor for item in stage.loads() if isinstance(item.op, Load)), stage.tensor]


def _dims(axes: Iterable[Axis], tensors: Iterable[Tensor]) -> list[Dim]:
    sizes = [*(axis.extent for axis in axes), *(size for tensor in tensors for size in tensor.shape)]
    return sorted({dim for size in sizes for dim in as_expr(size).dims()}, key=lambda dim: dim.name)


def _tensor(tensor: Tensor, local: bool) -> str:
    marks = " frozen" * tensor.frozen + " local" * local
    storage = "" if tensor.storage is None else f" storage {tensor.storage.offset} {tensor.storage.strides}"
    return f"tensor {tensor.name} {tensor.dtype}[{_list(tensor.shape)}]{storage}{marks}"


def _stage(stage: Stage) -> str:
    lines = [f"{stage.tensor.name}[{_list(stage.indices)}] = {show_term(stage.value)} over ({_names(stage.axes)})"]
    for partial in stage.partials:
        kind = partial.accumulator
        body = show_term(partial.body)
        lines.append(f"  {kind.name} {kind.combine.value} {kind.dtype} ({_names(stage.reduced)}) {body}")
    return "\n".join(lines)


def _names(axes: Iterable[Axis]) -> str:
    return ", ".join(axis.name for axis in axes)


def _list(sizes: Iterable[int | Expr]) -> str:
    return ", ".join(show_expression(as_expr(size)) for size in sizes)
