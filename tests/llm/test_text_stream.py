"""Text that appears token by token."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snell.errors import ConfigError
from snell.llm.text_stream import TextStream


class Bytes:
    """Tokens that are the pieces of a byte string; the last one is a control token."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = [*pieces, b"<end>"]

    def token_bytes(self, token_id: int, /) -> bytes:
        return self.pieces[token_id]

    def is_control(self, token_id: int, /) -> bool:
        return token_id == len(self.pieces) - 1


def stream(pieces: list[bytes], stop: tuple[str, ...] = ()) -> tuple[list[str], TextStream]:
    text = TextStream(Bytes(pieces), stop)
    return [*(text.push(index) for index in range(len(pieces))), text.finish()], text


def test_a_character_appears_with_the_token_that_completes_it() -> None:
    shown, _ = stream([b"a\xf0\x9f", b"\x8c\x8d", b"b"])
    assert shown == ["a", "🌍", "b", ""]


def test_an_incomplete_character_at_the_end_becomes_the_replacement_character() -> None:
    shown, _ = stream([b"a\xf0\x9f"])
    assert shown == ["a", "\ufffd"]


def test_bytes_that_can_be_no_character_are_replaced_at_once() -> None:
    shown, _ = stream([b"\xff", b"a"])
    assert shown == ["\ufffd", "a", ""]


@given(st.text(max_size=30), st.data())
def test_however_a_text_is_cut_the_pieces_joined_are_the_text(text: str, data: st.DataObject) -> None:
    content = text.encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=8)))
    pieces = [content[a:b] for a, b in zip([0, *cuts], [*cuts, len(content)], strict=True)]
    shown, _ = stream(pieces)
    assert "".join(shown) == text


@given(st.text("abX", max_size=20), st.data())
def test_the_text_ends_before_the_first_stop_string_however_it_is_cut(text: str, data: st.DataObject) -> None:
    stop = tuple(data.draw(st.lists(st.text("abX", min_size=1, max_size=3), min_size=1, max_size=3)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    pieces = [text[a:b].encode() for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    shown, made = stream(pieces, stop)
    ends = [at for word in stop if (at := text.find(word)) >= 0]
    found = [word for word in stop if word in text]
    # A stop string that is complete earlier in the stream wins over one that begins earlier and is complete later.
    assert (made.stopped_by is None) == (not found)
    assert text.startswith("".join(shown))
    assert not any(word in "".join(shown) for word in stop)
    if not ends:
        assert "".join(shown) == text


def test_what_may_begin_a_stop_string_is_held_back_until_it_is_none() -> None:
    shown, made = stream([b"one<", b"st", b"ep>"], ("<stop>",))
    assert shown == ["one", "", "<step>", ""]
    assert made.stopped_by is None


def test_nothing_appears_after_a_stop_string_that_spans_tokens() -> None:
    shown, made = stream([b"one<s", b"top>two", b"three"], ("<stop>",))
    assert shown == ["one", "", "", ""]
    assert made.stopped_by == "<stop>"


def test_control_tokens_are_no_text_unless_asked_for() -> None:
    assert TextStream(Bytes([])).push(0) == ""
    assert TextStream(Bytes([]), skip_special=False).push(0) == "<end>"


def test_an_empty_stop_string_is_refused() -> None:
    with pytest.raises(ConfigError, match="empty"):
        TextStream(Bytes([]), ("",))
