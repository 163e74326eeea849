"""The space of plans of a group: every choice that its stages leave open, ranked lists of tiles, and mutations.

A gene is one field of the plan with its possible values; a plan takes a value or None (the heuristics') for each.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from snell.loops.fused import placed_stages, row_block
from snell.loops.grouping import Group
from snell.loops.merge import merge_axes
from snell.loops.own_kernel import has_own_kernel
from snell.loops.plan import Plan, StageChoice
from snell.loops.stage import Stage
from snell.loops.tile import choose_tile, possible_tiles
from snell.rewrite.cut import typical_size, typical_volume
from snell.symbolic import Axis
from snell.targets import Target

__all__ = ["Space", "stage_volume"]

_TILES = 48  # of a stage, the cheapest by the model
_PASSES = (0, 8, 16, 32, 64, 128, 192, 256, 384, 512, 768, 1024, 2048)
_TIMES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
_ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_BLOCKS = (32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)


@dataclass(frozen=True, slots=True)
class _Gene:
    """One field of a stage's choice (`stage` None: of the plan), its values, and how much of the work it is about."""

    stage: int | None
    field: str
    values: tuple[Any, ...]
    weight: float


class Space:
    """All plans of a canonical group on a target."""

    def __init__(self, group: Group, target: Target) -> None:
        self._group = group
        self.stages = () if _is_settled(group, target) else _scheduled(group, target)
        total = sum(map(stage_volume, self.stages)) or 1.0
        self._genes: list[_Gene] = []
        for place, stage in enumerate(self.stages):
            weight = stage_volume(stage) / total
            self._genes += _genes(stage, place, target, weight, grouped=len(self.stages) > 1)
        if len(self.stages) > 1:
            self._genes += _group_genes(group)
        self._genes = [gene for gene in self._genes if gene.values]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to choose."""
        return not self._genes

    def neighbours(self) -> Iterator[Plan]:
        """Plans that differ from the heuristics in one gene: the values most likely to matter first."""
        order = sorted(self._genes, key=lambda gene: -gene.weight)
        for rank in range(max((len(gene.values) for gene in order), default=0)):
            for gene in order:
                if rank < len(gene.values) and gene.weight >= 0.05:
                    yield self._with(self._open(), gene, gene.values[rank])

    def mutated(self, plan: Plan, generator: random.Random) -> Plan:
        """The plan with one to three genes drawn anew."""
        weights = [0.1 + gene.weight for gene in self._genes]
        for gene in generator.choices(self._genes, weights, k=generator.choice((1, 1, 2, 3))):
            value = generator.choice((None, *gene.values)) if gene.field != "tile" else _near_best(gene, generator)
            plan = self._with(plan, gene, value)
        return plan

    def crossed(self, one: Plan, other: Plan, generator: random.Random) -> Plan:
        """Each gene from either."""
        plan = self._whole(one)
        for gene in self._genes:
            if generator.random() < 0.5:
                plan = self._with(plan, gene, _value(self._whole(other), gene))
        return plan

    def _open(self) -> Plan:
        return Plan(tuple(StageChoice() for _ in self.stages))

    def _whole(self, plan: Plan) -> Plan:
        return plan if plan.stages else replace(self._open(), rows=plan.rows, block=plan.block)

    def _with(self, plan: Plan, gene: _Gene, value: Any) -> Plan:
        whole = self._whole(plan)
        if gene.stage is None:
            return replace(whole, **{gene.field: value})
        choices = list(whole.stages)
        choices[gene.stage] = replace(choices[gene.stage], **{gene.field: value})
        return replace(whole, stages=tuple(choices))


def stage_volume(stage: Stage) -> float:
    """Points of a stage's iteration space, at typical sizes."""
    return typical_volume({*stage.axes, *stage.reduced})


def _is_settled(group: Group, target: Target) -> bool:
    """Whether the kernel has a form of its own, which no plan changes."""
    return len(group.stages) == 1 and has_own_kernel(group.stages[0], target)


def _scheduled(group: Group, target: Target) -> tuple[Stage, ...]:
    """The stages as they are scheduled: one alone with merged axes, those of a group inside its outer levels."""
    if len(group.stages) == 1:
        return (merge_axes(group.stages[0])[0],)
    fixed = (*((axis, 1) for axis in group.outer[:-1]), (group.outer[-1], row_block(group, target)))
    return tuple(placed_stages(group, fixed))


def _genes(stage: Stage, place: int, target: Target, weight: float, grouped: bool) -> Iterator[_Gene]:
    if any(axis.extent == 0 for axis in stage.axes):
        return
    ranked = sorted(possible_tiles(stage, target), key=lambda item: item[0])
    yield _Gene(place, "tile", tuple(tile for _, tile in ranked[:_TILES]), weight)
    if grouped:
        return
    tile = choose_tile(stage, target)
    width = tile.lanes * tile.vectors
    if not stage.partials:
        yield _Gene(place, "columns", tuple(1024 * n for n in (1, 2, 4, 8, 16, 32, 64)), weight / 2)
        return
    longest = max(map(stage.extent, stage.reduced))
    if stage.holds_sums:
        yield _Gene(place, "passes", tuple(n for n in _PASSES if n < longest), weight / 2)
    for field, axis, unit in (("rows", tile.unrolled, tile.count), ("columns", tile.vector, width)):
        if axis is not None and axis not in stage.reduced:
            yield _Gene(place, field, _multiples(stage, axis, unit), weight / 2)
    if tile.packed:
        yield _Gene(place, "own_copies", (True, False), weight / 2)


def _multiples(stage: Stage, axis: Axis, unit: int) -> tuple[int, ...]:
    extent = stage.extent(axis)
    return tuple(unit * n for n in _TIMES if unit * (n - 1) < extent)


def _group_genes(group: Group) -> Iterator[_Gene]:
    extent = typical_size(group.outer[-1].extent)
    yield _Gene(None, "rows", tuple(n for n in _ROWS if n <= extent), 1.0)
    if group.blocks is not None:
        longest = typical_size(group.blocks.levels[-1][0].extent)
        yield _Gene(None, "block", tuple(n for n in _BLOCKS if n < longest), 1.0)


def _near_best(gene: _Gene, generator: random.Random) -> Any:
    """A tile, those that the model finds cheap more often."""
    return gene.values[min(int(generator.expovariate(6.0 / len(gene.values))), len(gene.values) - 1)]


def _value(plan: Plan, gene: _Gene) -> Any:
    return getattr(plan if gene.stage is None else plan.stages[gene.stage], gene.field)
