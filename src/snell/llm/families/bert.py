"""BERT and its like (MiniLM, BGE, E5): https://arxiv.org/abs/1810.04805.

Word, position and segment embeddings are added and normalised; a layer normalises after each half:
x = layer_norm(x + attention(x)), x = layer_norm(x + down(gelu(up(x)))).  All texts are one segment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from snell.deferred import deferred
from snell.errors import UnsupportedError
from snell.importers.gguf import GGUFFile
from snell.llm.families.encoder import EncoderSizes
from snell.llm.hyperparameters import Hyperparameters, gguf_hyperparameters

if TYPE_CHECKING:
    from snell.frontend.ops import activation, movement, normalisation
    from snell.frontend.tensor import Tensor
    from snell.llm.families import attention
    from snell.llm.weights import Weights
else:
    activation = deferred("snell.frontend.ops.activation")
    movement = deferred("snell.frontend.ops.movement")
    normalisation = deferred("snell.frontend.ops.normalisation")
    attention = deferred("snell.llm.families.attention")

__all__ = ["BERT_NAMES", "Bert", "bert_from_config", "bert_from_gguf"]


@dataclass(frozen=True, slots=True)
class Bert:
    """``width`` is d; ``context`` the number of position embeddings."""

    layers: int
    heads: int
    width: int
    context: int
    vocabulary: int
    epsilon: float

    @property
    def sizes(self) -> EncoderSizes:
        """The sizes embedding depends on."""
        return EncoderSizes(self.width, self.context, self.vocabulary)

    def hidden(self, weights: Weights, tokens: Tensor, mask: Tensor) -> Tensor:
        """i32 and bool (texts, tokens) → f32 (texts, tokens, d)."""
        words = weights.rows("token_embd.weight", tokens)
        positions = movement.crop(weights["position_embd.weight"], 0, 0, tokens.shape[1])
        segment = movement.crop(weights["token_types.weight"], 0, 0, 1)
        x = self._normalised(weights, "token_embd_norm", words + positions + segment)
        for layer in range(self.layers):
            name = f"blk.{layer}."
            x = self._normalised(weights, name + "attn_output_norm", x + self._attention(weights, name, x, mask))
            inner = activation.gelu(_biased(weights, name + "ffn_up", x))
            x = self._normalised(weights, name + "layer_output_norm", x + _biased(weights, name + "ffn_down", inner))
        return x

    def _attention(self, weights: Weights, name: str, x: Tensor, mask: Tensor) -> Tensor:
        queries, keys, values = (
            attention.split_heads(_biased(weights, f"{name}attn_{part}", x), self.heads) for part in ("q", "k", "v")
        )
        attended = attention.masked_attention(queries, keys, values, mask).permute(0, 2, 1, 3)
        return _biased(weights, name + "attn_output", attended.reshape(*x.shape))

    def _normalised(self, weights: Weights, name: str, x: Tensor) -> Tensor:
        return normalisation.layer_norm(x, weights[name + ".weight"], weights[name + ".bias"], epsilon=self.epsilon)


def _biased(weights: Weights, name: str, x: Tensor) -> Tensor:
    return attention.linear(x, weights[name + ".weight"], weights.optional(name + ".bias"))


def bert_from_gguf(file: GGUFFile) -> Bert:
    """The hyperparameters in a GGUF file's metadata."""
    keys = gguf_hyperparameters(file)
    if keys.flag("attention.causal", False):
        raise UnsupportedError(f"{keys.where}: a BERT with causal attention; encoders see the whole text")
    return Bert(
        layers=keys.layers("block_count"),
        heads=keys.integer("attention.head_count"),
        width=keys.integer("embedding_length"),
        context=keys.integer("context_length"),
        vocabulary=file.tensors["token_embd.weight"].shape[0] if "token_embd.weight" in file.tensors else 0,
        epsilon=keys.number("attention.layer_norm_epsilon"),
    )


def bert_from_config(config: Hyperparameters) -> Bert:
    """The hyperparameters in a Hugging Face ``config.json``."""
    for key, supported in (("hidden_act", "gelu"), ("position_embedding_type", "absolute")):
        if config.text(key, supported) != supported:
            raise UnsupportedError(f"{config.where}: {key} {config.text(key)!r}; {supported} is supported")
    return Bert(
        layers=config.layers("num_hidden_layers"),
        heads=config.integer("num_attention_heads"),
        width=config.integer("hidden_size"),
        context=config.integer("max_position_embeddings"),
        vocabulary=config.integer("vocab_size"),
        epsilon=config.number("layer_norm_eps"),
    )


# GGUF's names of weights → those in a Hugging Face folder; {n} is the layer.
BERT_NAMES = {
    "token_embd": "bert.embeddings.word_embeddings",
    "position_embd": "bert.embeddings.position_embeddings",
    "token_types": "bert.embeddings.token_type_embeddings",
    "token_embd_norm": "bert.embeddings.LayerNorm",
    "blk.{n}.attn_q": "bert.encoder.layer.{n}.attention.self.query",
    "blk.{n}.attn_k": "bert.encoder.layer.{n}.attention.self.key",
    "blk.{n}.attn_v": "bert.encoder.layer.{n}.attention.self.value",
    "blk.{n}.attn_output": "bert.encoder.layer.{n}.attention.output.dense",
    "blk.{n}.attn_output_norm": "bert.encoder.layer.{n}.attention.output.LayerNorm",
    "blk.{n}.ffn_up": "bert.encoder.layer.{n}.intermediate.dense",
    "blk.{n}.ffn_down": "bert.encoder.layer.{n}.output.dense",
    "blk.{n}.layer_output_norm": "bert.encoder.layer.{n}.output.LayerNorm",
}
