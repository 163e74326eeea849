"""Prompts: what ``generate`` may be given, told apart and turned into token ids.

A string is continued as it is; messages go through the chat template; whole numbers are token ids; a list of strings
or of conversations is a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from snell.deferred import deferred
from snell.errors import ConfigError, UnsupportedError
from snell.llm.tokenizer import Tokenizer

if TYPE_CHECKING:
    from snell.llm import chat_template
    from snell.llm.chat_template import ChatTemplate
else:
    chat_template = deferred("snell.llm.chat_template")

__all__ = ["Prompt", "is_batch", "prompt_ids"]

# A message is a JSON object of the caller: role, content, tool calls.
Prompt = str | Sequence[Mapping[str, Any]] | Sequence[int]


def is_batch(prompt: Prompt | Sequence[Prompt]) -> bool:
    """True for a list of strings, of conversations or of lists of ids (and for an empty list)."""
    if isinstance(prompt, str):
        return False
    items = cast("Sequence[Any]", prompt)
    return len(items) == 0 or not isinstance(items[0], Mapping | int)


def prompt_ids(prompt: Prompt, tokenizer: Tokenizer, template: Callable[[], ChatTemplate | None]) -> list[int]:
    """Token ids; a prompt without any is a ConfigError.  The template is asked for where there are messages."""
    if isinstance(prompt, str):
        ids = tokenizer.encode(prompt)
    elif all(isinstance(item, int) for item in prompt):
        ids = [int(id_) for id_ in cast("Sequence[int]", prompt)]
    else:
        compiled = template()
        if compiled is None:
            raise UnsupportedError(
                "the model has no chat template, so it cannot take messages; pass a string, which is continued as it is"
            )
        ids = chat_template.encode_chat(tokenizer, compiled, cast("Sequence[Mapping[str, Any]]", prompt))
    if not ids:
        raise ConfigError("the prompt has no tokens; give a text to continue")
    return ids
