"""Byte-pair merging of one word at a time, ready as soon as the merges are read.

The ``tokenizers`` package merges long texts faster, but building its model of 49,000 tokens takes 100 ms, as long as
reading a short prompt; this takes one look-up table.  Both give the same ids: the pair of least rank is merged first,
the leftmost of several.
"""

import sys
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

from snell.errors import FileFormatError

__all__ = ["Merging", "check_merges", "merge_pairs"]

_WORDS_KEPT = 1 << 14


class Merging:
    """``ids(word)`` for words spelled in characters of the vocabulary; a character that is no token is left out.

    ``ranks`` are the places of pairs such as ``"Ġ t"``, the best first; ``forbidden`` are tokens that no text may yield.
    With ``ignore_merges`` a word that is a token is taken whole.
    """

    def __init__(
        self, ids: Mapping[str, int], ranks: Mapping[str, int], forbidden: Collection[str], *, ignore_merges: bool
    ) -> None:
        self._ids = ids
        self._forbidden = forbidden
        self._ignore_merges = ignore_merges
        self._ranks = ranks
        self._barred = {f"{token[:at]} {token[at:]}" for token in forbidden for at in range(1, len(token))}
        self._last = sys.maxsize
        self.ids = lru_cache(maxsize=_WORDS_KEPT)(self._merged)

    def allows(self, merge: str) -> bool:
        """Whether a merge does not result in a forbidden token."""
        return merge in self._ranks and merge not in self._barred

    def _merged(self, word: str) -> tuple[int, ...]:
        if self._ignore_merges and self._is_token(word):
            return (self._ids[word],)
        pieces = [character for character in word if self._is_token(character)]
        while len(pieces) > 1:
            ranks = [self._rank(f"{left} {right}") for left, right in pairwise(pieces)]
            rank = min(ranks)
            if rank == self._last:
                break
            at = ranks.index(rank)
            pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]
        return tuple(map(self._id, pieces))

    def _rank(self, merge: str) -> int:
        return self._last if merge in self._barred else self._ranks.get(merge, self._last)

    def _is_token(self, text: str) -> bool:
        return text in self._ids and text not in self._forbidden

    def _id(self, piece: str) -> int:
        if piece not in self._ids:
            raise FileFormatError(
                f"key 'tokenizer.ggml.merges' does not fit the vocabulary: {piece!r} is no token; convert the model again"
            )
        return self._ids[piece]


def check_merges(merges: Sequence[str]) -> bool:
    """True; a FileFormatError unless each is two pieces with a space between them."""
    if merges and " ".join(merges).count(" ") != 2 * len(merges) - 1:
        raise FileFormatError("key 'tokenizer.ggml.merges': expected two pieces with one space between them in each")
    return True


def merge_pairs(merges: Sequence[str]) -> list[tuple[str, str]]:
    """Each merge's two pieces. One split of the joined text takes a third of the time of 49,000 splits."""
    pieces = " ".join(merges).split(" ") if merges else []
    return list(zip(pieces[::2], pieces[1::2], strict=True))
