"""What a language model refuses, and how; its cache files; and what it tells while it is compiled."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import numpy as np
import pytest
from tests.llm.tiny_models import tiny_llama, write_gguf_llama

from snell.config import Config
from snell.engine.engine import Engine
from snell.errors import (
    ConfigError,
    ContextLengthError,
    FileFormatError,
    ModelNotFoundError,
    OutOfRangeError,
    SnellError,
    UnsupportedError,
)
from snell.llm import LanguageModel, load
from snell.llm.constants import constants_from_bytes, constants_to_bytes
from snell.llm.engine_compiler import EngineCompiler
from snell.llm.interpreted import InterpretingCompiler
from snell.rewrite.policy import Policy


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf_llama(tmp_path_factory.mktemp("tiny") / "tiny.gguf", tiny_llama(num_hidden_layers=1))


@pytest.fixture(scope="module")
def model(path: Path) -> LanguageModel:
    found = load(path, kv_dtype="f32", compiler=InterpretingCompiler())
    assert isinstance(found, LanguageModel)
    return found


def test_an_unknown_architecture_is_named_beside_the_supported_ones(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "mamba.gguf"
    other.write_bytes(path.read_bytes().replace(b"llama", b"mamba"))
    with pytest.raises(UnsupportedError, match=r"'mamba'; supported are llama, .*bert"):
        load(other)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"once upon a time", "no GGUF file"), (b"", "empty file"), (b"GGUF", "damaged or incomplete")],
)
def test_a_file_that_is_no_model_says_what_it_is(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "model.gguf").write_bytes(content)
    with pytest.raises(FileFormatError, match=message):
        load(tmp_path / "model.gguf")


def test_a_folder_that_is_no_model_says_what_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"without config\.json"):
        load(tmp_path)


@pytest.mark.parametrize("name", ["bogus", "missing/model.gguf", "", "a\0b", "\udcff"])
def test_a_name_of_nothing_lists_the_known_ones(name: str) -> None:
    with pytest.raises(ModelNotFoundError, match="smollm2, gemma3-270m, minilm"):
        load(name)


@pytest.mark.parametrize(
    "options", [{"context": 0}, {"context": 65}, {"context": "8"}, {"threads": 0}, {"threads": 1.5}]
)
def test_sizes_that_mean_nothing_are_refused_on_loading(path: Path, options) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(options))}.*{next(iter(options.values()))}"):
        load(path, **options)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_tokens", -1), ("max_tokens", 1.5), ("max_tokens", "3"), ("temperature", -0.1), ("temperature", math.nan),
        ("temperature", "hot"), ("top_p", 0), ("top_p", 1.01), ("top_p", "all"), ("top_k", -1), ("top_k", 2.5),
        ("min_p", 2), ("seed", -1), ("seed", "a"), ("stop", 3), ("stop", [3]), ("logprobs", "x"), ("logit_bias", 3),
        ("logit_bias", {"a": 1.0}),
    ],
)  # fmt: skip
def test_an_option_that_means_nothing_names_itself_and_what_came(model: LanguageModel, name: str, value) -> None:
    with pytest.raises(ConfigError, match=f"^{name}: expected .*, received") as raised:
        model.generate("hello", **{name: value})
    assert repr(value) in str(raised.value)


def test_no_tokens_to_generate_is_an_empty_text(model: LanguageModel) -> None:
    generation = model.generate("hello", max_tokens=0)
    assert (generation.text, generation.finish_reason) == ("", "length")


def test_a_prompt_that_fills_the_context_is_told_its_length(model: LanguageModel) -> None:
    with pytest.raises(ContextLengthError, match="a prompt of 70 tokens does not fit the context of 64"):
        model.generate("x" * 70)
    with pytest.raises(ContextLengthError, match="a prompt of 4 tokens and max_tokens=61 do not fit"):
        model.generate("hello", max_tokens=61)


@pytest.mark.parametrize(
    "prompt", ["\ud800", "text \udcff", [{"role": "user", "content": "\ud800"}]], ids=["high", "low", "message"]
)
def test_a_lone_surrogate_is_no_text(model: LanguageModel, prompt) -> None:
    with pytest.raises(ConfigError, match=r"lone surrogate '\\ud"):
        model.generate(prompt, max_tokens=1)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({"content": "hi"}, "needs a role .*None"),
        ({"role": "", "content": "hi"}, "needs a role .*''"),
        ({"role": "user"}, "needs content, received only role"),
    ],
)
def test_a_message_without_role_or_content_is_refused(model: LanguageModel, message, said: str) -> None:
    with pytest.raises(SnellError, match=said):
        model.generate([message], max_tokens=1)


@pytest.mark.parametrize(
    "prompt", [5, None, b"bytes", {"role": "user", "content": "x"}, [{"role": "user", "content": "a"}, 3], ["a", 3], [["a"]]],
    ids=repr,
)  # fmt: skip
def test_what_is_no_prompt_says_what_one_is(model: LanguageModel, prompt) -> None:
    with pytest.raises(ConfigError, match="a prompt is a string"):
        model.generate(prompt, max_tokens=1)


@pytest.mark.parametrize("id_", [-1, 261, 2**40])
def test_a_token_id_out_of_range_is_named(model: LanguageModel, id_: int) -> None:
    with pytest.raises(OutOfRangeError, match=f"received {id_}"):
        model.generate([1, id_], max_tokens=1)


@pytest.mark.parametrize("damage", ["cut", "text", "rows"])
def test_constants_that_are_something_else_are_a_format_error(damage: str) -> None:
    whole = constants_to_bytes({"table": np.arange(64, dtype=np.float32)})
    header = int.from_bytes(whole[:8], "little")
    damaged = {"cut": whole[:-8], "text": b"some text", "rows": whole[:8] + b"[1]".ljust(header) + whole[8 + header :]}
    with pytest.raises(FileFormatError, match="constants"):
        constants_from_bytes(damaged[damage])


def compiled(path: Path, folder: Path, told: list[tuple[int, int]]) -> LanguageModel:
    engine = Engine(Config(threads=1, cache_dir=folder, data_dir=folder))
    compiler = EngineCompiler(engine, Policy.DEFAULT, lambda done, total: told.append((done, total)))
    found = load(path, kv_dtype="f32", context=32, compiler=compiler)
    assert isinstance(found, LanguageModel)
    return found


def test_progress_is_told_kernel_by_kernel_once_and_damaged_files_are_made_again(path: Path, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    first = compiled(path, tmp_path, told)
    assert told == []
    expected = first.generate("hello", max_tokens=3, temperature=0.0).token_ids
    begins = [place for place, report in enumerate(told) if report[1] and report[0] == 0]
    assert told[0] == (0, 0)
    assert len(begins) == 2  # a program for prompts and one for single tokens
    total = told[begins[0]][1]
    assert told[begins[0] : begins[0] + total + 1] == [(done, total) for done in range(total + 1)]

    again: list[tuple[int, int]] = []
    cached = compiled(path, tmp_path, again)
    cached.prepare()
    assert (cached.generate("hello", max_tokens=3, temperature=0.0).token_ids, again) == (expected, [])

    entries = [file for file in tmp_path.rglob("*") if file.is_file()]
    for place, file in enumerate(entries):
        content = file.read_bytes()
        file.write_bytes([b"", content[: len(content) // 2], bytes(len(content))][place % 3])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compiled(path, tmp_path, again).generate("hello", max_tokens=3, temperature=0.0).token_ids == expected
    assert again
