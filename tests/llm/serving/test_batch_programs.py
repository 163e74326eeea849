"""Several texts in one step: what each would get alone, to the bit, for any chunks and from a copied beginning."""

from collections.abc import Sequence
from dataclasses import replace

import gguf
import numpy as np
import pytest
from tests.llm.tiny_models import tiny_llama, write_gguf_llama

from snell.config import Config, process_environment
from snell.engine.engine import Engine
from snell.llm import LanguageModel, load
from snell.llm.engine_compiler import EngineCompiler
from snell.llm.interpreted import InterpretingCompiler
from snell.llm.serving.batch_programs import BatchPrograms
from snell.llm.serving.text_cache import TextCache
from snell.rewrite.policy import Policy

PLACES = 3
PROMPTS = [[256, 5, 77, 200, 13, 13, 91], [256, 42], [256, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    folder = tmp_path_factory.mktemp("tiny")
    path = write_gguf_llama(folder / "tiny.gguf", tiny_llama(), gguf.GGMLQuantizationType.Q8_0)
    config = replace(Config.from_environment(process_environment()), cache_dir=folder / "cache")
    opened = load(path, compiler=EngineCompiler(Engine(config), Policy.DEFAULT))
    assert isinstance(opened, LanguageModel)
    return opened


@pytest.fixture(scope="module")
def programs(model: LanguageModel) -> BatchPrograms:
    return model.batch_programs(PLACES)


def read(programs: BatchPrograms, prompt: Sequence[int], chunk: int = 64) -> tuple[TextCache, np.ndarray]:
    cache, logits = programs.make(), np.zeros(0)
    for start in range(0, len(prompt), chunk):
        logits = programs.prefill(cache, prompt[start : start + chunk])
    return cache, logits


def written(programs: BatchPrograms, caches: Sequence[TextCache], steps: int) -> list[list[np.ndarray]]:
    """For each text the logits of steps that feed the ids 9, 10, …."""
    rows = [programs.decode(caches, [9 + step] * len(caches)).copy() for step in range(steps)]
    return [[row[place] for row in rows] for place in range(len(caches))]


def test_each_text_of_a_batch_gets_the_logits_of_the_interpreted_model(model: LanguageModel) -> None:
    judge = LanguageModel(model.parts, InterpretingCompiler(), context=model.context, kv_dtype=model.kv_dtype)
    programs = model.batch_programs(PLACES)
    texts = written(programs, [read(programs, prompt)[0] for prompt in PROMPTS], 3)
    for prompt, rows in zip(PROMPTS, texts, strict=True):
        expected = judge.logits([*prompt, 9, 10, 11])[len(prompt) :]
        np.testing.assert_allclose(rows, expected, atol=2e-2)


def test_a_text_has_the_same_bits_alone_and_at_any_place_of_any_batch(programs: BatchPrograms) -> None:
    alone = [written(programs, [read(programs, prompt)[0]], 4)[0] for prompt in PROMPTS]
    for order in ([0, 1, 2], [2, 0, 1], [1, 1, 0], [2, 1]):
        batch = written(programs, [read(programs, PROMPTS[one])[0] for one in order], 4)
        for one, rows in zip(order, batch, strict=True):
            np.testing.assert_array_equal(rows, alone[one])


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 12])
def test_a_prompt_has_the_same_bits_whatever_it_is_cut_into(programs: BatchPrograms, chunk: int) -> None:
    whole, expected = read(programs, PROMPTS[2])
    cut, logits = read(programs, PROMPTS[2], chunk)
    np.testing.assert_array_equal(logits, expected)
    for name, array in whole.arrays.items():
        np.testing.assert_array_equal(cut.arrays[name], array)


@pytest.mark.parametrize("shared", [1, 4, 12])
def test_a_prompt_has_the_same_bits_from_a_copied_beginning(programs: BatchPrograms, shared: int) -> None:
    prompt = PROMPTS[2]
    source, expected = read(programs, prompt)
    written(programs, [source], 2)
    copy = programs.make()
    copy.copy_prefix(source, shared)
    np.testing.assert_array_equal(programs.prefill(copy, prompt[shared:]), expected)


def test_a_batch_step_changes_no_position_but_the_new_one(programs: BatchPrograms) -> None:
    caches = [read(programs, prompt)[0] for prompt in PROMPTS]
    before = [{name: array.copy() for name, array in cache.arrays.items()} for cache in caches]
    programs.decode(caches, [1, 2, 3])
    for cache, arrays in zip(caches, before, strict=True):
        place = cache.past - 1
        for name, array in arrays.items():
            np.testing.assert_array_equal(np.delete(cache.arrays[name], place, 1), np.delete(array, place, 1))
            assert cache.arrays[name][:, place].any()


def test_pages_count_the_memory_of_all_arrays(programs: BatchPrograms, model: LanguageModel) -> None:
    sizes = model.parts.decoder.sizes
    positions = 4096 // (sizes.head_dim * 2)
    assert programs.pages.positions == positions
    assert programs.pages.nbytes == 2 * sizes.layers * sizes.kv_heads * 4096
