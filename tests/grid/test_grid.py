"""Compiled programs equal the interpreter: a pairwise covering design of operations, dtypes, shapes, layouts, sizes.

Many cases are outputs of one program.  `python -m tests.grid.full` runs the full product.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from tests.grid.design import Case, pair_values, pairwise
from tests.grid.judge import failures
from tests.grid.known_defects import KNOWN_DEFECTS
from tests.grid.operations import ALIASES, NOT_OPERATIONS, OPERATIONS, operation_names

import snell.frontend as sn
from snell.config import Config
from snell.engine.engine import Engine

CASES_IN_ONE_PROGRAM = 16
LARGEST_DESIGN = 4000

DESIGN = pairwise()
SOUND = [case for case in DESIGN if case.label not in KNOWN_DEFECTS]
BATCHES = [SOUND[k : k + CASES_IN_ONE_PROGRAM] for k in range(0, len(SOUND), CASES_IN_ONE_PROGRAM)]
DEFECTIVE = [case for case in DESIGN if case.label in KNOWN_DEFECTS]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    folder: Path = tmp_path_factory.mktemp("grid")
    return Engine(Config(threads=2, cache_dir=folder / "cache", data_dir=folder / "data"))


def _title(batch: list[Case]) -> str:
    names = dict.fromkeys(case.operation.name.replace(" ", "_") for case in batch)
    return "+".join(itertools.islice(names, 3))


def test_the_table_holds_every_public_operation() -> None:
    assert all(getattr(sn, alias) is getattr(sn, name) for alias, name in ALIASES.items())
    public = {name for name in sn.__all__ if name not in NOT_OPERATIONS and name not in ALIASES}
    random = {f"random.{name}" for name in sn.random.__all__}
    assert (public | random) - operation_names() == set()


def test_the_design_covers_every_pair_that_exists() -> None:
    assert len(DESIGN) <= LARGEST_DESIGN
    chosen = set().union(*(pair_values(case) for case in DESIGN))
    for row in range(len(OPERATIONS)):
        assert pair_values(row) <= chosen


def test_every_known_defect_names_a_case_of_the_design() -> None:
    assert set(KNOWN_DEFECTS) <= {case.label for case in DESIGN}


@pytest.mark.parametrize("batch", BATCHES, ids=_title)
def test_compiled_equals_interpreted(batch: list[Case], engine: Engine) -> None:
    found = failures(batch, engine)
    assert not found, "\n".join(f"{failure.case.label}: {failure.reason}" for failure in found)


def test_known_defects_still_fail(engine: Engine) -> None:
    passing = [case.label for case in DEFECTIVE if not failures([case], engine)]
    assert not passing, f"these pass now; take them out of KNOWN_DEFECTS: {', '.join(passing)}"
