"""The text that quality is judged on: the same in every worker, long enough, cut as models' texts begin."""

from pathlib import Path

import pytest

from snell.bench.text import CONTEXT, JudgedText, windows
from snell.errors import ConfigError


def test_the_default_text_is_long_and_the_same_each_time() -> None:
    text = JudgedText().read()
    assert len(text) > 200_000
    assert text == JudgedText().read()


def test_a_worker_is_told_by_its_environment(tmp_path: Path) -> None:
    for text in (JudgedText(), JudgedText(tmp_path / "text.txt", 100)):
        assert JudgedText.from_environment({"PATH": "/bin", **text.environment()}) == text


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for file in (tmp_path / "missing", tmp_path / "binary"):
        with pytest.raises(ConfigError, match=file.name):
            JudgedText(file).read()


def test_windows_follow_each_other_and_each_begins_as_a_text_does() -> None:
    cut = windows(range(2000), [7777], 1000)
    assert [len(window) for window in cut] == [CONTEXT, CONTEXT]
    assert cut[0][:3] == [7777, 0, 1]
    assert cut[1][:2] == [7777, CONTEXT - 1]


def test_there_are_at_least_as_many_predictions_as_asked_for() -> None:
    for predictions in (1, 511, 512, 20_000):
        cut = windows(range(30_000), [], predictions)
        assert sum(len(window) - 1 for window in cut) >= predictions
        assert sum(len(window) - 1 for window in cut[:-1]) < predictions


def test_a_text_that_is_too_short_says_how_long_it_should_be() -> None:
    with pytest.raises(ConfigError, match="need a text of 1024 tokens, received one of 600"):
        windows(range(600), [], 1000)
