"""What a token of a vocabulary is for, and the names by which the tokens that end a turn are known.

GGUF files tell each token's kind; converters often get it wrong for end-of-turn tokens, so those are also recognised
by name, as llama.cpp does (``llama-vocab.cpp``, ``special_eog_ids``).
"""

from collections.abc import Mapping
from enum import IntEnum

__all__ = ["TokenKind", "end_tokens"]


class TokenKind(IntEnum):
    """The values of ``tokenizer.ggml.token_type``."""

    UNDEFINED = 0
    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


_END_NAMES = (
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>",
    "<|endoftext|>", "<|eom_id|>", "<|end_of_text|>", "<end_of_utterance>", "<turn|>", "<|tool_response>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
)  # fmt: skip
# These may also be plain text: "</s>" is an HTML tag to Gemma and an ordinary merge to Qwen.
_END_NAMES_IF_CONTROL = ("</s>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<eos>", "[e~[")
_HARMONY = ("<|return|>", "<|call|>")


def end_tokens(ids: Mapping[str, int], control: Mapping[str, int]) -> set[int]:
    """Ids of the tokens whose name says that they end a turn or a text, of all tokens and of the control tokens."""
    found = {ids[name] for name in _END_NAMES if name in ids}
    found |= {control[name] for name in _END_NAMES_IF_CONTROL if name in control}
    # In the harmony format <|end|> only closes one message of the same turn.
    if "<|end|>" in ids and all(name in ids for name in _HARMONY):
        found.discard(ids["<|end|>"])
    return found
