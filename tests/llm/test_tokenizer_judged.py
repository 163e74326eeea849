"""Generated texts get the ids of llama.cpp, for every vocabulary that its source package carries."""

import unicodedata

import pytest
from tests.llm.texts import texts
from tests.models import llama_cpp_models

from snell.importers.gguf import read_gguf
from snell.llm.tokenizer import Tokenizer

llama_cpp = pytest.importorskip("llama_cpp", reason="the judge llama-cpp-python is in the extra `bench`")

NAMES = [
    "aquila", "baichuan", "bert-bge", "command-r", "deepseek-coder", "deepseek-llm", "falcon", "gemma-4", "gpt-2",
    "gpt-neox", "llama-bpe", "llama-spm", "mpt", "nomic-bert-moe", "phi-3", "qwen2", "qwen35", "refact", "starcoder",
]  # fmt: skip
COUNT = 270  # for each of two ways to read: 10,260 texts in all


def once(ids: list[int], tokenizer: Tokenizer) -> list[int]:
    """llama.cpp adds BOS, EOS and [SEP] to a text that names them already; here there is one of each."""
    prefix, suffix = list(tokenizer.parts.prefix), list(tokenizer.parts.suffix)
    if prefix and ids[: 2 * len(prefix)] == prefix * 2:
        ids = ids[len(prefix) :]
    if suffix and ids[-2 * len(suffix) :] == suffix * 2:
        ids = ids[: -len(suffix)]
    return ids


@pytest.mark.parametrize("name", NAMES)
def test_generated_texts_get_the_ids_of_llama_cpp(name: str) -> None:
    path = llama_cpp_models() / f"ggml-vocab-{name}.gguf"
    tokenizer = Tokenizer.from_gguf(read_gguf(path).metadata)
    judge = llama_cpp.Llama(str(path), vocab_only=True, verbose=False)
    names = [*list(tokenizer.control_tokens)[:40], *list(tokenizer.control_tokens)[-40:]]
    for parse_special in (False, True):
        for text in texts(COUNT, int(parse_special), names):
            # llama.cpp drops all marks as accents; BERT's own tokenizer, and snell, only those that take no space.
            if name == "bert-bge" and {"Mc", "Me"} & set(map(unicodedata.category, text)):
                continue
            expected = once(judge._model.tokenize(text.encode(), True, parse_special), tokenizer)
            assert tokenizer.encode(text, parse_special=parse_special) == expected, repr(text)
