"""``/v1/embeddings``: vectors of texts, as numbers or as base64 of little-endian f32."""

import base64
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from snell.llm.server.fields import Fields
from snell.llm.server.request_error import RequestError
from snell.llm.server.service import Service

__all__ = ["EmbeddingRequest", "embedding_request"]

_MOST_TEXTS = 2048


class EmbeddingRequest:
    """``answer`` computes, which takes a while."""

    def __init__(self, texts: list[str], dimensions: int | None, encoding: str, service: Service) -> None:
        self._texts, self._dimensions, self._encoding, self._service = texts, dimensions, encoding, service

    def answer(self) -> dict[str, Any]:
        """The vectors in the order of the texts."""
        model = self._service.model
        vectors = model.embed(self._texts, dimensions=self._dimensions)
        tokens = sum(len(model.tokenizer.encode(text)) for text in self._texts)
        data = [
            {"object": "embedding", "index": index, "embedding": self._encoded(vector)}
            for index, vector in enumerate(vectors)
        ]
        spent = {"prompt_tokens": tokens, "total_tokens": tokens}
        return {"object": "list", "data": data, "model": self._service.settings.name, "usage": spent}

    def _encoded(self, vector: npt.NDArray[np.float32]) -> list[float] | str:
        if self._encoding == "base64":
            return base64.b64encode(vector.astype("<f4").tobytes()).decode("ascii")
        return vector.tolist()


def embedding_request(fields: Fields, service: Service) -> EmbeddingRequest:
    """What a request asks for."""
    given = fields.needed("input")
    texts = cast("list[Any]", given if isinstance(given, list) else [given])
    if not 1 <= len(texts) <= _MOST_TEXTS or not all(isinstance(text, str) and text for text in texts):
        raise RequestError(
            400, f"input: expected a text, or at most {_MOST_TEXTS} of them, none of them empty", "input"
        )
    encoding = fields.text("encoding_format", "float", ("float", "base64"))
    dimensions = fields.value("dimensions")
    if dimensions is not None:
        dimensions = fields.whole("dimensions", 1, 1, 2**20)
    fields.ignored("user", "model")
    fields.end()
    return EmbeddingRequest(texts, dimensions, encoding, service)
