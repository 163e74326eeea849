"""The grouping of a program: decisions taken otherwise change what is stored, compute the same, and are kept by the clock."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.compiler.programs import lowered, spec
from tests.engine.test_confirmation import graph_of

import snell as sn
from snell.codegen.host import host_target
from snell.compiler.compile import Options, compile_graph, lower_with
from snell.compiler.lowered import SideBySide
from snell.compiler.rewriting import ProgramRewriter
from snell.config import Config
from snell.engine import grouping_search, tuning
from snell.engine.engine import Engine
from snell.engine.grouping_cost import roofline_seconds
from snell.engine.grouping_search import search_grouping
from snell.engine.report.costs import typical_sizes
from snell.engine.whole_program import WholePrograms
from snell.errors import FileFormatError, UnsupportedError
from snell.graph.node import Graph
from snell.rewrite.decisions import HEURISTIC_GROUPING, Decider, Decision, Grouping, Question, grouping_from_text
from snell.rewrite.policy import Policy
from snell.runtime.binding import bind
from snell.runtime.pool import process_pool
from snell.search.groupings import GroupingRecord, Groupings, GroupingTrial

ROWS, THREADS = 96, 2


def branches(x: sn.Tensor, w: sn.Tensor, v: sn.Tensor) -> tuple[sn.Tensor, sn.Tensor]:
    """An expensive value with two readers, and a finished product with an epilogue."""
    shared = sn.exp(sn.sin(x))
    return sn.softmax(shared @ w, axis=-1) @ v, shared * 2.0 + x


def graph() -> Graph:
    return graph_of(branches, spec(ROWS, 64), spec(64, 128), spec(128, 32))


def options(grouping: Grouping = HEURISTIC_GROUPING) -> Options:
    return Options(host_target(), THREADS, grouping=grouping)


def decisions() -> tuple[Decision, ...]:
    listening = Decider(listens=True)
    lower_with(graph(), options(), ProgramRewriter(Policy.DEFAULT), listening)
    return listening.asked


def results(grouping: Grouping) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    arrays = [generator.standard_normal(shape, np.float32) for shape in ((ROWS, 64), (64, 128), (128, 32))]
    executable = bind(compile_graph(graph(), options(grouping)).assembled, {}, process_pool(THREADS))
    return [np.asarray(result) for result in executable(*arrays)]


def test_a_grouping_reads_back_from_its_text() -> None:
    grouping = Grouping((Decision(Question.STORE, "0a1b", False), Decision(Question.SHARE, "ff", True)))
    assert str(grouping) == "store 0a1b no\nshare ff yes"
    assert grouping_from_text(str(grouping)) == grouping


@pytest.mark.parametrize("text", ["store 0a1b", "keep 0a1b no", "store 0a1b maybe"])
def test_a_text_that_is_no_grouping_is_refused(text: str) -> None:
    with pytest.raises(FileFormatError, match="decision"):
        grouping_from_text(text)


def test_what_is_stored_and_what_joins_are_asked() -> None:
    assert {decision.question for decision in decisions()} >= {Question.STORE, Question.JOIN}


def test_every_decision_taken_otherwise_computes_the_same() -> None:
    expected = results(Grouping())
    for decision in decisions():
        for one, other in zip(results(Grouping((decision.opposite,))), expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_equal_layers_are_one_subject() -> None:
    def layers(x: sn.Tensor, w: sn.Tensor) -> sn.Tensor:
        for _ in range(4):
            shared = sn.exp(sn.sin(x @ w))
            x = sn.softmax(shared, axis=-1) + shared * 0.5
        return x

    deep = graph_of(layers, spec(ROWS, 64), spec(64, 64))
    listening = Decider(listens=True)
    lower_with(deep, options(), ProgramRewriter(Policy.DEFAULT), listening)
    kernels = len(lower_with(deep, options(), ProgramRewriter(Policy.DEFAULT), Decider())[0].kernels)
    apart = [d for d in listening.asked if d.question is Question.JOIN and d.answer]
    counts = [
        len(lower_with(deep, options(), ProgramRewriter(Policy.DEFAULT), Decider(Grouping((d.opposite,))))[0].kernels)
        for d in apart
    ]
    assert max(counts) >= kernels + 3


def test_a_value_worked_out_again_costs_more_operations_than_one_that_is_stored() -> None:
    stored = next(d for d in decisions() if d.question is Question.STORE and d.answer)
    sizes = typical_sizes(graph())
    costs = [
        roofline_seconds(
            lower_with(graph(), options(), ProgramRewriter(Policy.DEFAULT), decide)[0], host_target(), 2, sizes
        )
        for decide in (Decider(), Decider(Grouping((stored.opposite,))))
    ]
    assert costs[0] != costs[1]


def test_a_search_keeps_what_the_clock_prefers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WholePrograms, "ratio", lambda *_: 0.9)
    monkeypatch.setattr(grouping_search, "_WORST", 10.0)
    found = search_grouping(graph(), options(), process_pool(THREADS), 60.0)
    assert found.trials
    assert found.ratio == pytest.approx(0.9 ** len(found.grouping.decisions))
    assert [t.decision for t in found.trials if t.kept] == [str(d) for d in found.grouping.decisions]


def test_a_search_keeps_nothing_that_is_not_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WholePrograms, "ratio", lambda *_: 1.0)
    found = search_grouping(graph(), options(), process_pool(THREADS), 60.0)
    assert (found.grouping, found.ratio) == (Grouping(), 1.0)


def test_a_later_search_goes_on_where_the_one_before_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WholePrograms, "ratio", lambda *_: 1.0)
    first = search_grouping(graph(), options(), process_pool(THREADS), 60.0)
    again = search_grouping(graph(), options(), process_pool(THREADS), 60.0, first)
    assert len({trial.decision for trial in again.trials}) == len(again.trials) >= len(first.trials)


def test_another_result_is_rejected_however_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WholePrograms, "ratio", lambda *_: 0.1)
    monkeypatch.setattr(grouping_search, "_agree", lambda *_: False)
    found = search_grouping(graph(), options(), process_pool(THREADS), 60.0)
    assert {trial.measured for trial in found.trials} == {None}
    assert found.grouping == Grouping()


def test_compiling_uses_the_recorded_grouping(tmp_path: Path) -> None:
    engine = Engine(Config(cache_dir=tmp_path, data_dir=tmp_path, threads=THREADS))
    before = engine.compile(graph())
    decision = next(d for d in decisions() if d.question is Question.JOIN and d.answer).opposite
    record = GroupingRecord(Grouping((decision,)), 0.9, (GroupingTrial(str(decision), 1.0, 0.9, True),))
    engine.groupings.put(engine.key(graph(), Policy.DEFAULT), record)
    assert tuning.recorded_grouping(engine, graph(), Policy.DEFAULT) == record.grouping
    assert len(engine.compile(graph()).lowered.kernels) > len(before.lowered.kernels)
    assert str(decision) in str(engine.explain(graph()))


def test_a_damaged_record_is_dropped(tmp_path: Path) -> None:
    groupings = Groupings(tmp_path, 1 << 20)
    groupings.put("program", GroupingRecord(Grouping((Decision(Question.JOIN, "aa", True),)), 0.5))
    (entry,) = (path for path in tmp_path.rglob("*") if path.is_file())
    entry.write_bytes(entry.read_bytes()[:-2])
    assert groupings.get("program") is None


def test_products_of_one_operand_share_a_dispatch() -> None:
    def three(x: sn.Tensor, a: sn.Tensor, b: sn.Tensor, c: sn.Tensor) -> tuple[sn.Tensor, ...]:
        return x @ a, x @ b, x @ c

    shapes = spec(32, 384), spec(384, 384), spec(384, 384), spec(384, 128)
    (step,) = lowered(three, *shapes).steps
    assert isinstance(step, SideBySide)
    assert len(step.kernels) == 3


def test_kernels_that_wait_for_each_other_do_not_share_a_dispatch() -> None:
    def chained(x: sn.Tensor, a: sn.Tensor, b: sn.Tensor) -> sn.Tensor:
        return x @ a @ b

    steps = lowered(chained, spec(256, 384), spec(384, 384), spec(384, 384), policy=Policy.STRICT).steps
    assert not any(isinstance(step, SideBySide) for step in steps)


def test_a_program_that_would_store_gigabytes_is_refused_before_it_runs() -> None:
    def scores(x: sn.Tensor) -> sn.Tensor:
        products = x @ x.T
        return sn.cumsum(products, axis=1) * sn.sum(products)

    big = graph_of(scores, spec(1 << 15, 2))
    programs = WholePrograms(big, typical_sizes(big), process_pool(THREADS), 0.0)
    with pytest.raises(UnsupportedError, match="intermediate"):
        programs.bound(compile_graph(big, options()).assembled)
