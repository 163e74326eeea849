"""The families by the name that a GGUF file (``general.architecture``) or a ``config.json`` (``model_type``) gives."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from snell.errors import UnsupportedError
from snell.importers.gguf import GGUFFile
from snell.llm.families.bert import BERT_NAMES, bert_from_config, bert_from_gguf
from snell.llm.families.decoder import Decoder
from snell.llm.families.encoder import Encoder
from snell.llm.families.gemma3 import gemma3_from_config, gemma3_from_gguf
from snell.llm.families.llama import LLAMA_NAMES, llama_from_config, llama_from_gguf
from snell.llm.hyperparameters import Hyperparameters

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


_LLAMA = DecoderFamily(llama_from_gguf, llama_from_config, LLAMA_NAMES)
_GEMMA3 = DecoderFamily(gemma3_from_gguf, gemma3_from_config, {})

FAMILIES: Mapping[str, DecoderFamily | EncoderFamily] = {
    "llama": _LLAMA,
    "mistral": _LLAMA,
    "gemma3": _GEMMA3,
    "gemma3_text": _GEMMA3,
    "bert": EncoderFamily(bert_from_gguf, bert_from_config, BERT_NAMES),
}


def family_named(architecture: str, where: str) -> DecoderFamily | EncoderFamily:
    """The family; UnsupportedError names the architecture that was found and those that are supported."""
    if architecture not in FAMILIES:
        raise UnsupportedError(f"{where}: the architecture is {architecture!r}; supported are {', '.join(FAMILIES)}")
    return FAMILIES[architecture]
