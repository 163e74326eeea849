"""Log-probabilities of tokens in the two forms that OpenAI's interface has."""

from collections.abc import Sequence
from typing import Any

from snell.llm.generation import TokenLogprob
from snell.llm.tokenizer import Tokenizer

__all__ = ["chat_logprobs", "completion_logprobs"]


def chat_logprobs(listed: Sequence[TokenLogprob], tokenizer: Tokenizer) -> dict[str, Any]:
    """``logprobs`` of a chat choice."""

    def entry(token_id: int, logprob: float) -> dict[str, Any]:
        data = tokenizer.token_bytes(token_id)
        return {"token": _shown(data), "logprob": logprob, "bytes": list(data)}

    content = [
        {**entry(one.token_id, one.logprob), "top_logprobs": [entry(*other) for other in one.top]} for one in listed
    ]
    return {"content": content, "refusal": None}


def completion_logprobs(listed: Sequence[TokenLogprob], tokenizer: Tokenizer, offset: int) -> dict[str, Any]:
    """``logprobs`` of a completion, whose tokens begin at a place of the text."""
    texts = [_named(tokenizer.token_bytes(one.token_id)) for one in listed]
    offsets: list[int] = []
    for text in texts:
        offsets.append(offset)
        offset += len(text)
    tops = [{_named(tokenizer.token_bytes(id_)): logprob for id_, logprob in one.top} for one in listed]
    return {
        "tokens": texts,
        "token_logprobs": [one.logprob for one in listed],
        "top_logprobs": tops,
        "text_offset": offsets,
    }


def _shown(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")


def _named(data: bytes) -> str:
    """The text, or the bytes where they are a part of a character: these are keys, so no two may be the same."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)
