"""Options of a generation, as the caller gives them: None means the model's own default."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict, cast

from snell.errors import ConfigError
from snell.llm.sampling import SamplingParams, is_whole

__all__ = ["GenerateKeywords", "GenerateOptions"]

_SAMPLING = (
    "temperature", "top_k", "top_p", "min_p", "typical_p", "repetition_penalty", "frequency_penalty", "presence_penalty",
)  # fmt: skip


class GenerateKeywords(TypedDict, total=False):
    """The keyword arguments of ``generate``, for type checkers."""

    max_tokens: int | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    typical_p: float | None
    repetition_penalty: float | None
    frequency_penalty: float | None
    presence_penalty: float | None
    seed: int | None
    stop: str | Sequence[str] | None
    logprobs: int | None
    logit_bias: Mapping[int, float] | None
    json_schema: Mapping[str, Any] | str | None
    grammar: str | None
    tools: Sequence[Mapping[str, Any]] | None


@dataclass(frozen=True, slots=True)
class GenerateOptions:
    """``max_tokens`` None: until the model stops or the context is full; ``logprobs``: alternatives to list a token."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    typical_p: float | None = None
    repetition_penalty: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    seed: int | None = None
    stop: str | Sequence[str] | None = None
    logprobs: int | None = None
    logit_bias: Mapping[int, float] | None = None
    json_schema: Mapping[str, Any] | str | None = None
    grammar: str | None = None
    tools: Sequence[Mapping[str, Any]] | None = None

    def __post_init__(self) -> None:
        given = [name for name in ("json_schema", "grammar", "tools") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ConfigError(f"{' and '.join(given)}: expected one of them, for each says what the text may be")
        for name in ("max_tokens", "logprobs"):
            value = getattr(self, name)
            if value is not None and not (is_whole(value) and value >= 0):
                raise ConfigError(f"{name}: expected a whole number of at least 0, received {value!r}")
        if not all(isinstance(text, str) for text in self.stop_strings):
            raise ConfigError(f"stop: expected a string or a list of strings, received {self.stop!r}")

    @property
    def stop_strings(self) -> tuple[str, ...]:
        """The texts that end a generation."""
        if self.stop is None:
            return ()
        return tuple(self.stop) if isinstance(self.stop, list | tuple) else (cast("str", self.stop),)

    def sampling(self, defaults: SamplingParams) -> SamplingParams:
        """What was given, and the model's defaults for the rest."""
        given = {name: value for name in _SAMPLING if (value := getattr(self, name)) is not None}
        return replace(defaults, **given, seed=self.seed, logit_bias=self.logit_bias)
