"""Tokenizers rebuilt from GGUF metadata or read from a ``tokenizer.json``."""

from snell.llm.tokenizer.string_index import KeptIndex
from snell.llm.tokenizer.tokenizer import Tokenizer

__all__ = ["KeptIndex", "Tokenizer"]
