"""Options of a generation, as the caller gives them: None means the model's own default."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypedDict, cast

from snell.deferred import deferred
from snell.errors import ConfigError
from snell.llm.sampling import SamplingParams, is_whole

if TYPE_CHECKING:
    import difflib
else:
    difflib = deferred("difflib")

__all__ = ["GenerateKeywords", "GenerateOptions", "UnknownOptionError"]

_SAMPLING = (
    "temperature", "top_k", "top_p", "min_p", "typical_p", "repetition_penalty", "frequency_penalty", "presence_penalty",
)  # fmt: skip
# What a template is given of its own; a variable of such a name would take its place.
_OF_TEMPLATES = frozenset({"messages", "tools", "add_generation_prompt", "bos_token", "eos_token"})


class UnknownOptionError(ConfigError, TypeError):
    """An option that does not exist; as with any call in Python, also a TypeError."""


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
    tool_choice: str | Mapping[str, Any] | None
    parallel_tool_calls: bool | None
    template_variables: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class GenerateOptions:
    """``max_tokens`` None: until the model stops or the context is full; ``logprobs``: alternatives to list a token.

    ``tool_choice`` is explained in ``tool_calls.call_rules``; with ``parallel_tool_calls`` False a text has one call at
    most.  With ``json_schema`` and ``tools`` the text is JSON of the schema or calls.  ``template_variables`` are more
    names for the chat template, such as ``enable_thinking``.
    """

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
    tool_choice: str | Mapping[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    template_variables: Mapping[str, Any] | None = None

    @classmethod
    def of_keywords(cls, given: Mapping[str, Any]) -> "GenerateOptions":
        """The options of a call; a name that is none is an UnknownOptionError that says which is meant."""
        known = [field.name for field in fields(cls)]
        for name in given:
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                instead = f"did you mean {near[0]}?" if near else f"expected some of {', '.join(known)}"
                raise UnknownOptionError(f"generate has no option {name!r}; {instead}")
        return cls(**given)

    def __post_init__(self) -> None:
        others = [name for name in ("json_schema", "tools") if getattr(self, name) is not None]
        if self.grammar is not None and others:
            raise ConfigError(f"{others[0]} and grammar: expected one of them, for each says what the text may be")
        for name in ("max_tokens", "logprobs"):
            value = getattr(self, name)
            if value is not None and not (is_whole(value) and value >= 0):
                raise ConfigError(f"{name}: expected a whole number of at least 0, received {value!r}")
        if not all(isinstance(text, str) for text in self.stop_strings):
            raise ConfigError(f"stop: expected a string or a list of strings, received {self.stop!r}")
        if self.tools is None and self.tool_choice not in (None, "none", "auto"):
            raise ConfigError(f"tool_choice: expected tools with it, received {self.tool_choice!r} without any")
        if not isinstance(self.parallel_tool_calls, bool | None):
            raise ConfigError(f"parallel_tool_calls: expected True or False, received {self.parallel_tool_calls!r}")
        self._check_template_variables()

    def _check_template_variables(self) -> None:
        """Their names are those of Python's, for a template could name no other."""
        given = self.template_variables
        names = cast("Mapping[object, object]", given) if isinstance(given, Mapping) else None
        if given is not None and (names is None or not all(isinstance(n, str) and n.isidentifier() for n in names)):
            raise ConfigError(f"template_variables: expected names and their values, received {given!r}")
        taken = sorted(_OF_TEMPLATES & (given or {}).keys())
        if taken:
            raise ConfigError(f"template_variables: {taken[0]} is a template's already; leave it out")

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
