"""The rotary embedding that a ``config.json`` or a GGUF file describes, and how long a context it is good for."""

from __future__ import annotations

from dataclasses import dataclass

from snell.errors import FileFormatError, UnsupportedError
from snell.importers.gguf import GGUFFile
from snell.llm.families.description import FamilyDescription
from snell.llm.families.rope_scaling import (
    Divided,
    DynamicBase,
    LongRope,
    Scaling,
    linear,
    llama3,
    longrope_magnitude,
    yarn,
)
from snell.llm.families.rotary import Pairing, Rotary
from snell.llm.gguf_weights import GGUFWeights
from snell.llm.hyperparameters import Hyperparameters

__all__ = ["Positions", "positions_from_config", "positions_from_gguf"]

_TRAINED = "original_max_position_embeddings"


@dataclass(frozen=True, slots=True)
class Positions:
    """The embedding of all layers, that of layers with a window (None: the same), and the longest context."""

    rotary: Rotary
    local: Rotary | None
    longest: int


def positions_from_config(config: Hyperparameters, family: FamilyDescription, head_dim: int) -> Positions:
    """Transformers 5 writes ``rope_parameters``, by kind of layer where they differ; earlier versions ``rope_theta``,
    ``rope_local_base_freq`` and ``rope_scaling``.
    """
    parameters = config.group("rope_parameters" if "rope_parameters" in config else "rope_scaling")
    local_base = family.local_rope_base
    if local_base is not None:
        local_base = config.number("rope_local_base_freq", local_base)
        if "full_attention" in parameters:
            local_base = parameters.group("sliding_attention").number("rope_theta", local_base)
            parameters = parameters.group("full_attention")
    base = parameters.number("rope_theta", config.number("rope_theta", family.rope_base))
    part = parameters.number("partial_rotary_factor", config.number("partial_rotary_factor", 1.0))
    dimensions = int(head_dim * part)
    context = config.integer("max_position_embeddings")
    trained = parameters.integer(_TRAINED, config.integer(_TRAINED, context))
    scaling = _config_scaling(parameters, base, dimensions, context, trained)
    factor = parameters.number("factor", 1.0)
    local = None if local_base is None else Rotary(dimensions, local_base, Pairing.HALVES)
    return Positions(Rotary(dimensions, base, Pairing.HALVES, scaling), local, max(context, int(factor * trained)))


def _config_scaling(
    parameters: Hyperparameters, base: float, dimensions: int, context: int, trained: int
) -> Scaling | None:
    kind = parameters.text("rope_type", parameters.text("type", "default"))
    match kind:
        case "default":
            return None
        case "linear":
            return linear(parameters.number("factor"))
        case "dynamic":
            return DynamicBase(parameters.number("factor"), context)
        case "llama3":
            bounds = parameters.number("low_freq_factor"), parameters.number("high_freq_factor")
            return llama3(parameters.number("factor"), base, dimensions, parameters.integer(_TRAINED), bounds)
        case "yarn":
            return _config_yarn(parameters, base, dimensions, context, trained)
        case "longrope" | "su":
            factors = [
                _divisors(parameters.numbers(key), dimensions, f"{parameters.where}: {key}")
                for key in ("short_factor", "long_factor")
            ]
            ratio = parameters.number("factor", context / trained)
            magnitude = parameters.number("attention_factor", longrope_magnitude(ratio, trained))
            return LongRope(*factors, trained, magnitude)
        case _:
            raise UnsupportedError(
                f"{parameters.where}: rope_type {kind!r}; supported are default, linear, dynamic, llama3, yarn and longrope"
            )


def _config_yarn(parameters: Hyperparameters, base: float, dimensions: int, context: int, trained: int) -> Scaling:
    factor = parameters.number("factor", context / trained)
    magnitude = parameters.number("attention_factor") if "attention_factor" in parameters else None
    if magnitude is None and "mscale" in parameters and "mscale_all_dim" in parameters:
        raise UnsupportedError(f"{parameters.where}: mscale and mscale_all_dim; attention_factor is supported")
    return yarn(
        factor,
        base,
        dimensions,
        trained,
        rotations=(parameters.number("beta_fast", 32.0), parameters.number("beta_slow", 1.0)),
        magnitude=magnitude,
        truncated=parameters.flag("truncate", True),
    )


def _divisors(values: tuple[float, ...], dimensions: int, where: str) -> tuple[float, ...]:
    if len(values) != dimensions // 2:
        raise FileFormatError(f"{where}: expected {dimensions // 2} numbers, received {len(values)}")
    return values


def positions_from_gguf(file: GGUFFile, keys: Hyperparameters, family: FamilyDescription, head_dim: int) -> Positions:
    """Frequency divisors of llama 3 and LongRoPE are tensors of the file."""
    dimensions = keys.integer("rope.dimension_count", head_dim)
    base = keys.number("rope.freq_base", family.rope_base)
    context = keys.integer("context_length")
    trained = keys.integer("rope.scaling.original_context_length", context)
    local = None
    if family.local_rope_base is not None:
        local = Rotary(dimensions, keys.number("rope.freq_base_swa", family.local_rope_base), family.pairing)
    scaling = _gguf_scaling(file, keys, base, dimensions, trained)
    longest = max(context, int(keys.number("rope.scaling.factor", 1.0) * trained))
    return Positions(Rotary(dimensions, base, family.pairing, scaling), local, longest)


def _gguf_scaling(file: GGUFFile, keys: Hyperparameters, base: float, dimensions: int, trained: int) -> Scaling | None:
    magnitude = keys.number("rope.scaling.attn_factor", 1.0)
    if "rope_factors_long.weight" in file.tensors:
        short, long = (_tensor_divisors(file, f"rope_factors_{kind}.weight", dimensions) for kind in ("short", "long"))
        return LongRope(short, long, trained, magnitude)
    if "rope_freqs.weight" in file.tensors:
        return Divided(_tensor_divisors(file, "rope_freqs.weight", dimensions), magnitude)
    kind = keys.text("rope.scaling.type", "none")
    match kind:
        case "none":
            return None
        case "linear":
            return linear(keys.number("rope.scaling.factor"))
        case "yarn":
            rotations = (
                keys.number("rope.scaling.yarn_beta_fast", 32.0),
                keys.number("rope.scaling.yarn_beta_slow", 1.0),
            )
            return yarn(keys.number("rope.scaling.factor"), base, dimensions, trained, rotations=rotations)
        case _:
            raise UnsupportedError(
                f"{keys.where}: rope.scaling.type {kind!r}; supported are none, linear, yarn, and longrope with its tensors"
            )


def _tensor_divisors(file: GGUFFile, name: str, dimensions: int) -> tuple[float, ...]:
    values = tuple(float(value) for value in GGUFWeights(file).values(name).reshape(-1))
    return _divisors(values, dimensions, f"{file.path}: tensor {name!r}")
