"""The gemma3 family against transformers, through the reference interpreter."""

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
import transformers
from tests.llm.tiny_models import VOCABULARY, add_tokenizer

from snell.llm import LanguageModel, load
from snell.llm.interpreted import InterpretingCompiler

IDS = [256, 5, 77, 200, 13, 13, 91, 250, 0, 42, 7, 8, 9]
WINDOW = 4
NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "post_ffw_norm": "post_feedforward_layernorm",
}


@pytest.fixture(scope="module")
def judge() -> transformers.Gemma3ForCausalLM:
    """Six layers, so that the last one sees all positions and the others a window of four."""
    torch.manual_seed(2)
    config = transformers.Gemma3TextConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=6,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=12,
        query_pre_attn_scalar=12,
        max_position_embeddings=64,
        sliding_window=WINDOW,
        initializer_range=0.3,
        attn_implementation="eager",
    )
    model = transformers.Gemma3ForCausalLM(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    return model.eval()


def written(path: Path, model: transformers.Gemma3ForCausalLM) -> Path:
    """The model as a GGUF file: norms with the 1 added, as converters write them."""
    writer = gguf.GGUFWriter(path, "gemma3")
    writer.add_context_length(64)
    writer.add_embedding_length(32)
    writer.add_block_count(6)
    writer.add_feed_forward_length(48)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_key_length(12)
    writer.add_value_length(12)
    writer.add_sliding_window(WINDOW)
    writer.add_rope_freq_base(1e6)
    writer.add_layer_norm_rms_eps(model.config.rms_norm_eps)
    add_tokenizer(writer)
    names = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}
    for layer in range(6):
        names |= {f"blk.{layer}.{ours}": f"model.layers.{layer}.{theirs}" for ours, theirs in NAMES.items()}
    state = model.state_dict()
    for ours, theirs in names.items():
        array = state[f"{theirs}.weight"].numpy()
        writer.add_tensor(f"{ours}.weight", array + 1 if array.ndim == 1 else array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def opened(path: Path) -> LanguageModel:
    model = load(path, kv_dtype="f32", compiler=InterpretingCompiler())
    assert isinstance(model, LanguageModel)
    return model


def test_logits_equal_those_of_transformers_beyond_the_window(
    tmp_path: Path, judge: transformers.Gemma3ForCausalLM
) -> None:
    with torch.no_grad():
        expected = judge(torch.tensor([IDS])).logits[0].numpy()
    np.testing.assert_allclose(opened(written(tmp_path / "tiny.gguf", judge)).logits(IDS), expected, atol=1e-4)


def test_decoding_with_a_cache_follows_the_window(tmp_path: Path, judge: transformers.Gemma3ForCausalLM) -> None:
    whole = opened(written(tmp_path / "tiny.gguf", judge))
    parts = LanguageModel(whole.parts, InterpretingCompiler(), context=64, kv_dtype=whole.kv_dtype, chunk=3)
    np.testing.assert_allclose(parts.logits(IDS), whole.logits(IDS), atol=1e-5)
