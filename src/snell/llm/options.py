"""Options of a generation, as the caller gives them: None means the model's own default."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, cast

from snell.errors import ConfigError, UnsupportedError
from snell.llm.sampling import SamplingParams, is_whole

__all__ = ["GenerateKeywords", "GenerateOptions"]


class GenerateKeywords(TypedDict, total=False):
    """The keyword arguments of ``generate``, for type checkers."""

    max_tokens: int | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
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
    seed: int | None = None
    stop: str | Sequence[str] | None = None
    logprobs: int | None = None
    logit_bias: Mapping[int, float] | None = None
    json_schema: Mapping[str, Any] | str | None = None
    grammar: str | None = None
    tools: Sequence[Mapping[str, Any]] | None = None

    def __post_init__(self) -> None:
        for name in ("json_schema", "grammar", "tools"):
            if getattr(self, name) is not None:
                raise UnsupportedError(f"{name}: constrained generation is not in this version; ask in the prompt")
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
        return SamplingParams(
            temperature=defaults.temperature if self.temperature is None else self.temperature,
            top_k=defaults.top_k if self.top_k is None else self.top_k,
            top_p=defaults.top_p if self.top_p is None else self.top_p,
            min_p=defaults.min_p if self.min_p is None else self.min_p,
            seed=self.seed,
            logit_bias=self.logit_bias,
        )
