"""All-MiniLM-L6-v2 written once over array operators: the reference of the bert cases, and JAX's implementation.

``MiniLM.forward(weights, ids)`` uses only operators and methods that NumPy and JAX arrays share, so the arithmetic is
that of the weights' own library and dtype. Weights are read from the installed model's safetensors file.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod, sqrt
from pathlib import Path
from typing import Any

import numpy as np

from snell.bench.arrays import F64, gelu, layer_norm, softmax
from snell.bench.cases import Bert
from snell.bench.models import model_path

__all__ = ["MiniLM", "minilm_reference", "minilm_weights", "token_ids"]

LAYERS, HEADS, VOCABULARY = 6, 12, 30522
EPSILON = 1e-12


@dataclass(frozen=True, slots=True)
class MiniLM:
    """The model, given the three functions that are not operators in its array library."""

    layer_norm: Callable[..., Any]
    gelu: Callable[..., Any]
    softmax: Callable[..., Any]

    def forward(self, weights: Mapping[str, Any], ids: Any) -> Any:
        """Token ids (batch, sequence), without padding, to the last hidden state (batch, sequence, 384)."""
        words = weights["embeddings.word_embeddings.weight"][ids]
        positions = weights["embeddings.position_embeddings.weight"][: ids.shape[1]]
        x = words + positions + weights["embeddings.token_type_embeddings.weight"][0]
        x = self._norm(weights, "embeddings.LayerNorm", x)
        for layer in range(LAYERS):
            prefix = f"encoder.layer.{layer}."
            attended = _linear(weights, prefix + "attention.output.dense", self._attention(weights, prefix, x))
            x = self._norm(weights, prefix + "attention.output.LayerNorm", attended + x)
            hidden = self.gelu(_linear(weights, prefix + "intermediate.dense", x))
            x = self._norm(weights, prefix + "output.LayerNorm", _linear(weights, prefix + "output.dense", hidden) + x)
        return x

    def _attention(self, weights: Mapping[str, Any], prefix: str, x: Any) -> Any:
        batch, sequence, width = x.shape

        def heads(name: str) -> Any:
            projected = _linear(weights, f"{prefix}attention.self.{name}", x)
            return projected.reshape(batch, sequence, HEADS, width // HEADS).swapaxes(1, 2)

        scores = heads("query") @ heads("key").swapaxes(-1, -2) / sqrt(width // HEADS)
        return (self.softmax(scores) @ heads("value")).swapaxes(1, 2).reshape(batch, sequence, width)

    def _norm(self, weights: Mapping[str, Any], name: str, x: Any) -> Any:
        return self.layer_norm(x, weights[name + ".weight"], weights[name + ".bias"], EPSILON)


def minilm_weights() -> dict[str, np.ndarray]:
    """The weights by their names in the file, float32."""
    return _read_safetensors(model_path("minilm") / "model.safetensors")


def token_ids(case: Bert) -> np.ndarray:
    """Random token ids (batch, sequence), int64, without the special ones."""
    return np.random.default_rng(case.batch * 1000 + case.sequence).integers(
        999, VOCABULARY, (case.batch, case.sequence)
    )


def minilm_reference(case: Bert) -> F64:
    """The last hidden state in float64."""
    weights = {name: array.astype(np.float64) for name, array in minilm_weights().items()}
    return MiniLM(layer_norm=layer_norm, gelu=gelu, softmax=softmax).forward(weights, token_ids(case))


def _linear(weights: Mapping[str, Any], name: str, x: Any) -> Any:
    return x @ weights[name + ".weight"].T + weights[name + ".bias"]


def _read_safetensors(path: Path) -> dict[str, np.ndarray]:
    """The float32 tensors of a file: a header's length (8 bytes), the header in JSON, the data."""
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    return {
        name: np.frombuffer(content, np.float32, prod(entry["shape"]), start + entry["data_offsets"][0]).reshape(
            entry["shape"]
        )
        for name, entry in header.items()
        if entry.get("dtype") == "F32"
    }
