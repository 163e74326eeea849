"""The families by the name that a GGUF file (``general.architecture``) or a ``config.json`` (``model_type``) gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from snell.deferred import deferred
from snell.errors import UnsupportedError
from snell.importers.gguf import GGUFFile
from snell.llm.families.catalogue import (
    GEMMA2,
    GEMMA3,
    LLAMA,
    MIXTRAL,
    PHI3,
    QWEN2,
    QWEN2_MOE,
    QWEN3,
    QWEN3_MOE,
)
from snell.llm.families.description import FamilyDescription
from snell.llm.families.encoder import Encoder
from snell.llm.hyperparameters import Hyperparameters

# A process opens models of one kind, so the other's modules stay unread.
if TYPE_CHECKING:
    from snell.llm.families import bert
else:
    bert = deferred("snell.llm.families.bert")

__all__ = ["DECODERS", "ENCODERS", "EncoderFamily", "family_named"]


@dataclass(frozen=True, slots=True)
class EncoderFamily:
    """How a text encoder is read; ``names`` maps GGUF's stems of weights to those of a Hugging Face folder."""

    from_gguf: Callable[[GGUFFile], Encoder]
    from_config: Callable[[Hyperparameters], Encoder]
    names: Mapping[str, str]


DECODERS: Mapping[str, FamilyDescription] = {
    "llama": LLAMA,
    "mistral": LLAMA,
    "mixtral": MIXTRAL,
    "qwen2": QWEN2,
    "qwen3": QWEN3,
    "qwen2moe": QWEN2_MOE,
    "qwen2_moe": QWEN2_MOE,
    "qwen3moe": QWEN3_MOE,
    "qwen3_moe": QWEN3_MOE,
    "phi3": PHI3,
    "gemma2": GEMMA2,
    "gemma3": GEMMA3,
    "gemma3_text": GEMMA3,
}

ENCODERS: Mapping[str, Callable[[], EncoderFamily]] = {
    "bert": lambda: EncoderFamily(bert.bert_from_gguf, bert.bert_from_config, bert.BERT_NAMES),
}


def family_named(architecture: str, where: str) -> FamilyDescription | EncoderFamily:
    """The family; UnsupportedError names the architecture that was found and those that are supported."""
    if architecture in DECODERS:
        return DECODERS[architecture]
    if architecture in ENCODERS:
        return ENCODERS[architecture]()
    supported = ", ".join((*DECODERS, *ENCODERS))
    raise UnsupportedError(f"{where}: the architecture is {architecture!r}; supported are {supported}")
