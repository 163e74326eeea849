"""The weights that a decoder consists of, with their shapes: what a file or folder must hold to be this model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from snell.errors import FileFormatError
from snell.llm.families.decoder import Decoder, Mixture
from snell.llm.stored_weight import WeightSource

__all__ = ["check_tensors"]


@dataclass(frozen=True, slots=True)
class _Expected:
    """``optional``: a bias, which a model may be without."""

    name: str
    shape: tuple[int, ...]
    optional: bool = False


def check_tensors(decoder: Decoder, source: WeightSource) -> None:
    """A missing tensor is a ModelNotFoundError, one of another shape a FileFormatError; both name it."""
    for expected in _tensors(decoder):
        if expected.optional and expected.name not in source:
            continue
        received = source.shape(expected.name)
        if received != expected.shape:
            raise FileFormatError(
                f"{source.described(expected.name)}: expected shape {expected.shape}, received {received}; "
                "the model's settings and weights do not belong together, fetch or convert it again"
            )


def _tensors(decoder: Decoder) -> Iterator[_Expected]:
    width = decoder.width
    yield _Expected("token_embd.weight", (decoder.vocabulary, width))
    yield _Expected("output_norm.weight", (width,))
    if not decoder.tied:
        yield _Expected("output.weight", (decoder.vocabulary, width))
    for layer in range(decoder.layers):
        name = f"blk.{layer}."
        norms = ("post_attention_norm", "post_ffw_norm") if decoder.output_norms else ()
        for norm in ("attn_norm", "ffn_norm", *norms):
            yield _Expected(f"{name}{norm}.weight", (width,))
        yield from _attention_tensors(decoder, name + "attn_")
        if decoder.mixture is not None and layer in decoder.mixture.layers:
            yield from _mixture_tensors(decoder, decoder.mixture, name + "ffn_")
        else:
            yield from _dense_tensors(decoder, name + "ffn_", "", decoder.inner)


def _attention_tensors(decoder: Decoder, name: str) -> Iterator[_Expected]:
    queries, keys = decoder.heads * decoder.head_dim, decoder.kv_heads * decoder.head_dim
    parts = {"qkv": queries + 2 * keys} if decoder.fused else {"q": queries, "k": keys, "v": keys}
    for part, rows in parts.items():
        yield from _linear_tensors(name + part, rows, decoder.width)
    yield from _linear_tensors(name + "output", decoder.width, queries)
    if decoder.head_norms:
        yield _Expected(name + "q_norm.weight", (decoder.head_dim,))
        yield _Expected(name + "k_norm.weight", (decoder.head_dim,))


def _dense_tensors(decoder: Decoder, name: str, kind: str, inner: int) -> Iterator[_Expected]:
    parts = {"up": 2 * inner} if decoder.fused else {"gate": inner, "up": inner}
    for part, rows in parts.items():
        yield from _linear_tensors(f"{name}{part}{kind}", rows, decoder.width)
    yield from _linear_tensors(f"{name}down{kind}", decoder.width, inner)


def _mixture_tensors(decoder: Decoder, mixture: Mixture, name: str) -> Iterator[_Expected]:
    experts, width = mixture.experts, decoder.width
    yield _Expected(name + "gate_inp.weight", (experts, width))
    yield _Expected(name + "gate_exps.weight", (experts, mixture.width, width))
    yield _Expected(name + "up_exps.weight", (experts, mixture.width, width))
    yield _Expected(name + "down_exps.weight", (experts, width, mixture.width))
    if mixture.shared:
        yield from _dense_tensors(decoder, name, "_shexp", mixture.shared)


def _linear_tensors(stem: str, rows: int, columns: int) -> Iterator[_Expected]:
    yield _Expected(stem + ".weight", (rows, columns))
    yield _Expected(stem + ".bias", (rows,), optional=True)
