"""``/v1/completions``: texts continued as they are."""

import time
from collections.abc import Callable, Sequence
from typing import Any, cast

from snell.llm.generated_text import GeneratedText
from snell.llm.prompt import Prompt
from snell.llm.sampling import is_whole
from snell.llm.server.completion_answer import CompletionAnswer, Echo
from snell.llm.server.fields import Fields
from snell.llm.server.generation_fields import Delivery, delivery, sampling_options
from snell.llm.server.logprobs import Listed
from snell.llm.server.request_error import RequestError
from snell.llm.server.service import Service, close_texts
from snell.llm.serving import RequestTimeoutError

__all__ = ["CompletionRequest", "completion_request"]

_DEFAULT_TOKENS = 16
_MOST_LOGPROBS = 20


class CompletionRequest:
    """The texts to generate, in the order of their prompts, and how to answer with them."""

    def __init__(
        self, service: Service, prompts: Sequence[Prompt], texts: list[GeneratedText], how: Delivery, echo: bool
    ) -> None:
        self.texts, self.how = texts, how
        self._service, self._prompts, self._echo = service, prompts, echo
        self._logprobs = texts[0].plan.logprobs

    @property
    def scores(self) -> bool:
        """Whether the prompts' own tokens are to be scored, which takes a pass over each."""
        return self._echo and self._logprobs is not None

    def answer(self, is_wanted: Callable[[], bool]) -> CompletionAnswer:
        """How the texts are written down; a RequestTimeoutError where scoring takes too long."""
        model, _ = self._service.generator()
        deadline = time.monotonic() + self._service.settings.request_seconds
        texts = self.texts[:: self.how.choices]
        each = [self._echo_of(*pair, is_wanted, deadline) for pair in zip(self._prompts, texts, strict=True)]
        echoes = [echo for echo in each for _ in range(self.how.choices)]
        return CompletionAnswer(
            self._service.settings.name,
            model.tokenizer,
            echoes,
            self.how.choices,
            logprobs=self._logprobs is not None,
        )

    def _echo_of(self, prompt: Prompt, text: GeneratedText, is_wanted: Callable[[], bool], deadline: float) -> Echo:
        if not self._echo:
            return Echo()
        model, _ = self._service.generator()
        ids = text.plan.prompt
        # What the tokenizer puts before a text is not repeated.
        added = 1 if isinstance(prompt, str) and ids[0] == model.tokenizer.bos_id else 0
        listed: list[Listed] = [ids[0]] if self.scores else []
        for scored in model.prompt_logprobs(ids, self._logprobs or 0) if self.scores and len(ids) > 1 else ():
            if not is_wanted() or time.monotonic() > deadline:
                raise RequestTimeoutError("the prompt's tokens took longer than requests may; send a shorter prompt")
            listed.append(scored)
        said = prompt if isinstance(prompt, str) else model.tokenizer.decode(cast("list[int]", prompt))
        return Echo(said, tuple(listed[added:]))


def completion_request(fields: Fields, service: Service) -> CompletionRequest:
    """What a request asks for."""
    service.generator()
    how = delivery(fields)
    prompts = _prompts(fields.needed("prompt"))
    service.check_texts(how.choices * len(prompts), "n" if how.choices > 1 else "prompt")
    limit = fields.whole("max_tokens", _DEFAULT_TOKENS, 0, 2**31)
    wanted = fields.value("logprobs")
    logprobs = None if wanted is None else fields.whole("logprobs", 0, 0, _MOST_LOGPROBS)
    echo = fields.flag("echo")
    options = [sampling_options(fields, limit, logprobs, choice, {}) for choice in range(how.choices)]
    fields.neutral("best_of", how.choices, instead="use n")
    fields.neutral("suffix", "")
    fields.end()
    texts: list[GeneratedText] = []
    try:
        for prompt in prompts:
            texts += service.planned(prompt, options)
    except Exception:
        close_texts(texts)
        raise
    return CompletionRequest(service, prompts, texts, how, echo)


def _prompts(given: Any) -> list[Prompt]:
    """One string or list of ids, or a list of such."""
    if isinstance(given, str):
        return [given]
    if isinstance(given, list) and given:
        items = cast("list[Any]", given)
        if all(is_whole(item) for item in items):
            return [cast("list[int]", items)]
        if all(isinstance(item, str) for item in items):
            return items
        if all(isinstance(item, list) and item and all(is_whole(id_) for id_ in item) for item in items):
            return items
    raise RequestError(400, "prompt: expected a string, a list of token ids, or a list of such", "prompt")
