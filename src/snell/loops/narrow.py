"""Narrow products: long sums of products of wide values, computed from narrower ones where precision is given up for speed.

    y[i, j] = Σ_k x[i, k]·w[k, j]   →   x' = bf16(x);   y[i, j] = Σ_k f32(x'[i, k])·f32(bf16(w[k, j]))

It is done where the target has an instruction for the narrower products.  Sums stay wide.  A weight is rounded when it is
packed, once.  What a stage makes is stored as the narrower type where every reader would round it, and rounded into a
tensor beside it else.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from snell.dtypes import DType
from snell.graph.primitives import Mul
from snell.loops.ir import Combine
from snell.loops.stage import Partial, Stage, map_term
from snell.rewrite.cut import typical_size
from snell.rewrite.term import Cast, Load, Tensor, Term, load, term
from snell.symbolic import Axis, as_expr
from snell.targets import GroupedProduct, Target

__all__ = ["narrow_products"]

_LONG = 32.0  # terms of a sum from which rounding the operands first pays


def narrow_products(stages: Sequence[Stage], kept: Collection[Tensor], target: Target) -> list[Stage]:
    """The stages with narrower operands of long products; `kept` tensors are stored as they are."""
    rows = {row.accumulator: row for row in target.products if row.left == row.right and row.left.is_float}
    found = {stage.tensor: row for stage in stages if (row := _row(stage, rows)) is not None}
    if not found:
        return list(stages)
    wanted = {t: found[stage.tensor].left for stage in stages if stage.tensor in found for t in _factors(stage)}
    replaced = _only_narrow(stages, found, kept, wanted)
    return [_narrowed(stage, found, wanted, replaced) for stage in _rounded(stages, wanted, replaced)]


def _row(stage: Stage, rows: Mapping[DType, GroupedProduct]) -> GroupedProduct | None:
    """The instruction for a stage that adds up products of two loaded values of the sum's own dtype."""
    if len(stage.partials) != 1 or math.prod(typical_size(axis.extent) for axis in stage.reduced) < _LONG:
        return None
    (partial,) = stage.partials
    body, accumulator = partial.body, partial.accumulator
    if accumulator.combine is not Combine.SUM or not isinstance(body.op, Mul):
        return None
    loads = all(
        isinstance(x.op, Load) and x.dtype == accumulator.dtype and x.op.tensor.storage is None for x in body.args
    )
    return rows.get(accumulator.dtype) if loads and _has_reuse(stage, body) else None


def _has_reuse(stage: Stage, body: Term) -> bool:
    """Whether both factors are used by many results: a product that reads each once is as fast as memory."""
    return all(any(stage.extent(axis) > 1 and axis not in factor.free for axis in stage.axes) for factor in body.args)


def _factors(stage: Stage) -> list[Tensor]:
    return [x.op.tensor for x in stage.partials[0].body.args if isinstance(x.op, Load)]


def _only_narrow(
    stages: Sequence[Stage],
    found: Mapping[Tensor, GroupedProduct],
    kept: Collection[Tensor],
    wanted: Mapping[Tensor, DType],
) -> dict[Tensor, Tensor]:
    """Tensors that a stage makes and only narrow products read → the narrower tensor that is stored instead."""
    made = {stage.tensor for stage in stages if stage.tensor not in kept}
    for stage in stages:
        own = set(_factors(stage)) if stage.tensor in found else set[Tensor]()
        made -= {item.op.tensor for item in stage.loads() if isinstance(item.op, Load)} - own
    return {t: replace(t, dtype=wanted[t]) for t in wanted if t in made}


def _rounded(stages: Sequence[Stage], wanted: Mapping[Tensor, DType], replaced: Mapping[Tensor, Tensor]) -> list[Stage]:
    """The stages, and after what makes a tensor that others read too one that rounds it; inputs are rounded first."""
    made = {stage.tensor for stage in stages}
    beside = {
        t: replace(t, name=f"{t.name}.{d}", dtype=d) for t, d in wanted.items() if t not in replaced and not t.frozen
    }
    result = [_rounding(t, narrow) for t, narrow in beside.items() if t not in made]
    for stage in stages:
        result.append(stage)
        if stage.tensor in beside:
            result.append(_rounding(stage.tensor, beside[stage.tensor]))
    return result


def _rounding(wide: Tensor, narrow: Tensor) -> Stage:
    axes = tuple(Axis(f"{narrow.name}_{k}", size) for k, size in enumerate(wide.shape))
    places = tuple(as_expr(axis) for axis in axes)
    return Stage(narrow, axes, places, (), (), term(Cast(), (load(wide, places),), narrow.dtype))


def _narrowed(
    stage: Stage,
    found: Mapping[Tensor, GroupedProduct],
    wanted: Mapping[Tensor, DType],
    replaced: Mapping[Tensor, Tensor],
) -> Stage:
    """The stage reading rounded factors, and storing a rounded result where that is what all its readers want."""
    if stage.tensor in found:
        (partial,) = stage.partials
        body = map_term(partial.body, lambda item: _read_narrow(item, wanted, replaced))
        stage = replace(stage, partials=(Partial(partial.accumulator, body),))
    narrow = replaced.get(stage.tensor)
    if narrow is None:
        return stage
    return replace(stage, tensor=narrow, value=term(Cast(), (stage.value,), narrow.dtype))


def _read_narrow(item: Term, wanted: Mapping[Tensor, DType], replaced: Mapping[Tensor, Tensor]) -> Term | None:
    if not isinstance(item.op, Load):
        return None
    wide, dtype = item.op.tensor, wanted[item.op.tensor]
    if wide.frozen:
        return term(Cast(), (term(Cast(), (item,), dtype),), item.dtype)
    narrow = replaced.get(wide) or replace(wide, name=f"{wide.name}.{dtype}", dtype=dtype)
    return term(Cast(), (load(narrow, item.op.indices, item.op.guards),), item.dtype)
