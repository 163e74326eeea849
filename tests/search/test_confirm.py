"""Confirmation: plans that do not help the whole program are taken back, and only those."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from snell.search.confirm import confirm


def clock(effects: Mapping[str, float], together: float = 1.0) -> Callable[[frozenset[str], frozenset[str]], float]:
    """A program whose time is the product of its winners' ratios, and of `together` where all of them are in it."""

    def seconds(winners: frozenset[str]) -> float:
        total = together if len(winners) == len(effects) else 1.0
        for winner in winners:
            total *= effects[winner]
        return total

    return lambda one, other: seconds(one) / seconds(other)


def always() -> bool:
    return True


def test_winners_that_help_together_are_kept() -> None:
    found = confirm(["a", "b"], 0.72, clock({"a": 0.9, "b": 0.8}), always)
    assert found is not None
    assert (round(found.ratio, 3), found.taken_back) == (0.72, frozenset())


def test_a_winner_that_makes_the_whole_slower_is_taken_back() -> None:
    found = confirm(["a", "b", "c"], 0.6, clock({"a": 0.9, "b": 1.3, "c": 0.8}), always)
    assert found is not None
    assert (round(found.ratio, 3), found.taken_back) == (0.72, {"b"})


def test_winners_of_which_none_can_be_left_out_and_that_do_not_help_are_all_taken_back() -> None:
    found = confirm(["a"], 0.8, clock({"a": 1.02}), always)
    assert found is not None
    assert (found.ratio, found.taken_back) == (1.0, {"a"})


def test_without_time_nothing_is_said_or_taken_back() -> None:
    assert confirm(["a"], 0.8, clock({"a": 0.8}), lambda: False) is None
    assert confirm([], 1.0, clock({}), always) is None


def test_when_time_runs_out_the_first_comparison_counts() -> None:
    answers = iter([True, False])
    found = confirm(["a", "b"], 0.5, clock({"a": 0.7, "b": 1.1}), lambda: next(answers))
    assert found is not None
    assert (round(found.ratio, 3), found.taken_back) == (0.77, frozenset())
