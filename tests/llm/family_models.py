"""One small random model of each family, made with transformers: the judge of logits."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

VOCABULARY = 260
TRAINED = 24  # the first length of models whose positions are stretched
WINDOW = 8

_SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 40,
    "intermediate_size": 56,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "bos_token_id": 256,
    "eos_token_id": 257,
    "pad_token_id": None,
    "attn_implementation": "eager",
}
_EXPERTS = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 24}


def _rope(kind: str, **keys: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 10000.0, **keys}}


def _long(dimensions: int) -> dict[str, Any]:
    halves = range(dimensions // 2)
    keys = {"short_factor": [1 + i / 8 for i in halves], "long_factor": [1.5 + i for i in halves]}
    return {
        **_rope("longrope", original_max_position_embeddings=TRAINED, **keys),
        "original_max_position_embeddings": TRAINED,
    }


_Made = Callable[[Mapping[str, Any]], Any]


def _maker(model: Any, config: Any) -> _Made:
    return lambda keys: model(config(**{**_SIZES, **keys}))


_LLAMA = _maker(transformers.LlamaForCausalLM, transformers.LlamaConfig)
_QWEN2 = _maker(transformers.Qwen2ForCausalLM, transformers.Qwen2Config)
_QWEN3 = _maker(transformers.Qwen3ForCausalLM, transformers.Qwen3Config)
_MISTRAL = _maker(transformers.MistralForCausalLM, transformers.MistralConfig)
_MIXTRAL = _maker(transformers.MixtralForCausalLM, transformers.MixtralConfig)
_QWEN2_MOE = _maker(transformers.Qwen2MoeForCausalLM, transformers.Qwen2MoeConfig)
_QWEN3_MOE = _maker(transformers.Qwen3MoeForCausalLM, transformers.Qwen3MoeConfig)
_PHI3 = _maker(transformers.Phi3ForCausalLM, transformers.Phi3Config)
_GEMMA2 = _maker(transformers.Gemma2ForCausalLM, transformers.Gemma2Config)
_GEMMA3 = _maker(transformers.Gemma3ForCausalLM, transformers.Gemma3TextConfig)
_LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0}

_FAMILIES: Mapping[str, tuple[_Made, Mapping[str, Any]]] = {
    "llama": (_LLAMA, {"head_dim": 12}),
    "smollm": (_LLAMA, {"tie_word_embeddings": True}),
    "llama-linear": (_LLAMA, _rope("linear", factor=4.0)),
    "llama-dynamic": (_LLAMA, {**_rope("dynamic", factor=2.0), "max_position_embeddings": TRAINED}),
    "llama-yarn": (_LLAMA, _rope("yarn", factor=4.0, original_max_position_embeddings=TRAINED)),
    "llama3": (_LLAMA, _rope("llama3", factor=8.0, original_max_position_embeddings=TRAINED, **_LLAMA3)),
    "mistral": (_MISTRAL, {"sliding_window": WINDOW, "head_dim": 12}),
    "mixtral": (_MIXTRAL, {"num_local_experts": 6, "sliding_window": WINDOW}),
    "qwen2": (_QWEN2, {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1}),
    "qwen2.5-yarn": (_QWEN2, _rope("yarn", factor=4.0, original_max_position_embeddings=TRAINED)),
    "qwen3": (_QWEN3, {"head_dim": 12, "tie_word_embeddings": True}),
    "qwen2-moe": (_QWEN2_MOE, {**_EXPERTS, "shared_expert_intermediate_size": 48, "mlp_only_layers": [1]}),
    "qwen3-moe": (_QWEN3_MOE, {**_EXPERTS, "head_dim": 12, "norm_topk_prob": True}),
    "phi3": (_PHI3, {"sliding_window": WINDOW}),
    "phi3-longrope": (_PHI3, _long(10)),
    "phi4-mini": (
        _PHI3,
        {**_rope("default", partial_rotary_factor=0.6), "partial_rotary_factor": 0.6, "tie_word_embeddings": True},
    ),
    "gemma2": (_GEMMA2, {"head_dim": 12, "query_pre_attn_scalar": 12, "sliding_window": WINDOW}),
    "gemma3": (
        _GEMMA3,
        {"head_dim": 12, "query_pre_attn_scalar": 12, "sliding_window": WINDOW, "num_hidden_layers": 7},
    ),
}

NAMES = tuple(_FAMILIES)

# What GGUF files of these families cannot say: windows of llamas and Qwens, experts in some layers, dynamic scaling.
GGUF_CHANGES: Mapping[str, Mapping[str, Any]] = {
    "mistral": {"sliding_window": None},
    "mixtral": {"sliding_window": None},
    "qwen2": {"use_sliding_window": False},
    "qwen2-moe": {"mlp_only_layers": []},
}
GGUF_NAMES = tuple(name for name in NAMES if name != "llama-dynamic")


def family_model(name: str, **changes: Any) -> Any:
    """The model of the family; its weights follow from the name alone, norms and biases are random too."""
    make, keys = _FAMILIES[name]
    model = make({**keys, **changes}).eval()
    random = np.random.default_rng(NAMES.index(name))
    with torch.no_grad():
        for _, parameter in sorted(model.named_parameters()):
            values = torch.from_numpy(random.standard_normal(parameter.shape, np.float32))
            if parameter.ndim == 1:
                parameter.add_(values * 0.2)
            else:
                parameter.copy_(values * 0.3)
    return model


def write_config(folder: Path, **changes: Any) -> None:
    """Change keys of a folder's config; None takes a key out."""
    file = folder / "config.json"
    values = {**json.loads(file.read_text()), **changes}
    file.write_text(json.dumps({key: value for key, value in values.items() if value is not None}))
