"""Report.rules: which rules fired, what extraction would cost without them, turned products, streams and
bounded loops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import snell as sn
from snell.config import Config
from snell.engine.engine import Engine
from snell.engine.function import CompiledFunction
from snell.engine.report.rules import RuleLine, all_rules, rule_table
from snell.rewrite.rules import RULES


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


@pytest.fixture(scope="module")
def attention(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RuleLine]:
    """The rules of a causal attention over a long row, by name."""
    folder = tmp_path_factory.mktemp("engine")

    def attend(q, k, v):
        positions = sn.iota(1024)
        scores = sn.where(positions.reshape(1024, 1) >= positions.reshape(1, 1024), q @ k, -np.inf)
        return sn.softmax(scores, axis=-1) @ v

    engine = Engine(Config(threads=2, cache_dir=folder / "cache", data_dir=folder / "data"))
    compiled = CompiledFunction(attend, engine)
    compiled(floats(1024, 64), floats(64, 1024), floats(1024, 64))
    return {line.name: line for line in compiled.explain().rules}


def test_a_rule_that_fired_says_what_the_program_would_cost_without_it(attention: dict[str, RuleLine]):
    exp = attention["exp"]
    assert exp.applied >= 1
    assert exp.before is not None
    assert exp.after is not None
    assert exp.without is not None
    assert exp.after < exp.without <= exp.before


def test_a_rule_that_did_not_fire_is_not_listed(attention: dict[str, RuleLine]):
    assert "distribute-quantised" not in attention


def test_dependent_reductions_made_one_pass_are_a_line(attention: dict[str, RuleLine]):
    assert attention["stream"].applied == 1
    assert "1024" in attention["stream"].note


def test_turned_products_are_a_line_with_their_multiplications(tmp_path: Path):
    engine = Engine(Config(threads=2, cache_dir=tmp_path / "cache", data_dir=tmp_path / "data"))
    compiled = CompiledFunction(lambda x, a, b: x @ (a @ b), engine)
    compiled(floats(4, 96), floats(96, 160), floats(160, 128))
    (line,) = (line for line in compiled.explain().rules if line.name == "reassociate")
    assert (line.before, line.after) == (96 * 160 * 128 + 4 * 96 * 128, 4 * 160 * (96 + 128))


def test_loops_that_a_mask_bounds_are_a_line(attention: dict[str, RuleLine]):
    assert attention["bounded loop"].applied >= 1
    assert " < " in attention["bounded loop"].note


def test_the_table_has_a_row_for_each_line(attention: dict[str, RuleLine]):
    rows = rule_table(list(attention.values())).splitlines()
    assert [row.split("  ")[0] for row in rows[1:]] == list(attention)


def test_every_rule_is_listed_with_its_meaning():
    text = all_rules()
    assert [rule.name for rule in RULES if f"{rule.name} ({rule.tag.value}): {rule.meaning}" not in text] == []
