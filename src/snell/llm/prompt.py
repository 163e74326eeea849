"""Prompts: what ``generate`` may be given, told apart and turned into token ids.

A string is continued as it is; messages go through the chat template; whole numbers are token ids; a list of strings
or of conversations is a batch.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from snell.errors import ConfigError, UnsupportedError
from snell.llm.chat_template import ChatTemplate, Message, encode_chat
from snell.llm.tokenizer import Tokenizer

__all__ = ["Prompt", "is_batch", "prompt_ids"]

Prompt = str | Sequence[Message] | Sequence[int]


def is_batch(prompt: Prompt | Sequence[Prompt]) -> bool:
    """True for a list of strings, of conversations or of lists of ids (and for an empty list)."""
    if isinstance(prompt, str):
        return False
    if not isinstance(prompt, Sequence):
        raise ConfigError(f"prompt: expected a string, messages, token ids or a list of them, received {prompt!r}")
    items = cast("Sequence[Any]", prompt)
    return len(items) == 0 or not isinstance(items[0], Mapping | int)


def prompt_ids(prompt: Prompt, tokenizer: Tokenizer, template: ChatTemplate | None) -> list[int]:
    """Token ids; a prompt without any is a ConfigError."""
    if isinstance(prompt, str):
        ids = tokenizer.encode(prompt)
    elif all(isinstance(item, int) for item in prompt):
        ids = [int(id_) for id_ in cast("Sequence[int]", prompt)]
    else:
        if template is None:
            raise UnsupportedError(
                "the model has no chat template, so it cannot take messages; pass a string, which is continued as it is"
            )
        ids = encode_chat(tokenizer, template, cast("Sequence[Message]", prompt))
    if not ids:
        raise ConfigError("the prompt has no tokens; give a text to continue")
    return ids
