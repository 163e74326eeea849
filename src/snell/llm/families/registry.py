"""The families by the name that a GGUF file (``general.architecture``) or a ``config.json`` (``model_type``) gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from snell.deferred import deferred
from snell.errors import UnsupportedError
from snell.importers.gguf import GGUFFile
from snell.llm.families.decoder import Decoder
from snell.llm.families.encoder import Encoder
from snell.llm.hyperparameters import Hyperparameters

# A process opens models of one family, so the others' modules stay unread.
if TYPE_CHECKING:
    from snell.llm.families import bert, gemma3, llama
else:
    bert = deferred("snell.llm.families.bert")
    gemma3 = deferred("snell.llm.families.gemma3")
    llama = deferred("snell.llm.families.llama")

__all__ = ["FAMILIES", "DecoderFamily", "EncoderFamily", "family_named"]


@dataclass(frozen=True, slots=True)
class DecoderFamily:
    """How a text generator is read; ``weight_names`` maps GGUF's stems to those of a Hugging Face folder."""

    from_gguf: Callable[[GGUFFile], Decoder]
    from_config: Callable[[Hyperparameters], Decoder]
    weight_names: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class EncoderFamily:
    """How a text encoder is read; ``weight_names`` as for decoders."""

    from_gguf: Callable[[GGUFFile], Encoder]
    from_config: Callable[[Hyperparameters], Encoder]
    weight_names: Mapping[str, str]


def _llama() -> DecoderFamily:
    return DecoderFamily(llama.llama_from_gguf, llama.llama_from_config, llama.LLAMA_NAMES)


def _gemma3() -> DecoderFamily:
    return DecoderFamily(gemma3.gemma3_from_gguf, gemma3.gemma3_from_config, {})


def _bert() -> EncoderFamily:
    return EncoderFamily(bert.bert_from_gguf, bert.bert_from_config, bert.BERT_NAMES)


FAMILIES: Mapping[str, Callable[[], DecoderFamily | EncoderFamily]] = {
    "llama": _llama,
    "mistral": _llama,
    "gemma3": _gemma3,
    "gemma3_text": _gemma3,
    "bert": _bert,
}


def family_named(architecture: str, where: str) -> DecoderFamily | EncoderFamily:
    """The family; UnsupportedError names the architecture that was found and those that are supported."""
    if architecture not in FAMILIES:
        raise UnsupportedError(f"{where}: the architecture is {architecture!r}; supported are {', '.join(FAMILIES)}")
    return FAMILIES[architecture]()
