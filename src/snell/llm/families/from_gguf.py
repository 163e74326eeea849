"""A decoder from a GGUF file's metadata, the names of its tensors, and the description of its family."""

from __future__ import annotations

import math

from snell.errors import FileFormatError, UnsupportedError
from snell.importers.gguf import GGUFFile
from snell.llm.families.decoder import Decoder, Mixture
from snell.llm.families.description import FamilyDescription
from snell.llm.families.rotary_reading import positions_from_gguf
from snell.llm.families.windows import periodic_windows
from snell.llm.hyperparameters import Hyperparameters, gguf_hyperparameters

__all__ = ["decoder_from_gguf"]


def decoder_from_gguf(file: GGUFFile, family: FamilyDescription) -> Decoder:
    """The file's values; where it has none, what llama.cpp takes."""
    keys = gguf_hyperparameters(file)
    width, heads, layers = (
        keys.integer("embedding_length"),
        keys.integer("attention.head_count"),
        keys.layers("block_count"),
    )
    head_dim = _head_dim(keys, family, width, heads)
    positions = positions_from_gguf(file, keys, family, head_dim)
    by_width = layers in family.width_scaled_layers
    score_cap, logit_cap = family.caps
    period = keys.integer("attention.sliding_window_pattern", family.window_period)
    return Decoder(
        heads=heads,
        kv_heads=keys.integer("attention.head_count_kv", heads),
        head_dim=head_dim,
        width=width,
        inner=keys.integer("feed_forward_length"),
        context=keys.integer("context_length"),
        longest=positions.longest,
        vocabulary=_vocabulary(file),
        epsilon=keys.number("attention.layer_norm_rms_epsilon"),
        windows=periodic_windows(layers, keys.integer("attention.sliding_window", 0), period),
        rotary=positions.rotary,
        local_rotary=positions.local,
        activation=family.activation,
        embedding_scale=math.sqrt(width) if family.embedding_scaled else 1.0,
        score_scale=keys.number("attention.scale", 1 / math.sqrt(width / heads if by_width else head_dim)),
        score_cap=keys.number("attn_logit_softcapping", score_cap),
        logit_cap=keys.number("final_logit_softcapping", logit_cap),
        tied="output.weight" not in file.tensors,
        output_norms=family.output_norms,
        head_norms=family.head_norms,
        fused=family.fused,
        mixture=_mixture(file, keys, family, layers),
    )


def _head_dim(keys: Hyperparameters, family: FamilyDescription, width: int, heads: int) -> int:
    if heads < 1 or ("attention.key_length" not in keys and not family.head_dim and width % heads):
        raise FileFormatError(
            f"{keys.where}: expected attention.head_count to divide embedding_length, received {heads} and {width}"
        )
    head_dim = keys.integer("attention.key_length", family.head_dim or width // heads)
    if keys.integer("attention.value_length", head_dim) != head_dim:
        raise UnsupportedError(f"{keys.where}: keys and values of different lengths; equal ones are supported")
    return head_dim


def _vocabulary(file: GGUFFile) -> int:
    info = file.tensors.get("token_embd.weight")
    return 0 if info is None else info.rows


def _mixture(file: GGUFFile, keys: Hyperparameters, family: FamilyDescription, layers: int) -> Mixture | None:
    """Layers with a router have experts."""
    experts = keys.integer("expert_count", 0)
    if not experts:
        return None
    chosen = keys.integer("expert_used_count")
    if not 1 <= chosen <= experts:
        raise FileFormatError(f"{keys.where}: expert_used_count: expected 1 to {experts}, received {chosen}")
    routed = tuple(layer for layer in range(layers) if f"blk.{layer}.ffn_gate_inp.weight" in file.tensors)
    has_shared = any(f"blk.{layer}.ffn_gate_inp_shexp.weight" in file.tensors for layer in routed)
    return Mixture(
        experts=experts,
        chosen=chosen,
        width=keys.integer("expert_feed_forward_length", keys.integer("feed_forward_length")),
        shared=keys.integer("expert_shared_feed_forward_length", keys.integer("feed_forward_length"))
        if has_shared
        else 0,
        normalised=keys.flag("expert_weights_norm", family.experts_normalised),
        layers=routed,
    )
