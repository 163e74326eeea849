"""Finding whole tokens, such as ``<|im_end|>``, in a text: the leftmost, and the longest that begins there."""

import re
from collections.abc import Iterator, Mapping

from snell.llm.tokenizer.stripping import Stripping

__all__ = ["TokenMatcher"]


_WHITE_SPACE = " \t\n\v\f\r"


class TokenMatcher:
    """Splits texts at the tokens of ``ids`` (text to id)."""

    def __init__(self, ids: Mapping[str, int], stripping: Stripping | None = None) -> None:
        self._stripping = stripping or Stripping()
        self.ids = {text: id_ for text, id_ in ids.items() if text}
        lengths: dict[str, set[int]] = {}
        for text in self.ids:
            lengths.setdefault(text[0], set()).add(len(text))
        self._lengths = {first: sorted(found, reverse=True) for first, found in lengths.items()}
        self._first = re.compile("[" + "".join(map(re.escape, lengths)) + "]") if lengths else None

    def split(self, text: str) -> Iterator[str | int]:
        """The text in order: ids of the tokens found, and the non-empty pieces between them, less what tokens strip."""
        begin = at = 0
        while self._first is not None and (found := self._first.search(text, at)):
            at = found.start()
            token = self._longest(text, at)
            if token is None:
                at += 1
                continue
            id_ = self.ids[token]
            before = text[begin:at].rstrip(_WHITE_SPACE) if id_ in self._stripping.before else text[begin:at]
            if before:
                yield before
            yield id_
            begin = at = at + len(token)
            if id_ in self._stripping.after:
                begin = at = len(text) - len(text[at:].lstrip(_WHITE_SPACE))
        if begin < len(text):
            yield text[begin:]

    def _longest(self, text: str, at: int) -> str | None:
        candidates = (text[at : at + length] for length in self._lengths[text[at]])
        return next((candidate for candidate in candidates if candidate in self.ids), None)
