"""Records: kept whole or not at all, the best one stays, and every change shows."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from snell.loops.plan import Plan, StageChoice
from snell.runtime.ledger import Ledger
from snell.search.records import Record, Records

PLAN = Plan((StageChoice(columns=64),))


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(tmp_path / "records", 1 << 20)


def ledger(records: Records) -> Ledger:
    return Ledger(records.folder, 1 << 20)


def test_what_was_put_is_found_by_another_process(records: Records) -> None:
    records.put("key", Record(PLAN, 0.8, 1e-3, 5))
    assert Records(records.folder, 1 << 20).get("key") == Record(PLAN, 0.8, 1e-3, 5)
    assert records.get("other") is None


def test_a_better_record_stays(records: Records) -> None:
    best = Record(PLAN, 0.7, 1e-3, 5)
    records.put("key", best)
    records.put("key", Record(Plan(), 0.9, 1e-3, 9))
    assert records.get("key") == best


def test_the_stamp_changes_with_records_and_not_with_reading(records: Records) -> None:
    seen = [ledger(records).stamp()]
    assert seen == [""]
    for ratio in (0.9, 0.8):
        records.put("key", Record(PLAN, ratio, 1e-3, 5))
        seen.append(ledger(records).stamp())
    records.drop("key")
    assert len({*seen, ledger(records).stamp()}) == 3  # no record is as none ever was
    records.put("key", Record(PLAN, 0.9, 1e-3, 5))
    stamp = ledger(records).stamp()
    records.get("key")
    assert ledger(records).stamp() == stamp


@pytest.mark.parametrize("damage", [b"", b"snell cache 1\n", b"x" * 200])
def test_a_damaged_record_is_dropped(records: Records, damage: bytes) -> None:
    records.put("key", Record(PLAN, 0.9, 1e-3, 5))
    (path,) = (path for path in records.folder.rglob("*") if path.is_file())
    path.write_bytes(damage)
    assert records.get("key") is None
    records.put("key", Record(PLAN, 0.95, 1e-3, 5))
    assert records.get("key") == Record(PLAN, 0.95, 1e-3, 5)


def test_a_program_owes_what_it_has_not_been_searched_for(tmp_path: Path) -> None:
    records = Ledger(tmp_path / "records", 1 << 20)
    assert not records.owes("program", "off")
    assert records.owes("program", 10)
    records.spend("program", 10)
    assert not records.owes("program", 10)
    assert records.owes("program", 11)
    assert records.owes("program", "full")
    records.spend("program", math.inf)
    assert not records.owes("program", "full")
