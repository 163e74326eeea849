"""Plans: what a search has decided about a group's schedule; what a plan leaves open the heuristics decide.

A plan names axes by their place among a stage's axes (data axes first, then reduced ones), so that it fits every group
that differs only in names.  It is plain data: `to_data` and `from_data` are what a record keeps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from snell.errors import CompileError, FileFormatError

__all__ = ["HEURISTICS", "Plan", "StageChoice", "TileChoice", "plan_from_data", "plan_to_data"]


@dataclass(frozen=True, slots=True)
class TileChoice:
    """A register tile: the places of the vector and the unrolled axis, whether operands are packed, and the counts."""

    vector: int
    unrolled: int | None
    packs: bool
    vectors: int
    count: int
    chains: int


@dataclass(frozen=True, slots=True)
class StageChoice:
    """Levels of one stage: its tile, the positions of a pass (0: no passes), rows and columns of a ticket, and whether
    tickets copy operands for themselves."""

    tile: TileChoice | None = None
    passes: int | None = None
    rows: int | None = None
    columns: int | None = None
    own_copies: bool | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A choice for each stage (none given: all by heuristics), rows that a group walks together, positions of a block."""

    stages: tuple[StageChoice, ...] = ()
    rows: int | None = None
    block: int | None = None

    def stage(self, place: int) -> StageChoice:
        """The choice for a stage; CompileError where the plan is one of another group."""
        if not self.stages:
            return _OPEN
        if place >= len(self.stages):
            raise CompileError(f"the plan has choices for {len(self.stages)} stages, stage {place} was asked for")
        return self.stages[place]


_OPEN = StageChoice()
HEURISTICS = Plan()


def plan_to_data(plan: Plan) -> dict[str, Any]:
    """The plan as JSON has it."""
    return asdict(plan)


def plan_from_data(data: Mapping[str, Any]) -> Plan:
    """The plan of `plan_to_data`; FileFormatError for anything else."""
    try:
        stages = tuple(_stage(item) for item in data["stages"])
        return Plan(stages, _count(data["rows"]), _count(data["block"]))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise FileFormatError(f"expected a plan, received {data!r}: {error}") from error


def _stage(data: Mapping[str, Any]) -> StageChoice:
    tile = data["tile"]
    own = data["own_copies"]
    if own is not None and not isinstance(own, bool):
        raise ValueError(f"own_copies is {own!r}")
    return StageChoice(
        None if tile is None else _tile(tile), _count(data["passes"], 0), _count(data["rows"]),
        _count(data["columns"]), own,
    )  # fmt: skip


def _tile(data: Mapping[str, Any]) -> TileChoice:
    counts = [_count(data[name]) or 1 for name in ("vectors", "count", "chains")]
    vector = _count(data["vector"], 0)
    if vector is None:
        raise ValueError("a tile without vector axis")
    return TileChoice(vector, _count(data["unrolled"], 0), bool(data["packs"]), *counts)


def _count(value: Any, least: int = 1) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{value!r} is no count")
    return value
