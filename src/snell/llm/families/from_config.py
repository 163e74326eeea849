"""A decoder from a Hugging Face ``config.json`` and the description of its family."""

from __future__ import annotations

import math

from snell.errors import FileFormatError, UnsupportedError
from snell.llm.families.decoder import Decoder, Mixture
from snell.llm.families.description import Activation, FamilyDescription
from snell.llm.families.rotary_reading import positions_from_config
from snell.llm.families.windows import periodic_windows
from snell.llm.hyperparameters import Hyperparameters

__all__ = ["decoder_from_config"]

_ACTIVATIONS = {"silu": Activation.SILU, "gelu": Activation.GELU, "gelu_pytorch_tanh": Activation.GELU_TANH}


def decoder_from_config(config: Hyperparameters, family: FamilyDescription) -> Decoder:
    """The config's values; where it has none, what the family's own code takes."""
    width, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    head_dim = config.integer("head_dim", family.head_dim or _quotient(config, width, heads))
    positions = positions_from_config(config, family, head_dim)
    score_cap, logit_cap = (
        _optional_number(config, key, default)
        for key, default in zip(("attn_logit_softcapping", "final_logit_softcapping"), family.caps, strict=True)
    )
    return Decoder(
        heads=heads,
        kv_heads=config.integer("num_key_value_heads", heads),
        head_dim=head_dim,
        width=width,
        inner=config.integer("intermediate_size"),
        context=config.integer("max_position_embeddings"),
        longest=positions.longest,
        vocabulary=config.integer("vocab_size"),
        epsilon=config.number("rms_norm_eps"),
        windows=_windows(config, family),
        rotary=positions.rotary,
        local_rotary=positions.local,
        activation=_activation(config, family),
        embedding_scale=math.sqrt(width) if family.embedding_scaled else 1.0,
        score_scale=1 / math.sqrt(config.number("query_pre_attn_scalar", head_dim)),
        score_cap=score_cap,
        logit_cap=logit_cap,
        tied=config.flag("tie_word_embeddings", family.tied),
        output_norms=family.output_norms,
        head_norms=family.head_norms,
        fused=family.fused,
        mixture=_mixture(config, family),
    )


def _quotient(config: Hyperparameters, width: int, heads: int) -> int:
    if heads < 1 or width % heads:
        raise FileFormatError(
            f"{config.where}: expected num_attention_heads to divide hidden_size, received {heads} and {width}"
        )
    return width // heads


def _optional_number(config: Hyperparameters, key: str, default: float) -> float:
    """0 where the key is there with null, the default where it is not there."""
    return config.number(key, 0.0 if key in config.values else default)


def _activation(config: Hyperparameters, family: FamilyDescription) -> Activation:
    name = config.text("hidden_activation", config.text("hidden_act", family.activation.value))
    known = {**_ACTIVATIONS, family.activation.value: family.activation}
    if name not in known:
        raise UnsupportedError(f"{config.where}: hidden_act {name!r}; supported are {', '.join(_ACTIVATIONS)}")
    return known[name]


def _windows(config: Hyperparameters, family: FamilyDescription) -> tuple[int, ...]:
    """By ``layer_types`` where the config lists them."""
    layers, window = config.layers("num_hidden_layers"), config.integer("sliding_window", 0)
    if "layer_types" in config:
        kinds = config.texts("layer_types")
        known = {"sliding_attention": window, "full_attention": 0}
        if len(kinds) != layers:
            raise FileFormatError(f"{config.where}: expected {layers} layer_types, received {len(kinds)}")
        if not set(kinds) <= known.keys():
            raise UnsupportedError(
                f"{config.where}: layer_types {sorted(set(kinds))}; supported are {', '.join(known)}"
            )
        return tuple(known[kind] for kind in kinds)
    if not family.window_on_request:
        return periodic_windows(layers, window, config.integer("sliding_window_pattern", family.window_period))
    if not config.flag("use_sliding_window", False):
        return (0,) * layers
    first = config.integer("max_window_layers", 0)
    return tuple(window if layer >= first else 0 for layer in range(layers))


def _mixture(config: Hyperparameters, family: FamilyDescription) -> Mixture | None:
    """Mixtral and Qwen call the same numbers by different names."""
    experts = config.integer("num_local_experts", config.integer("num_experts", 0))
    if not experts:
        return None
    dense, step = config.integers("mlp_only_layers"), config.integer("decoder_sparse_step", 1)
    layers = range(config.layers("num_hidden_layers"))
    return Mixture(
        experts=experts,
        chosen=_chosen(config, "num_experts_per_tok", experts),
        width=config.integer("moe_intermediate_size", config.integer("intermediate_size")),
        shared=config.integer("shared_expert_intermediate_size", 0),
        normalised=config.flag("norm_topk_prob", "moe_intermediate_size" not in config),
        layers=tuple(layer for layer in layers if layer not in dense and (layer + 1) % step == 0),
    )


def _chosen(config: Hyperparameters, key: str, experts: int) -> int:
    chosen = config.integer(key)
    if not 1 <= chosen <= experts:
        raise FileFormatError(f"{config.where}: {key}: expected 1 to {experts} experts, received {chosen}")
    return chosen
