"""The meaning of a tokenizer's special tokens, independent of the algorithm that encodes text."""

from collections.abc import Mapping
from dataclasses import dataclass

from snell.llm.tokenizer.stripping import Stripping

__all__ = ["TokenizerParts"]


@dataclass(frozen=True, slots=True)
class TokenizerParts:
    """``prefix`` and ``suffix`` go around an encoded text; ``control`` are the tokens that only ids can name."""

    control: Mapping[str, int]
    control_ids: frozenset[int]
    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    bos_id: int | None
    bos_token: str
    eos_ids: frozenset[int]
    eos_token: str
    stripping: Stripping = Stripping()  # noqa: RUF009  # frozen
