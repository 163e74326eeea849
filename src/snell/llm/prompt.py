"""Prompts: what ``generate`` may be given, told apart and turned into token ids.

A string is continued as it is; messages go through the chat template; whole numbers are token ids; a list of strings
or of conversations is a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from snell.deferred import deferred
from snell.errors import ConfigError, OutOfRangeError, UnsupportedError
from snell.llm.sampling import is_whole
from snell.llm.tokenizer import Tokenizer

if TYPE_CHECKING:
    from snell.llm import chat_template
    from snell.llm.chat_template import ChatTemplate
else:
    chat_template = deferred("snell.llm.chat_template")

__all__ = ["Prompt", "checked_ids", "is_batch", "is_conversation", "prompt_ids"]

# A message is a JSON object of the caller: role, content, tool calls.
Prompt = str | Sequence[Mapping[str, Any]] | Sequence[int]


def is_batch(prompt: Prompt | Sequence[Prompt]) -> bool:
    """True for a list of strings, of conversations or of lists of ids (and for an empty list)."""
    if isinstance(prompt, str | bytes) or not isinstance(prompt, Sequence | np.ndarray):
        return False
    items = cast("Sequence[Any]", prompt)
    return len(items) == 0 or not (isinstance(items[0], Mapping) or is_whole(items[0]))


def is_conversation(prompt: Prompt) -> bool:
    """True for messages; what is no prompt at all is none either."""
    if isinstance(prompt, str | bytes) or not isinstance(prompt, Sequence | np.ndarray):
        return False
    return len(prompt) > 0 and isinstance(prompt[0], Mapping)


def prompt_ids(
    prompt: Prompt,
    tokenizer: Tokenizer,
    template: Callable[[], ChatTemplate | None],
    tools: Sequence[Mapping[str, Any]] | None = None,
    variables: Mapping[str, Any] | None = None,
) -> list[int]:
    """Token ids; a prompt without any is a ConfigError.  The template is asked for where there are messages."""
    if isinstance(prompt, str):
        ids = tokenizer.encode(prompt)
    elif isinstance(prompt, bytes | Mapping) or not isinstance(prompt, Sequence | np.ndarray):
        raise _wrong(prompt)
    elif all(is_whole(item) for item in prompt):
        ids = checked_ids([int(id_) for id_ in cast("Sequence[int]", prompt)], tokenizer)
    elif all(isinstance(item, Mapping) for item in prompt):
        messages = cast("Sequence[Mapping[str, Any]]", prompt)
        ids = _conversation_ids(messages, tokenizer, template(), tools, variables or {})
        tools = variables = None
    else:
        raise _wrong(prompt)
    if tools is not None:
        raise ConfigError("tools: expected messages with them, which the model's chat template tells of the tools")
    if variables:
        raise ConfigError("template_variables: expected messages with them, received a prompt without a template")
    if not ids:
        raise ConfigError("the prompt has no tokens; give a text to continue")
    return ids


def _conversation_ids(
    messages: Sequence[Mapping[str, Any]],
    tokenizer: Tokenizer,
    template: ChatTemplate | None,
    tools: Sequence[Mapping[str, Any]] | None,
    variables: Mapping[str, Any],
) -> list[int]:
    if template is None:
        raise UnsupportedError(
            "the model has no chat template, so it cannot take messages; pass a string, which is continued as it is"
        )
    ids = chat_template.encode_chat(tokenizer, template, messages, tools, **variables)
    if tools is not None and ids == chat_template.encode_chat(tokenizer, template, messages, **variables):
        raise UnsupportedError("tools: the model's chat template says nothing of tools; describe them in a message")
    return ids


def checked_ids(ids: list[int], tokenizer: Tokenizer) -> list[int]:
    """A model may have fewer rows than the tokenizer has ids, never more that mean something."""
    wrong = next((id_ for id_ in ids if not 0 <= id_ < tokenizer.vocab_size), None)
    if wrong is not None:
        raise OutOfRangeError(f"expected token ids from 0 to {tokenizer.vocab_size - 1}, received {wrong}")
    return ids


def _wrong(prompt: object) -> ConfigError:
    received = repr(prompt)
    return ConfigError(
        "a prompt is a string, a list of messages such as {'role': 'user', 'content': '…'} or a list of token ids, "
        f"received {received if len(received) < 80 else received[:79] + '…'}"
    )
