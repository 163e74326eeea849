"""The families of text generators: each is its differences from llama, and its names of weights."""

from dataclasses import replace

from snell.llm.families.description import Activation, FamilyDescription
from snell.llm.families.rotary import Pairing

__all__ = ["GEMMA2", "GEMMA3", "LLAMA", "MIXTRAL", "PHI3", "QWEN2", "QWEN2_MOE", "QWEN3", "QWEN3_MOE"]

_LAYER = "model.layers.{n}."

_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "blk.{n}.attn_norm": _LAYER + "input_layernorm",
    "blk.{n}.attn_q": _LAYER + "self_attn.q_proj",
    "blk.{n}.attn_k": _LAYER + "self_attn.k_proj",
    "blk.{n}.attn_v": _LAYER + "self_attn.v_proj",
    "blk.{n}.attn_q_norm": _LAYER + "self_attn.q_norm",
    "blk.{n}.attn_k_norm": _LAYER + "self_attn.k_norm",
    "blk.{n}.attn_output": _LAYER + "self_attn.o_proj",
    "blk.{n}.ffn_norm": _LAYER + "post_attention_layernorm",
    "blk.{n}.ffn_gate": _LAYER + "mlp.gate_proj",
    "blk.{n}.ffn_up": _LAYER + "mlp.up_proj",
    "blk.{n}.ffn_down": _LAYER + "mlp.down_proj",
}

_OUTPUT_NORM_NAMES = {
    "blk.{n}.post_attention_norm": _LAYER + "post_attention_layernorm",
    "blk.{n}.ffn_norm": _LAYER + "pre_feedforward_layernorm",
    "blk.{n}.post_ffw_norm": _LAYER + "post_feedforward_layernorm",
}

_FUSED_NAMES = {
    "blk.{n}.attn_qkv": _LAYER + "self_attn.qkv_proj",
    "blk.{n}.ffn_up": _LAYER + "mlp.gate_up_proj",
}

_MIXTRAL_NAMES = {
    "blk.{n}.ffn_gate_inp": _LAYER + "block_sparse_moe.gate",
    "blk.{n}.ffn_gate_exps": _LAYER + "block_sparse_moe.experts.{e}.w1",
    "blk.{n}.ffn_up_exps": _LAYER + "block_sparse_moe.experts.{e}.w3",
    "blk.{n}.ffn_down_exps": _LAYER + "block_sparse_moe.experts.{e}.w2",
}

_QWEN_MOE_NAMES = {
    "blk.{n}.ffn_gate_inp": _LAYER + "mlp.gate",
    "blk.{n}.ffn_gate_exps": _LAYER + "mlp.experts.{e}.gate_proj",
    "blk.{n}.ffn_up_exps": _LAYER + "mlp.experts.{e}.up_proj",
    "blk.{n}.ffn_down_exps": _LAYER + "mlp.experts.{e}.down_proj",
    "blk.{n}.ffn_gate_inp_shexp": _LAYER + "mlp.shared_expert_gate",
    "blk.{n}.ffn_gate_shexp": _LAYER + "mlp.shared_expert.gate_proj",
    "blk.{n}.ffn_up_shexp": _LAYER + "mlp.shared_expert.up_proj",
    "blk.{n}.ffn_down_shexp": _LAYER + "mlp.shared_expert.down_proj",
}

# https://arxiv.org/abs/2302.13971; its GGUF files hold query and key weights permuted, so that rotary pairs are
# neighbours.  SmolLM and Mistral (https://arxiv.org/abs/2310.06825) are llamas, Mixtral is one with experts.
LLAMA = FamilyDescription({**_NAMES, **_MIXTRAL_NAMES}, pairing=Pairing.NEIGHBOURS)

# https://arxiv.org/abs/2401.04088.
MIXTRAL = replace(LLAMA, rope_base=1e6)

# https://arxiv.org/abs/2407.10671: biases of queries, keys and values; windows only where the config asks for them.
QWEN2 = FamilyDescription(_NAMES, window_on_request=True)

# https://arxiv.org/abs/2505.09388.
QWEN3 = replace(QWEN2, head_norms=True, head_dim=128)

QWEN2_MOE = replace(QWEN2, names={**_NAMES, **_QWEN_MOE_NAMES}, experts_normalised=False)

QWEN3_MOE = replace(QWEN3, names={**_NAMES, **_QWEN_MOE_NAMES}, head_dim=0)

# https://arxiv.org/abs/2404.14219.
PHI3 = FamilyDescription({**_NAMES, **_FUSED_NAMES}, fused=True)

# https://arxiv.org/abs/2408.00118: the first of two layers sees a window.
GEMMA2 = FamilyDescription(
    {**_NAMES, **_OUTPUT_NORM_NAMES},
    activation=Activation.GELU_TANH,
    norm_offset=1.0,
    output_norms=True,
    tied=True,
    embedding_scaled=True,
    head_dim=256,
    window_period=2,
    width_scaled_layers=(46,),
    caps=(50.0, 30.0),
)

# https://arxiv.org/abs/2503.19786: five of six layers see a window and turn by a base of their own.
GEMMA3 = replace(
    GEMMA2,
    head_norms=True,
    rope_base=1e6,
    local_rope_base=10000.0,
    window_period=6,
    width_scaled_layers=(62,),
    caps=(0.0, 0.0),
)
