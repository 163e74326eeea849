"""Log-probabilities of tokens in the two forms that OpenAI's interface has."""

from collections.abc import Sequence
from typing import Any

from snell.llm.generation import TokenLogprob
from snell.llm.tokenizer import Tokenizer

__all__ = ["Listed", "chat_logprobs", "completion_logprobs"]

# A token with its log-probability, or the id of one that has none: nothing stands before it.
Listed = TokenLogprob | int


def chat_logprobs(listed: Sequence[TokenLogprob], tokenizer: Tokenizer) -> dict[str, Any]:
    """``logprobs`` of a chat choice."""

    def entry(token_id: int, logprob: float) -> dict[str, Any]:
        data = tokenizer.token_bytes(token_id)
        return {"token": _shown(data), "logprob": logprob, "bytes": list(data)}

    content = [
        {**entry(one.token_id, one.logprob), "top_logprobs": [entry(*other) for other in one.top]} for one in listed
    ]
    return {"content": content, "refusal": None}


def completion_logprobs(listed: Sequence[Listed], tokenizer: Tokenizer, offset: int) -> tuple[dict[str, Any], int]:
    """``logprobs`` of a completion, whose tokens begin at a place of the text, and where they end."""
    ids = [one if isinstance(one, int) else one.token_id for one in listed]
    offsets: list[int] = []
    for id_ in ids:
        offsets.append(offset)
        offset += 0 if tokenizer.is_control(id_) else _characters(tokenizer.token_bytes(id_))
    described = {
        "tokens": [_named(tokenizer.token_bytes(id_)) for id_ in ids],
        "token_logprobs": [None if isinstance(one, int) else one.logprob for one in listed],
        "top_logprobs": [None if isinstance(one, int) else _top(one, tokenizer) for one in listed],
        "text_offset": offsets,
    }
    return described, offset


def _top(one: TokenLogprob, tokenizer: Tokenizer) -> dict[str, float]:
    return {_named(tokenizer.token_bytes(id_)): logprob for id_, logprob in one.top}


def _characters(data: bytes) -> int:
    """How many characters begin in the bytes."""
    return sum(byte & 0xC0 != 0x80 for byte in data)


def _shown(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")


def _named(data: bytes) -> str:
    """The text, or the bytes where they are a part of a character: these are keys, so no two may be the same."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)
