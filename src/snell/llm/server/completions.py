"""``/v1/completions``: texts continued as they are."""

from typing import Any, cast

from snell.llm.generated_text import GeneratedText
from snell.llm.prompt import Prompt
from snell.llm.sampling import is_whole
from snell.llm.server.answers import CompletionAnswer
from snell.llm.server.fields import Fields
from snell.llm.server.generation_fields import Delivery, delivery, sampling_options
from snell.llm.server.request_error import RequestError
from snell.llm.server.service import Service

__all__ = ["completion_texts"]

_DEFAULT_TOKENS = 16
_MOST_LOGPROBS = 20


def completion_texts(fields: Fields, service: Service) -> tuple[list[GeneratedText], CompletionAnswer, Delivery]:
    """The texts to generate for a request, and how to answer with them."""
    model, _ = service.generator()
    how = delivery(fields)
    prompts = _prompts(fields.needed("prompt"))
    limit = fields.whole("max_tokens", _DEFAULT_TOKENS, 0, 2**31)
    wanted = fields.value("logprobs")
    logprobs = None if wanted is None else fields.whole("logprobs", 0, 0, _MOST_LOGPROBS)
    echo = fields.flag("echo")
    if echo and logprobs is not None:
        raise RequestError(400, "echo: not together with logprobs; the prompt's tokens have none here", "echo")
    options = [sampling_options(fields, limit, logprobs, choice) for choice in range(how.choices)]
    fields.neutral("best_of", how.choices, instead="use n")
    fields.neutral("suffix", "")
    fields.end()
    texts = [service.planned(prompt, option) for prompt in prompts for option in options]
    echoes = [_echo(prompt, service) if echo else "" for prompt in prompts for _ in options]
    answer = CompletionAnswer(
        service.settings.name, model.tokenizer, echoes, how.choices, logprobs=logprobs is not None
    )
    return texts, answer, how


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


def _echo(prompt: Prompt, service: Service) -> str:
    return prompt if isinstance(prompt, str) else service.model.tokenizer.decode(cast("list[int]", prompt))
