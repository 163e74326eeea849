"""Constraint: which tokens may come next, so that a text follows a JSON schema or a grammar.

Grammars are followed by llguidance (the extra ``serve``). As soon as a token is chosen, a thread of its own works out
the mask of the next one, while the model reads the token.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from snell.deferred import deferred
from snell.errors import ConfigError, UnsupportedError
from snell.llm.tokenizer import Tokenizer
from snell.locks import Lock

if TYPE_CHECKING:
    import llguidance
else:
    llguidance = deferred("llguidance")

__all__ = ["Constraint", "GrammarTokens", "schema_grammar"]

Mask = npt.NDArray[np.bool_]
# As many grammars are kept read: the turns of a conversation have the same tools, the choices of a request one schema.
_GRAMMARS = 8
# Any white space is JSON, but a model that has nothing to say fills its text with it.
_WHITE_SPACE = {"whitespace_pattern": r"[ \n\t]{1,20}"}


class GrammarTokens:
    """A model's tokens as llguidance wants them; ``logits`` is how many the model scores."""

    def __init__(self, tokenizer: Tokenizer, logits: int) -> None:
        if not tokenizer.eos_ids:
            raise UnsupportedError("the model has no token that ends a text, so a grammar could not end one")
        self._logits = logits
        ids = range(tokenizer.vocab_size)
        described: Any = _Described(
            eos_token_id=min(tokenizer.eos_ids),
            bos_token_id=tokenizer.bos_id,
            tokens=list(map(tokenizer.token_bytes, ids)),
            special_token_ids=list(filter(tokenizer.is_control, ids)),
            encode=lambda text: tokenizer.encode(text, add_special=False),
        )
        try:
            wrapped = llguidance.TokenizerWrapper(described)
        except ModuleNotFoundError as error:
            raise UnsupportedError(
                "a JSON schema, a grammar or tools need the package llguidance; pip install 'snell[serve]'"
            ) from error
        self._tokens = llguidance.LLTokenizer(wrapped, len(described.tokens), sorted(tokenizer.eos_ids))
        self._lock = Lock()
        self._read: dict[str, llguidance.LLMatcher] = {}  # the one used last at the end

    def constraint(self, grammar: str, option: str) -> Constraint:
        """A text that follows the grammar; a grammar that means nothing is a ConfigError that names the option."""
        with self._lock:
            known = self._read.pop(grammar, None)
        # Not under the lock: a large grammar takes a while, and is one text's own concern.
        matcher = self._matcher(grammar, option) if known is None else known
        with self._lock:
            self._read[grammar] = matcher
            if len(self._read) > _GRAMMARS:
                del self._read[next(iter(self._read))]
            return Constraint(matcher.deep_copy(), self._logits)

    def _matcher(self, grammar: str, option: str) -> llguidance.LLMatcher:
        matcher = llguidance.LLMatcher(self._tokens, grammar, log_level=0)
        if matcher.is_error():
            raise ConfigError(f"{option}: expected what llguidance reads as such, received: {matcher.get_error()}")
        return matcher


class _Described(SimpleNamespace):
    """llguidance calls what it is given to encode a text."""

    def __call__(self, text: str | bytes) -> list[int]:
        return self.encode(text.decode(errors="replace") if isinstance(text, bytes) else text)


class Constraint:
    """The state of one text; belongs to one thread at a time."""

    def __init__(self, matcher: llguidance.LLMatcher, logits: int) -> None:
        self._matcher = matcher
        self._logits = logits
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="snell-grammar")
        self._next: Future[Mask | None] = self._worker.submit(self._mask)

    def allowed(self) -> Mask | None:
        """bool (vocab,): the tokens that may come next; None where the text is complete."""
        return self._next.result()

    def accept(self, token_id: int) -> None:
        """The text goes on with this token, which was allowed."""
        self._next = self._worker.submit(self._advanced, token_id)

    def close(self) -> None:
        """Let go of the thread."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _advanced(self, token_id: int) -> Mask | None:
        if not self._matcher.consume_token(token_id):
            raise ConfigError(f"the grammar cannot be followed any further: {self._matcher.get_error()}")
        return self._mask()

    def _mask(self) -> Mask | None:
        if self._matcher.is_stopped():
            if self._matcher.is_error():
                raise ConfigError(f"the grammar cannot be followed any further: {self._matcher.get_error()}")
            return None
        bits = np.unpackbits(np.frombuffer(self._matcher.compute_bitmask(), np.uint8), bitorder="little")
        mask = np.zeros(self._logits, np.bool_)
        known = min(bits.size, self._logits)
        mask[:known] = bits[:known]
        return mask


def schema_grammar(schema: Mapping[str, Any] | str) -> str:
    """The grammar of the JSON that a schema, given as an object or as JSON, describes."""
    return json.dumps({"grammars": [{"json_schema": bounded_schema(schema)}]})


def bounded_schema(schema: Mapping[str, Any] | str) -> dict[str, Any]:
    """The schema as an object, with a bound on white space where it says nothing of its own on that."""
    value: object = schema
    if isinstance(schema, str):
        try:
            value = json.loads(schema)
        except json.JSONDecodeError as error:
            raise ConfigError(f"json_schema: expected JSON, received a text that is none: {error}") from error
    if not isinstance(value, Mapping):
        raise ConfigError(f"json_schema: expected an object, or its JSON, received {schema!r}")
    return {"x-guidance": _WHITE_SPACE, **value}
