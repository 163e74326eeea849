"""Text becomes tokens and windows whose targets are the tokens that follow."""

from __future__ import annotations

import numpy as np
import pytest

from snell.errors import ConfigError, OutOfRangeError, ShapeError
from snell.train.data import ByteVocabulary, CharacterVocabulary, DataLoader, TextWindows


@pytest.mark.parametrize("text", ["", "to be", "Grüße, 世界 🌍"])
def test_a_text_comes_back_from_its_tokens(text: str) -> None:
    for vocabulary in (ByteVocabulary(), CharacterVocabulary.of(text + "x")):
        tokens = vocabulary.encode(text)
        assert vocabulary.decode(tokens) == text
        assert all(0 <= token < vocabulary.size for token in tokens)


def test_characters_are_numbered_in_their_order() -> None:
    vocabulary = CharacterVocabulary.of("banana")
    assert vocabulary.characters == "abn"
    assert vocabulary.encode("nab").tolist() == [2, 0, 1]


def test_a_character_outside_of_the_vocabulary_is_named() -> None:
    with pytest.raises(OutOfRangeError, match="'z'"):
        CharacterVocabulary.of("abc").encode("az")


def test_targets_are_the_next_tokens_and_no_token_is_in_two_windows() -> None:
    windows = TextWindows(np.arange(10), 3)
    inputs, targets = windows.gather(np.arange(windows.count))
    assert inputs.tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert targets.tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert inputs.dtype == np.int32


@pytest.mark.parametrize(("count", "length", "stride", "expected"), [(4, 3, None, 1), (10, 3, 1, 7), (9, 3, 2, 3)])
def test_every_window_that_fits_is_counted(count: int, length: int, stride: int | None, expected: int) -> None:
    windows = TextWindows(np.arange(count), length, stride)
    assert windows.count == expected
    _, targets = windows.gather(np.arange(windows.count))
    assert targets.max() < count
    assert targets.max() + (stride or length) >= count


def test_windows_are_a_source_of_a_loader() -> None:
    loader = DataLoader(TextWindows(np.arange(100), 8, stride=1), 16, key=0)
    inputs, targets = next(iter(loader))
    assert inputs.shape == targets.shape == (16, 8)
    np.testing.assert_array_equal(targets, inputs + 1)


def test_too_short_a_text_and_senseless_lengths_are_refused() -> None:
    with pytest.raises(ShapeError, match="3 tokens have no window of 3"):
        TextWindows(np.arange(3), 3)
    with pytest.raises(ConfigError, match="at least 1"):
        TextWindows(np.arange(3), 0)
