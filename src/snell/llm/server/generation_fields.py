"""What the two endpoints that generate text have in common: sampling, the stream, parameters that change nothing."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, cast

from snell.llm.options import GenerateOptions
from snell.llm.server.fields import Fields
from snell.llm.server.request_error import RequestError

__all__ = ["Delivery", "Demands", "delivery", "sampling_options"]

_MOST_CHOICES = 128
_MOST_STOPS = 16
_TOKEN = re.compile(r"[0-9]{1,10}", re.ASCII)
# They tell of the client, or are about what this server does not have; the answer is the same without them.
_IGNORED = (
    "metadata",
    "model",
    "prediction",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
    "store",
    "user",
)


class Demands(TypedDict, total=False):
    """Options of a conversation about what its text may be."""

    json_schema: Mapping[str, Any] | None
    tools: Sequence[Mapping[str, Any]] | None
    tool_choice: str | Mapping[str, Any] | None
    parallel_tool_calls: bool
    template_variables: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Delivery:
    """How the texts are delivered: ``choices`` for each prompt, as a stream or not, with the usage at its end."""

    choices: int
    stream: bool
    usage: bool


def delivery(fields: Fields) -> Delivery:
    """``n``, ``stream`` and ``stream_options``; what changes nothing is seen here as well."""
    fields.ignored(*_IGNORED)
    stream = fields.flag("stream")
    options = fields.group("stream_options")
    usage = options.flag("include_usage")
    options.ignored("include_obfuscation")
    options.end()
    if options.names and not stream:
        raise RequestError(400, "stream_options: only where stream is true", "stream_options")
    return Delivery(fields.whole("n", 1, 1, _MOST_CHOICES), stream, usage)


def sampling_options(
    fields: Fields, max_tokens: int | None, logprobs: int | None, choice: int, demands: Demands
) -> GenerateOptions:
    """The options of one choice; each has a seed of its own, derived from the request's."""
    seed = fields.value("seed")
    if seed is not None:
        seed = (fields.whole("seed", 0, -(2**63), 2**63 - 1) + choice) % 2**64
    return GenerateOptions(
        max_tokens=max_tokens,
        temperature=fields.value("temperature"),
        top_k=fields.value("top_k"),
        top_p=fields.value("top_p"),
        min_p=fields.value("min_p"),
        typical_p=fields.value("typical_p"),
        repetition_penalty=fields.value("repetition_penalty"),
        frequency_penalty=fields.number("frequency_penalty", -2, 2),
        presence_penalty=fields.number("presence_penalty", -2, 2),
        seed=seed,
        stop=_stop(fields),
        logprobs=logprobs,
        logit_bias=_logit_bias(fields),
        grammar=_grammar(fields),
        **demands,
    )


def _grammar(fields: Fields) -> str | None:
    for other in ("json_schema", "tools"):
        fields.means("grammar", f"{other} and grammar")
    return None if fields.value("grammar") is None else fields.text("grammar", "")


def _stop(fields: Fields) -> list[str] | None:
    stop = fields.value("stop")
    if stop is None:
        return None
    texts = cast("list[Any]", stop if isinstance(stop, list) else [stop])
    if len(texts) > _MOST_STOPS or not all(isinstance(text, str) and text for text in texts):
        raise RequestError(
            400, f"stop: expected a string, or at most {_MOST_STOPS} of them, none of them empty", "stop"
        )
    return texts


def _logit_bias(fields: Fields) -> Mapping[int, float] | None:
    given = fields.value("logit_bias")
    if given is None:
        return None
    if not isinstance(given, dict) or not all(_TOKEN.fullmatch(key) for key in cast("dict[str, Any]", given)):
        raise RequestError(400, "logit_bias: expected an object of token ids and numbers", "logit_bias")
    return {int(key): value for key, value in cast("dict[str, Any]", given).items()}
