"""Llama and its like (Llama 1-3, Mistral, SmolLM): https://arxiv.org/abs/2302.13971.

A layer: x + attention(rms_norm(x)), then x + down(silu(gate(y))·up(y)) with y = rms_norm(x).  Attention has grouped
key-value heads and rotary positions.  GGUF files hold query and key weights permuted so that rotary pairs are
neighbours; Hugging Face folders hold them with the pairs as halves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from snell.deferred import deferred
from snell.errors import UnsupportedError
from snell.importers.gguf import GGUFFile
from snell.llm.families.decoder import DecoderSizes
from snell.llm.families.rotary import Pairing, Rotary, rotary_from_config, rotated
from snell.llm.gguf_weights import GGUFWeights
from snell.llm.hyperparameters import Hyperparameters, gguf_hyperparameters

if TYPE_CHECKING:
    from snell.frontend.ops import activation, normalisation
    from snell.frontend.tensor import Tensor
    from snell.llm.families import attention
    from snell.llm.traced_cache import StepCache
    from snell.llm.weights import Weights
else:
    activation = deferred("snell.frontend.ops.activation")
    normalisation = deferred("snell.frontend.ops.normalisation")
    attention = deferred("snell.llm.families.attention")

__all__ = ["LLAMA_NAMES", "Llama", "llama_from_config", "llama_from_gguf"]

Tables = tuple["Tensor", "Tensor"]


@dataclass(frozen=True, slots=True)
class Llama:
    """``width`` is d; the head is the transposed token embedding where the weights have no ``output.weight``."""

    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    context: int
    vocabulary: int
    epsilon: float
    rotary: Rotary
    window: int = 0

    @property
    def sizes(self) -> DecoderSizes:
        """The sizes generation depends on."""
        return DecoderSizes(self.layers, self.kv_heads, self.head_dim, self.context, self.vocabulary)

    def hidden(self, weights: Weights, tokens: Tensor, cache: StepCache) -> Tensor:
        """i32 (tokens,) → normalised hidden states f32 (tokens, d)."""
        x = weights.rows("token_embd.weight", tokens)
        tables = self._tables(weights, cache)
        for layer in range(self.layers):
            name = f"blk.{layer}."
            y = normalisation.rms_norm(x, weights[name + "attn_norm.weight"], epsilon=self.epsilon)
            x = x + self._attention(weights, layer, y, cache, tables)
            y = normalisation.rms_norm(x, weights[name + "ffn_norm.weight"], epsilon=self.epsilon)
            x = x + _feed_forward(weights, name, y)
        return normalisation.rms_norm(x, weights["output_norm.weight"], epsilon=self.epsilon)

    def logits(self, weights: Weights, hidden: Tensor) -> Tensor:
        """f32 (n, d) → f32 (n, vocabulary)."""
        return attention.linear(hidden, weights["output.weight" if "output.weight" in weights else "token_embd.weight"])

    def _attention(self, weights: Weights, layer: int, x: Tensor, cache: StepCache, tables: Tables) -> Tensor:
        name = f"blk.{layer}.attn_"
        queries, keys, values = (
            attention.split_heads(
                attention.linear(x, weights[f"{name}{part}.weight"], weights.optional(f"{name}{part}.bias")), heads
            )
            for part, heads in (("q", self.heads), ("k", self.kv_heads), ("v", self.kv_heads))
        )
        queries, keys = (rotated(x, self.rotary, *tables) for x in (queries, keys))
        attend = partial(attention.causal_attention, window=self.window)
        attended = cache.attended(layer, queries, keys, values, attend)
        joined = attended.permute(1, 0, 2).reshape(x.shape[0], self.heads * self.head_dim)
        return attention.linear(joined, weights[name + "output.weight"], weights.optional(name + "output.bias"))

    def _tables(self, weights: Weights, cache: StepCache) -> Tables:
        """The rotary tables' rows for the step's tokens."""
        same, swapped = self.rotary.tables(cache.shape.capacity)
        rows = (weights.constant("rotary.same", same), weights.constant("rotary.swapped", swapped))
        first, second = (cache.rows_of(table) for table in rows)
        return first, second


def _feed_forward(weights: Weights, name: str, x: Tensor) -> Tensor:
    gate, up = (
        attention.linear(x, weights[f"{name}ffn_{part}.weight"], weights.optional(f"{name}ffn_{part}.bias"))
        for part in ("gate", "up")
    )
    return attention.linear(
        activation.silu(gate) * up, weights[name + "ffn_down.weight"], weights.optional(name + "ffn_down.bias")
    )


def llama_from_gguf(file: GGUFFile) -> Llama:
    """The hyperparameters in a GGUF file's metadata."""
    keys = gguf_hyperparameters(file)
    if keys.integer("expert_count", 0):
        raise UnsupportedError(f"{keys.where}: a mixture of experts; dense models of this architecture are supported")
    heads = keys.integer("attention.head_count")
    head_dim = keys.integer("attention.key_length", keys.integer("embedding_length") // heads)
    if keys.integer("attention.value_length", head_dim) != head_dim:
        raise UnsupportedError(f"{keys.where}: keys and values of different lengths")
    return Llama(
        layers=keys.integer("block_count"),
        heads=heads,
        kv_heads=keys.integer("attention.head_count_kv", heads),
        head_dim=head_dim,
        context=keys.integer("context_length"),
        vocabulary=file.tensors["token_embd.weight"].shape[0] if "token_embd.weight" in file.tensors else 0,
        epsilon=keys.number("attention.layer_norm_rms_epsilon"),
        rotary=_rotary_from_gguf(file, keys, head_dim),
    )


def _rotary_from_gguf(file: GGUFFile, keys: Hyperparameters, head_dim: int) -> Rotary:
    if keys.integer("rope.dimension_count", head_dim) != head_dim:
        raise UnsupportedError(f"{keys.where}: rotary positions on a part of each head")
    scaling = keys.text("rope.scaling.type", "none")
    if scaling not in ("none", "linear"):
        raise UnsupportedError(f"{keys.where}: rope.scaling.type {scaling!r}; supported are none and linear")
    divisors: tuple[float, ...] = ()
    if scaling == "linear":
        divisors = (keys.number("rope.scaling.factor"),) * (head_dim // 2)
    if "rope_freqs.weight" in file.tensors:
        divisors = tuple(float(value) for value in GGUFWeights(file).values("rope_freqs.weight"))
    return Rotary(head_dim, keys.number("rope.freq_base", 10000.0), Pairing.NEIGHBOURS, divisors)


def llama_from_config(config: Hyperparameters) -> Llama:
    """The hyperparameters in a Hugging Face ``config.json``."""
    if config.text("hidden_act", "silu") != "silu":
        raise UnsupportedError(f"{config.where}: hidden_act {config.text('hidden_act')!r}; silu is supported")
    heads = config.integer("num_attention_heads")
    head_dim = config.integer("head_dim", config.integer("hidden_size") // heads)
    return Llama(
        layers=config.integer("num_hidden_layers"),
        heads=heads,
        kv_heads=config.integer("num_key_value_heads", heads),
        head_dim=head_dim,
        context=config.integer("max_position_embeddings"),
        vocabulary=config.integer("vocab_size"),
        epsilon=config.number("rms_norm_eps"),
        rotary=rotary_from_config(config, head_dim),
        window=config.integer("sliding_window", 0),
    )


# GGUF's names of weights → those in a Hugging Face folder; {n} is the layer.
LLAMA_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "blk.{n}.attn_norm": "model.layers.{n}.input_layernorm",
    "blk.{n}.attn_q": "model.layers.{n}.self_attn.q_proj",
    "blk.{n}.attn_k": "model.layers.{n}.self_attn.k_proj",
    "blk.{n}.attn_v": "model.layers.{n}.self_attn.v_proj",
    "blk.{n}.attn_output": "model.layers.{n}.self_attn.o_proj",
    "blk.{n}.ffn_norm": "model.layers.{n}.post_attention_layernorm",
    "blk.{n}.ffn_gate": "model.layers.{n}.mlp.gate_proj",
    "blk.{n}.ffn_up": "model.layers.{n}.mlp.up_proj",
    "blk.{n}.ffn_down": "model.layers.{n}.mlp.down_proj",
}
