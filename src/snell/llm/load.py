"""Opening a model: a GGUF file, a Hugging Face folder, or a short name of the catalogue.

Only the header is read; weights stay in the file and are mapped into memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from snell.config import Config, process_environment
from snell.deferred import deferred
from snell.engine.default_engine import default_engine
from snell.errors import ConfigError, FileFormatError, ModelNotFoundError, UnsupportedError
from snell.importers.gguf import GGUFFile, read_gguf
from snell.llm.cache import KV_DTYPES
from snell.llm.compiler_protocol import Compiler
from snell.llm.embed import EmbeddingModel, EmbeddingModelParts
from snell.llm.engine_compiler import engine_compiler
from snell.llm.families.decoder_tensors import check_tensors
from snell.llm.families.description import FamilyDescription
from snell.llm.families.encoder import Pooling
from snell.llm.families.from_config import decoder_from_config
from snell.llm.families.from_gguf import decoder_from_gguf
from snell.llm.families.registry import family_named
from snell.llm.gguf_weights import GGUFWeights
from snell.llm.hyperparameters import Hyperparameters, gguf_hyperparameters, read_json
from snell.llm.model import LanguageModel, LanguageModelParts
from snell.llm.sampling import SamplingParams, is_whole
from snell.llm.stored_weight import file_identity
from snell.llm.template_source import TemplateSource
from snell.llm.tokenizer import KeptIndex, Tokenizer
from snell.rewrite.policy import Policy

if TYPE_CHECKING:
    from snell import store
    from snell.llm import hugging_face_weights
else:
    store = deferred("snell.store")
    hugging_face_weights = deferred("snell.llm.hugging_face_weights")

__all__ = ["load"]

Parts = LanguageModelParts | EmbeddingModelParts


def load(
    model: str | os.PathLike[str],
    context: int | None = None,
    threads: int | None = None,
    kv_dtype: str = "f16",
    precision: str | None = None,
    *,
    compiler: Compiler | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> LanguageModel | EmbeddingModel:
    """Open a model by its path, or by a short name ("smollm2", "minilm"), which is installed on its first use.

    ``context`` is the most tokens of a text (None: what the model was trained for; rotary scalings that depend on the
    length of a text take it to be this); ``kv_dtype`` what keys and values are kept as: "f16", "bf16", "f32", or "int8"
    with a scale for each row of a head (docs/precision.md); ``threads`` and ``precision`` go to the compiler, which
    ``compiler`` replaces; precision None is "fast" for quantised weights, whose products then round activations
    to 8 bits (docs/precision.md), and "default" else.  An architecture that is not supported is an UnsupportedError.
    The first use of a model compiles it, which takes seconds: ``progress`` is called with the kernels compiled and the
    number of all, and with (0, 0) when a compilation begins; never where the programs are in the cache.
    """
    if not isinstance(model, str | os.PathLike):
        raise ConfigError(f"model: expected a path or a short name, received {model!r}")
    if not all(number is None or is_whole(number) for number in (context, threads)):
        raise ConfigError(f"context, threads: expected whole numbers or None, received {context!r} and {threads!r}")
    if kv_dtype not in KV_DTYPES:
        raise ConfigError(f"kv_dtype: expected one of {', '.join(KV_DTYPES)}, received {kv_dtype!r}")
    path = _located(model)
    parts, trained, longest = _folder_parts(path) if path.is_dir() else _file_parts(path)
    if context is not None and not 1 <= context <= longest:
        raise ConfigError(f"context: the model was made for texts of 1 to {longest} tokens, received {context}")
    chosen = compiler if compiler is not None else engine_compiler(threads, precision or _precision(parts), progress)
    if isinstance(parts, EmbeddingModelParts):
        return EmbeddingModel(parts, chosen, context=context or trained)
    return LanguageModel(parts, chosen, context=context or trained, kv_dtype=KV_DTYPES[kv_dtype])


def _precision(parts: Parts) -> str | None:
    """What is used where nothing is asked for: weights of a few bits make rounding activations to 8 a small change."""
    weights = parts.weights
    return Policy.FAST.value if isinstance(weights, GGUFWeights) and weights.is_quantised else None


def _located(model: str | os.PathLike[str]) -> Path:
    path = Path(model).expanduser()
    if os.fspath(model) and path.exists():
        return path
    if isinstance(model, str) and model in store.CATALOGUE:
        return store.ModelStore(Config.from_environment(process_environment()).data_dir / "models").install(model)
    raise ModelNotFoundError(
        f"{os.fspath(model)!r}: no such file or folder, and the short names are {', '.join(store.CATALOGUE)}; "
        "check the spelling"
    )


def _file_parts(path: Path) -> tuple[Parts, int, int]:
    """The parts of a GGUF file's model, the context that it was trained for, and the longest one."""
    file = read_gguf(path)
    keys = gguf_hyperparameters(file)
    family = family_named(keys.prefix.removesuffix("."), keys.where)
    index = KeptIndex(default_engine().packed.cache, file_identity((path,)))
    tokenizer = Tokenizer.from_gguf(file.metadata, index)
    if isinstance(family, FamilyDescription):
        decoder, weights = decoder_from_gguf(file, family), GGUFWeights(file)
        check_tensors(decoder, weights)
        template = _template(file.metadata.get("tokenizer.chat_template"), tokenizer)
        return (
            LanguageModelParts(decoder, weights, tokenizer, template, SamplingParams()),
            decoder.context,
            decoder.longest,
        )
    encoder = family.from_gguf(file)
    context = encoder.sizes.context
    return EmbeddingModelParts(encoder, GGUFWeights(file), tokenizer, _gguf_pooling(file, keys)), context, context


