"""Tokens that take the white space beside them with them, as ``<|user|>`` of Phi-3 takes the line break after it.

A ``tokenizer.json`` says so of each token (``lstrip``, ``rstrip``). GGUF files do not, and llama.cpp knows the models by
their names (``llama-vocab.cpp``, "set attributes by model/tokenizer/architecture name"); so does ``gguf_stripping``.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from snell.importers.gguf import MetadataValue

__all__ = ["Stripping", "gguf_stripping"]

_MASK_BY_PRE_TOKENIZER = ("jina-v2-de", "jina-v2-es", "jina-v2-code")
_MASK_BY_ARCHITECTURE = ("nomic-bert-moe", "jina-bert-v3")
_ALL_BY_NAME = ("phi-3", "phi3")
_ALL_BUT = ("<unk>", "<s>", "<|endoftext|>")


@dataclass(frozen=True, slots=True)
class Stripping:
    """Ids of the tokens that take the white space before them, and of those that take what is after them."""

    before: frozenset[int] = frozenset()
    after: frozenset[int] = frozenset()


def gguf_stripping(
    metadata: Mapping[str, MetadataValue], ids: Mapping[str, int], special: Mapping[str, int]
) -> Stripping:
    """For the tokens ``ids`` of a file, of which ``special`` are no ordinary ones."""
    name, cut, architecture = (
        str(metadata.get(key, "")) for key in ("general.name", "tokenizer.ggml.pre", "general.architecture")
    )
    if _names(cut, _MASK_BY_PRE_TOKENIZER) or _names(architecture, _MASK_BY_ARCHITECTURE):
        return Stripping(before=frozenset(id_ for id_ in (ids.get("<mask>"),) if id_ is not None))
    if _names(name.lower(), _ALL_BY_NAME):
        return Stripping(after=frozenset(id_ for text, id_ in special.items() if text not in _ALL_BUT))
    if "modern-bert" in name.lower():
        return Stripping(before=frozenset(id_ for id_ in (ids.get("[MASK]"),) if id_ is not None))
    return Stripping()


def _names(text: str, parts: tuple[str, ...]) -> bool:
    return any(part in text for part in parts)
