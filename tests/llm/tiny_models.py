"""Small random models, made with transformers (the judge) and written as Hugging Face folders and GGUF files."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import gguf
import numpy as np
import tokenizers
import torch
import transformers
from gguf.quants import dequantize, quantize

M = TypeVar("M", bound=torch.nn.Module)

VOCABULARY = 261
BOS, EOS, TURN_END = 256, 257, 258
TEMPLATE = (
    "{% for message in messages %}<|start|>{{ message['role'] }}: {{ message['content'] }}<|turn_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant: {% endif %}"
)


def tiny_llama(**changes: Any) -> transformers.LlamaForCausalLM:
    """Two layers of width 32, two key-value heads for four."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        **{
            "vocab_size": VOCABULARY,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 64,
            "initializer_range": 0.3,
            "bos_token_id": BOS,
            "eos_token_id": EOS,
            "attn_implementation": "eager",
            **changes,
        }
    )
    return _with_random_norms(transformers.LlamaForCausalLM(config))


def tiny_bert(**changes: Any) -> transformers.BertModel:
    """Two layers of width 32 with four heads."""
    torch.manual_seed(1)
    config = transformers.BertConfig(
        **{
            "vocab_size": VOCABULARY,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "max_position_embeddings": 48,
            "initializer_range": 0.3,
            "attn_implementation": "eager",
            **changes,
        }
    )
    return _with_random_norms(transformers.BertModel(config, add_pooling_layer=False))


def _with_random_norms(model: M) -> M:
    """Norm weights of 1 and biases of 0 would hide a mistake in them."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    return model.eval()


def judged_logits(model: transformers.LlamaForCausalLM, ids: list[int]) -> np.ndarray:
    """(T, vocabulary) by transformers."""
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].numpy()


def save_folder(model: transformers.PreTrainedModel, folder: Path) -> Path:
    """The model and a byte-level tokenizer as a Hugging Face folder."""
    model.save_pretrained(folder)
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE({text: id_ for id_, text in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|bos|>", "<|endoftext|>", "<|turn_end|>", "<|start|>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    described = {"bos_token": "<|bos|>", "eos_token": "<|endoftext|>", "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(described))
    return folder


def _to_interleaved(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rows of a query or key weight as GGUF's llama stores them: the pairs (i, i + half) become neighbours."""
    rows = weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:])
    return rows.swapaxes(1, 2).reshape(weight.shape)


_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def _state_names(model: transformers.LlamaForCausalLM) -> dict[str, str]:
    """GGUF's names of the model's tensors → those of its state."""
    state = model.state_dict()
    names = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}
    if not model.config.tie_word_embeddings:
        names["output"] = "lm_head"
    for layer in range(model.config.num_hidden_layers):
        names |= {f"blk.{layer}.{ours}": f"model.layers.{layer}.{theirs}" for ours, theirs in _LAYER_NAMES.items()}
    return {
        f"{ours}.{kind}": f"{theirs}.{kind}"
        for ours, theirs in names.items()
        for kind in ("weight", "bias")
        if f"{theirs}.{kind}" in state
    }


def set_gguf_llama_tensors(model: transformers.LlamaForCausalLM, tensors: Mapping[str, np.ndarray]) -> None:
    """Put tensors in GGUF's order of rows into the model."""
    state, heads = model.state_dict(), _rotary_heads(model)
    with torch.no_grad():
        for ours, theirs in _state_names(model).items():
            if ours in tensors:
                array, part = tensors[ours], ours.split(".")[-2]
                if part in heads:
                    rows = array.reshape(heads[part], array.shape[0] // heads[part] // 2, 2, *array.shape[1:])
                    array = rows.swapaxes(1, 2).reshape(array.shape)
                state[theirs].copy_(torch.from_numpy(np.ascontiguousarray(array)))


def _rotary_heads(model: transformers.LlamaForCausalLM) -> dict[str, int]:
    return {"attn_q": model.config.num_attention_heads, "attn_k": model.config.num_key_value_heads}


def gguf_llama_tensors(model: transformers.LlamaForCausalLM) -> dict[str, np.ndarray]:
    """The model's weights under GGUF's names, in GGUF's order of rows."""
    state = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    tensors = {ours: state[theirs] for ours, theirs in _state_names(model).items()}
    heads = _rotary_heads(model)
    for name in tensors:
        part = name.split(".")[-2]
        if part in heads:
            tensors[name] = _to_interleaved(tensors[name], heads[part])
    return tensors


def write_gguf_llama(
    path: Path,
    model: transformers.LlamaForCausalLM,
    quantisation: gguf.GGMLQuantizationType | None = None,
    extra: Mapping[str, np.ndarray] | None = None,
) -> Path:
    """The model as a GGUF file, its matrices quantised (None: f32), with a byte-level tokenizer.

    ``extra`` are more tensors, or others in place of the model's; u8 arrays are quantised blocks as they are.
    """
    config = model.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    add_tokenizer(writer)
    for name, array in {**gguf_llama_tensors(model), **(extra or {})}.items():
        if quantisation is not None and array.dtype == np.uint8:
            writer.add_tensor(name, array, raw_dtype=quantisation)
        elif quantisation is not None and array.ndim == 2:
            writer.add_tensor(name, quantize(array, quantisation), raw_dtype=quantisation)
        else:
            writer.add_tensor(name, np.ascontiguousarray(array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def add_tokenizer(writer: gguf.GGUFWriter) -> None:
    """A byte-level vocabulary with four control tokens and one merge."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([*alphabet, "<|bos|>", "<|endoftext|>", "<|turn_end|>", "<|start|>", "he"])
    writer.add_token_types([1] * 256 + [3] * 4 + [1])
    writer.add_token_merges(["h e"])
    writer.add_bos_token_id(BOS)
    writer.add_eos_token_id(EOS)
    writer.add_chat_template(TEMPLATE)


def with_dequantised_weights(
    model: transformers.LlamaForCausalLM, quantisation: gguf.GGMLQuantizationType
) -> transformers.LlamaForCausalLM:
    """The model whose matrices are what the quantised file holds (a row's blocks do not depend on the rows' order)."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                values = dequantize(quantize(parameter.numpy(), quantisation), quantisation)
                parameter.copy_(torch.from_numpy(values.reshape(parameter.shape)))
    return model