def _gguf_pooling(file: GGUFFile, keys: Hyperparameters) -> Pooling:
    """llama.cpp's numbers: 0 none, 1 mean, 2 CLS, 3 last."""
    number = keys.integer("pooling_type", 1)
    known = {0: Pooling.MEAN, 1: Pooling.MEAN, 2: Pooling.CLS, 3: Pooling.LAST}
    if number not in known:
        raise UnsupportedError(f"{file.path}: pooling_type {number}; supported are 0 to 3")
    return known[number]


def _folder_parts(folder: Path) -> tuple[Parts, int, int]:
    """The parts of a Hugging Face folder's model, the context that it was trained for, and the longest one."""
    if not (folder / "config.json").is_file():
        raise FileFormatError(
            f"{folder}: expected a GGUF file or a Hugging Face folder, found a folder without config.json; "
            "give the path of the model's own file or folder"
        )
    config = read_json(folder / "config.json")
    family = family_named(config.text("model_type"), config.where)
    if isinstance(family, FamilyDescription):
        # A model that sees or hears too has its text model's settings in a group.
        decoder = decoder_from_config(config.group("text_config") if "text_config" in config else config, family)
        weights = hugging_face_weights.open_hugging_face_weights(folder, family.names, family.norm_offset)
        check_tensors(decoder, weights)
        tokenizer = Tokenizer.from_file(folder)
        template = _template(_folder_template(folder), tokenizer)
        parts = LanguageModelParts(decoder, weights, tokenizer, template, _folder_defaults(folder))
        return parts, decoder.context, decoder.longest
    encoder = family.from_config(config)
    weights = hugging_face_weights.open_hugging_face_weights(folder, family.names)
    context = _folder_context(folder, encoder.sizes.context)
    parts = EmbeddingModelParts(encoder, weights, Tokenizer.from_file(folder), _folder_pooling(folder))
    return parts, context, context


def _folder_context(folder: Path, positions: int) -> int:
    """Sentence-transformers models are trained on shorter texts than they have positions for."""
    file = folder / "sentence_bert_config.json"
    return min(positions, read_json(file).integer("max_seq_length", positions)) if file.is_file() else positions


def _folder_pooling(folder: Path) -> Pooling:
    file = folder / "1_Pooling" / "config.json"
    if not file.is_file():
        return Pooling.MEAN
    config = read_json(file)
    keys = {"mean_tokens": Pooling.MEAN, "cls_token": Pooling.CLS, "lasttoken": Pooling.LAST}
    chosen = [pooling for key, pooling in keys.items() if config.flag(f"pooling_mode_{key}", False)]
    if len(chosen) != 1:
        raise UnsupportedError(f"{file}: expected exactly one of the poolings {', '.join(keys)}")
    return chosen[0]


def _folder_template(folder: Path) -> object:
    separate = folder / "chat_template.jinja"
    if separate.is_file():
        return separate.read_text(encoding="utf-8")
    file = folder / "tokenizer_config.json"
    return read_json(file).values.get("chat_template") if file.is_file() else None


def _folder_defaults(folder: Path) -> SamplingParams:
    """``generation_config.json``, whose numbers mean something only where it says ``do_sample``."""
    file = folder / "generation_config.json"
    config = read_json(file) if file.is_file() else Hyperparameters({}, str(file))
    if not config.flag("do_sample", False):
        return SamplingParams()
    return SamplingParams(
        temperature=config.number("temperature", 1.0),
        top_k=config.integer("top_k", 0),
        top_p=config.number("top_p", 1.0),
        min_p=config.number("min_p", 0.0),
        typical_p=config.number("typical_p", 1.0),
        repetition_penalty=config.number("repetition_penalty", 1.0),
    )


def _template(source: object, tokenizer: Tokenizer) -> TemplateSource | None:
    """The template, the one called "default" where there are several."""
    if isinstance(source, list):
        named: dict[str, Any] = {}
        for entry in cast("list[Any]", source):
            if not isinstance(entry, Mapping) or not {"name", "template"} <= entry.keys():
                raise FileFormatError("chat_template: expected objects with name and template")
            named[entry["name"]] = entry["template"]
        source = named.get("default")
    if source is None:
        return None
    if not isinstance(source, str):
        raise FileFormatError(f"chat_template: expected a string, received {type(source).__name__}")
    return TemplateSource(source, tokenizer.bos_token, tokenizer.eos_token)
