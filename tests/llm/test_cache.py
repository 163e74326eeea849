"""The KV cache in each of its dtypes: attention within the bound of what rounding moves, and memory that is counted."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.llm.tiny_models import tiny_llama, write_gguf_llama

from snell.config import Config, process_environment
from snell.dtypes import DType, f32
from snell.engine.engine import Engine
from snell.errors import ConfigError, ContextLengthError
from snell.frontend.context import Trace
from snell.frontend.tensor import Tensor
from snell.graph.primitives import Input
from snell.llm import LanguageModel, load
from snell.llm.cache import KV_DTYPES, CacheShape
from snell.llm.compiler_protocol import Program, ProgramRecipe
from snell.llm.engine_compiler import EngineCompiler
from snell.llm.families.attention import causal_attention
from snell.llm.serving.batch_programs import BatchPrograms
from snell.llm.traced_cache import TracedCache
from snell.rewrite.policy import Policy
from snell.symbolic import Dim

HEADS, KV_HEADS, WIDTH, CAPACITY = 4, 2, 16, 40
SCALE = WIDTH**-0.5
IDS = [256, 5, 77, 200, 13, 13, 91, 250, 0, 42, 7]
# How far a value moves: by half a unit of its last place, or half a scale of its row's largest.
HALF_UNITS = {"f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8, "int8": 0.5 / 127}


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> EngineCompiler:
    config = replace(Config.from_environment(process_environment()), cache_dir=tmp_path_factory.mktemp("cache"))
    return EngineCompiler(Engine(config), Policy.DEFAULT)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf_llama(tmp_path_factory.mktemp("tiny") / "tiny.gguf", tiny_llama())


def attention(shape: CacheShape) -> Program:
    """A program of one layer's attention: queries, keys and values of the step's tokens → what they attend."""
    trace = Trace()
    tokens, past = Dim("tokens", min=1, max=CAPACITY), Dim("past", min=0, max=CAPACITY - 1)
    heads = {"queries": HEADS, "keys": KV_HEADS, "values": KV_HEADS}
    queries, keys, values = (
        Tensor(trace.input(Input(name, (count, tokens * 1, WIDTH), f32)), trace) for name, count in heads.items()
    )
    cache = TracedCache(trace, shape, past, tokens)
    attended = cache.attended(0, queries, keys, values, partial(causal_attention, scale=SCALE))
    return Program(trace.graph([("result", attended.operand), *cache.outputs()]), {}, {})


def recipe(shape: CacheShape) -> ProgramRecipe:
    return ProgramRecipe(f"attention {shape}", lambda: attention(shape), lambda names: {}, (), lambda: None)


def attended(compiler: EngineCompiler, dtype: DType, arrays: dict[str, np.ndarray], steps: list[int]) -> np.ndarray:
    """What all tokens attend, the tokens given in steps of so many."""
    shape = CacheShape(1, KV_HEADS, CAPACITY, WIDTH, dtype)
    run = compiler.compile(recipe(shape))
    cache, past = shape.empty(), 0
    results: list[np.ndarray] = []
    for step in steps:
        part = {name: np.ascontiguousarray(array[:, past : past + step]) for name, array in arrays.items()}
        outputs = run({**part, **cache}, {"past": past, "tokens": step})
        cache = {name: outputs[name] for name in cache}
        results.append(np.array(outputs["result"]))
        past += step
    return np.concatenate(results, axis=1)


@pytest.mark.parametrize("name", KV_DTYPES)
def test_attention_moves_by_no_more_than_its_rounded_keys_and_values_move_it(
    compiler: EngineCompiler, name: str
) -> None:
    random = np.random.default_rng(1)
    heads = {"queries": HEADS, "keys": KV_HEADS, "values": KV_HEADS}
    arrays = {kind: random.standard_normal((count, 33, WIDTH), np.float32) for kind, count in heads.items()}
    found = attended(compiler, KV_DTYPES[name], arrays, [20, 1, 12])
    queries, keys, values = (array.astype(np.float64) for array in arrays.values())
    keys, values = (np.repeat(array, HEADS // KV_HEADS, axis=0) for array in (keys, values))
    scores = np.where(np.tril(np.ones((33, 33), bool)), queries @ keys.swapaxes(1, 2) * SCALE, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    # A score moves by e at most, so a weight by a factor of exp(±2e), and a value by its own rounding.
    half = HALF_UNITS[name]
    moved = half * np.abs(queries).sum(-1) * np.abs(keys).max() * SCALE + 64 * 2.0**-24
    bound = np.expm1(2 * moved)[..., None] * (weights @ np.abs(values)) + (half + 64 * 2.0**-24) * np.abs(values).max()
    error = np.abs(found - weights @ values)
    assert (error <= bound).all()
    assert name == "f32" or error.max() > bound.max() / 1000  # it is rounded at all


def test_a_row_of_zeros_is_kept_as_zeros(compiler: EngineCompiler) -> None:
    arrays = {kind: np.zeros((count, 3, WIDTH), np.float32) for kind, count in (("queries", 4), ("keys", 2))}
    arrays["values"] = np.zeros((KV_HEADS, 3, WIDTH), np.float32)
    assert (attended(compiler, KV_DTYPES["int8"], arrays, [3]) == 0).all()


def test_a_row_with_a_nan_or_an_infinity_spoils_what_attends_it_and_nothing_before(compiler: EngineCompiler) -> None:
    for bad in (np.nan, np.inf):
        arrays = {kind: np.ones((count, 3, WIDTH), np.float32) for kind, count in (("queries", 4), ("keys", 2))}
        arrays["values"] = np.ones((KV_HEADS, 3, WIDTH), np.float32)
        arrays["values"][0, 1, 3] = bad
        found = attended(compiler, KV_DTYPES["int8"], arrays, [1, 1, 1])
        assert np.isfinite(found[:, 0]).all()
        assert not np.isfinite(found[0, 1:]).any()
        assert np.isfinite(found[HEADS // KV_HEADS :]).all()


def test_chunks_of_a_prompt_leave_the_same_bytes(compiler: EngineCompiler) -> None:
    random = np.random.default_rng(2)
    heads = {"queries": HEADS, "keys": KV_HEADS, "values": KV_HEADS}
    arrays = {kind: random.standard_normal((count, 24, WIDTH), np.float32) for kind, count in heads.items()}
    whole = attended(compiler, KV_DTYPES["int8"], arrays, [24])
    np.testing.assert_array_equal(attended(compiler, KV_DTYPES["int8"], arrays, [5, 8, 11]), whole)


@pytest.mark.parametrize(("name", "nbytes"), [("f32", 4 * 16), ("bf16", 2 * 16), ("f16", 2 * 16), ("int8", 16 + 4)])
def test_a_cache_knows_its_memory(name: str, nbytes: int) -> None:
    shape = CacheShape(3, KV_HEADS, CAPACITY, 16, KV_DTYPES[name])
    assert shape.position_nbytes == 2 * 3 * KV_HEADS * nbytes
    assert shape.nbytes == sum(array.nbytes for array in shape.empty().values()) == CAPACITY * shape.position_nbytes


def test_pages_of_a_scaled_cache_count_the_scales(tiny: Path, compiler: EngineCompiler) -> None:
    model = opened(tiny, compiler, "int8")
    shape = model.parts.decoder.sizes.cache(model.context, model.kv_dtype)
    never = compiler.compile(recipe(CacheShape(1, KV_HEADS, CAPACITY, WIDTH, model.kv_dtype)))
    pages = BatchPrograms(never, never, shape, places=1, chunk=1).pages
    assert pages.positions == 4096 // shape.head_dim
    assert pages.bytes_of(0) == 0
    rows = 2 * shape.layers * shape.heads
    assert pages.bytes_of(1) == pages.positions * shape.position_nbytes + rows * 4096
    assert pages.bytes_of(pages.positions + 1) - pages.bytes_of(1) == pages.positions * shape.position_nbytes


def opened(path: Path, compiler: EngineCompiler, kv_dtype: str) -> LanguageModel:
    model = load(path, kv_dtype=kv_dtype, compiler=compiler)
    assert isinstance(model, LanguageModel)
    return model


def test_a_model_with_narrow_keys_and_values_says_almost_what_one_with_wide_ones_says(
    tiny: Path, compiler: EngineCompiler
) -> None:
    logits = {name: opened(tiny, compiler, name).logits(IDS) for name in ("f32", "bf16", "int8")}
    spread = logits["f32"].std()
    for name in ("bf16", "int8"):
        assert 0 < np.abs(logits[name] - logits["f32"]).max() < spread / 4


@pytest.mark.parametrize("name", ["bf16", "int8"])
def test_a_text_that_does_not_fit_is_refused_as_ever(tiny: Path, compiler: EngineCompiler, name: str) -> None:
    with pytest.raises(ContextLengthError, match="larger context"):
        opened(tiny, compiler, name).generate(IDS, max_tokens=64)


def test_a_dtype_that_no_cache_has_is_refused_with_those_that_it_may(tiny: Path) -> None:
    with pytest.raises(ConfigError, match="expected one of f16, bf16, int8, f32, received 'q4_0'"):
        load(tiny, kv_dtype="q4_0")
