"""``/v1/embeddings``: vectors of texts, as numbers or as base64 of little-endian f32."""

import base64
import time
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from snell.llm.embed import BATCH_TEXTS
from snell.llm.sampling import is_whole
from snell.llm.server.fields import Fields
from snell.llm.server.request_error import RequestError
from snell.llm.server.service import Service
from snell.llm.serving import RequestTimeoutError
from snell.llm.vectors import fitted_ids

__all__ = ["EmbeddingRequest", "embedding_request"]

_MOST_TEXTS = 2048


class EmbeddingRequest:
    """``answer`` computes, which takes a while."""

    def __init__(self, ids: list[list[int]], dimensions: int | None, encoding: str, service: Service) -> None:
        self._ids, self._dimensions, self._encoding, self._service = ids, dimensions, encoding, service

    def answer(self, is_wanted: Callable[[], bool]) -> dict[str, Any]:
        """The vectors in the order of the texts; RequestTimeoutError where they take too long."""
        deadline = time.monotonic() + self._service.settings.request_seconds
        vectors: list[npt.NDArray[np.float32]] = []
        for start in range(0, len(self._ids), BATCH_TEXTS):
            if not is_wanted() or time.monotonic() > deadline:
                raise RequestTimeoutError("the texts took longer than requests may; send fewer of them")
            group = self._ids[start : start + BATCH_TEXTS]
            vectors.extend(self._service.model.embed(group, dimensions=self._dimensions))
        data = [
            {"object": "embedding", "index": index, "embedding": self._encoded(vector)}
            for index, vector in enumerate(vectors)
        ]
        tokens = sum(map(len, self._ids))
        spent = {"prompt_tokens": tokens, "total_tokens": tokens}
        return {"object": "list", "data": data, "model": self._service.settings.name, "usage": spent}

    def _encoded(self, vector: npt.NDArray[np.float32]) -> list[float] | str:
        if self._encoding == "base64":
            return base64.b64encode(vector.astype("<f4").tobytes()).decode("ascii")
        return vector.tolist()


def embedding_request(fields: Fields, service: Service) -> EmbeddingRequest:
    """What a request asks for."""
    texts = _texts(fields.needed("input"))
    encoding = fields.text("encoding_format", "float", ("float", "base64"))
    dimensions = fields.value("dimensions")
    if dimensions is not None:
        dimensions = fields.whole("dimensions", 1, 1, 2**20)
    fields.ignored("user", "model")
    fields.end()
    ids = fitted_ids(service.model.tokenizer, texts, service.model.context, truncate=False)
    return EmbeddingRequest(ids, dimensions, encoding, service)


def _texts(given: Any) -> list[str | list[int]]:
    """One text or list of token ids, or a list of such."""
    items = cast("list[Any]", given if isinstance(given, list) and not all(map(is_whole, given)) else [given])
    if len(items) > _MOST_TEXTS or not all(map(_is_text, items)):
        raise RequestError(
            400, f"input: expected a text or token ids, or at most {_MOST_TEXTS} such, none of them empty", "input"
        )
    return items


def _is_text(one: object) -> bool:
    return bool(one) and (isinstance(one, str) or (isinstance(one, list) and all(map(is_whole, one))))
