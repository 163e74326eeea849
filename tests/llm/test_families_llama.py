"""The llama family against transformers, through the reference interpreter."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from gguf.quants import dequantize
from tests.llm.tiny_models import (
    gguf_llama_tensors,
    judged_logits,
    save_folder,
    set_gguf_llama_tensors,
    tiny_llama,
    with_dequantised_weights,
    write_gguf_llama,
)
from tests.models import smollm2_path

from snell.errors import UnsupportedError
from snell.llm import LanguageModel, load
from snell.llm.interpreted import InterpretingCompiler

IDS = [256, 5, 77, 200, 13, 13, 91, 250, 0, 42, 7]


def opened(path: Path, **options: Any) -> LanguageModel:
    model = load(path, kv_dtype="f32", compiler=InterpretingCompiler(), **options)
    assert isinstance(model, LanguageModel)
    return model


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"num_key_value_heads": 4},
        {"num_key_value_heads": 1},
        {"head_dim": 12},
        {"tie_word_embeddings": True},
        {"attention_bias": True, "mlp_bias": True},
        {"rms_norm_eps": 1e-2},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 100.0}},
        {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}},
        {
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 10000.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 32,
            }
        },
    ],
    ids=["grouped", "full", "one_kv_head", "head_dim", "tied", "bias", "epsilon", "base", "linear", "llama3"],
)
def test_logits_of_a_folder_equal_those_of_transformers(tmp_path: Path, changes: dict[str, Any]) -> None:
    judge = tiny_llama(**changes)
    model = opened(save_folder(judge, tmp_path))
    np.testing.assert_allclose(model.logits(IDS), judged_logits(judge, IDS), atol=1e-4)


@pytest.mark.parametrize("changes", [{}, {"head_dim": 12}, {"tie_word_embeddings": True}, {"attention_bias": True}])
def test_logits_of_a_gguf_file_equal_those_of_transformers(tmp_path: Path, changes: dict[str, Any]) -> None:
    judge = tiny_llama(**changes)
    model = opened(write_gguf_llama(tmp_path / "tiny.gguf", judge))
    np.testing.assert_allclose(model.logits(IDS), judged_logits(judge, IDS), atol=1e-4)


@pytest.mark.parametrize("name", ["F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"])
def test_quantised_weights_decode_inside_of_the_program(tmp_path: Path, name: str) -> None:
    kind = gguf.GGMLQuantizationType[name]
    judge = tiny_llama()
    path = write_gguf_llama(tmp_path / "tiny.gguf", judge, kind)
    expected = judged_logits(with_dequantised_weights(judge, kind), IDS)
    np.testing.assert_allclose(opened(path).logits(IDS), expected, atol=1e-4)


# Where the f16 scales lie in a block; random bytes there would be infinite.
SCALES = {
    "Q2_K": slice(80, 84),
    "Q3_K": slice(108, 110),
    "Q4_K": slice(0, 4),
    "Q5_K": slice(0, 4),
    "Q6_K": slice(208, 210),
}


@pytest.mark.parametrize("name", SCALES)
def test_k_quantised_weights_decode_inside_of_the_program(tmp_path: Path, name: str) -> None:
    kind = gguf.GGMLQuantizationType[name]
    judge = tiny_llama(hidden_size=256, intermediate_size=256, num_hidden_layers=1, num_attention_heads=8)
    random = np.random.default_rng(5)
    blocks: dict[str, np.ndarray] = {}
    for weight, array in gguf_llama_tensors(judge).items():
        if array.ndim == 2:
            rows = random.integers(0, 256, (array.shape[0], gguf.GGML_QUANT_SIZES[kind][1]), np.uint8)
            scales = random.uniform(0, 2e-4, (array.shape[0], 2)).astype(np.float16).view(np.uint8)
            rows[:, SCALES[name]] = scales[:, : SCALES[name].stop - SCALES[name].start]
            blocks[weight] = rows
    path = write_gguf_llama(tmp_path / "tiny.gguf", judge, kind, extra=blocks)
    set_gguf_llama_tensors(judge, {weight: dequantize(rows, kind) for weight, rows in blocks.items()})
    np.testing.assert_allclose(opened(path).logits(IDS), judged_logits(judge, IDS), atol=1e-4)


def test_a_gguf_files_frequency_divisors_are_used(tmp_path: Path) -> None:
    divisors = np.asarray([1.0, 2.0, 4.0, 8.0], np.float32)
    plain = write_gguf_llama(tmp_path / "plain.gguf", tiny_llama())
    divided = write_gguf_llama(tmp_path / "divided.gguf", tiny_llama(), extra={"rope_freqs.weight": divisors})
    linear = tiny_llama(rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0})
    halved = write_gguf_llama(tmp_path / "halved.gguf", tiny_llama(), extra={"rope_freqs.weight": divisors * 0 + 2})
    assert not np.allclose(opened(divided).logits(IDS), opened(plain).logits(IDS), atol=1e-2)
    np.testing.assert_allclose(opened(halved).logits(IDS), judged_logits(linear, IDS), atol=1e-4)


def test_chunks_and_single_tokens_give_what_one_forward_gives(tmp_path: Path) -> None:
    path = write_gguf_llama(tmp_path / "tiny.gguf", tiny_llama())
    whole = opened(path)
    expected = whole.logits(IDS)
    for chunk in (1, 4):
        parts = LanguageModel(
            whole.parts, InterpretingCompiler(), context=whole.context, kv_dtype=whole.kv_dtype, chunk=chunk
        )
        np.testing.assert_allclose(parts.logits(IDS), expected, atol=1e-5)


def test_a_half_precision_cache_changes_little(tmp_path: Path) -> None:
    path = write_gguf_llama(tmp_path / "tiny.gguf", tiny_llama())
    half = load(path, compiler=InterpretingCompiler())
    assert isinstance(half, LanguageModel)
    expected = opened(path).logits(IDS)
    difference = np.abs(half.logits(IDS) - expected).max()
    assert 0 < difference < 0.02 * np.abs(expected).max()


def test_the_context_bounds_the_cache_and_not_the_values(tmp_path: Path) -> None:
    path = write_gguf_llama(tmp_path / "tiny.gguf", tiny_llama())
    np.testing.assert_allclose(opened(path, context=len(IDS)).logits(IDS), opened(path).logits(IDS), atol=1e-6)


def test_rows_of_a_batch_equal_the_rows_alone(tmp_path: Path) -> None:
    model = opened(write_gguf_llama(tmp_path / "tiny.gguf", tiny_llama()))
    both = model.logits([IDS[:4], [9, 8, 0, 0]], lengths=[4, 2])
    np.testing.assert_array_equal(both[0], model.logits(IDS[:4]))
    np.testing.assert_array_equal(both[1, :2], model.logits([9, 8]))
    assert (both[1, 2:] == 0).all()


def test_an_unknown_architecture_is_named_with_the_supported_ones(tmp_path: Path) -> None:
    path = tmp_path / "other.gguf"
    writer = gguf.GGUFWriter(path, "mamba")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(UnsupportedError, match=r"'mamba'; supported are .*llama.*bert"):
        load(path)


@pytest.mark.slow
def test_smollm2_continues_as_stated() -> None:
    model = opened(smollm2_path(), context=8)
    logits = model.logits(model.tokenizer.encode("The capital of France is"))[-1]
    order = np.argsort(-logits)[:2]
    assert order[0] == 7042
    np.testing.assert_allclose(logits[order], [17.371, 14.889], atol=1e-3)
