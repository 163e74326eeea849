"""Encodings by the ``tokenizers`` package that leave the other threads running.

``Tokenizer.encode`` keeps Python's lock while it works, 4.8 s for a text of 4 MiB; ``encode_batch`` gives it up.
"""

import tokenizers

__all__ = ["package_encoding", "package_ids"]

# A batch costs more to begin, and wakes the package's threads; a text of this length takes about 5 ms.
_LONG_TEXT = 1 << 12


def package_encoding(package: tokenizers.Tokenizer, text: str) -> tokenizers.Encoding:
    """The package's encoding of a text, without special tokens around it."""
    if len(text) < _LONG_TEXT:
        return package.encode(text, add_special_tokens=False)
    return package.encode_batch([text], add_special_tokens=False)[0]


def package_ids(package: tokenizers.Tokenizer, text: str) -> list[int]:
    """Its ids."""
    return package_encoding(package, text).ids
