"""What embedding has in common for encoders and decoders: texts to ids, and vectors to their final form."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from snell.errors import ConfigError, ContextLengthError
from snell.llm.families.encoder import Pooling
from snell.llm.prompt import checked_ids
from snell.llm.tokenizer import Tokenizer

__all__ = ["finished_vectors", "fitted_ids", "pooling_named"]


def pooling_named(name: str | None, default: Pooling) -> Pooling:
    """``mean``, ``cls`` or ``last``; the default for None."""
    if name is None:
        return default
    known = [pooling.value for pooling in Pooling]
    if name not in known:
        raise ConfigError(f"pooling: expected one of {', '.join(known)}, received {name!r}")
    return Pooling(name)


def fitted_ids(
    tokenizer: Tokenizer, texts: str | Sequence[str | Sequence[int]], context: int, truncate: bool
) -> list[list[int]]:
    """Ids of each text, where it is not given as ids.

    One that is too long is a ContextLengthError, or loses its end (not its closing token).
    """
    fitted: list[list[int]] = []
    for place, text in enumerate([texts] if isinstance(texts, str) else texts):
        ids = tokenizer.encode(text) if isinstance(text, str) else checked_ids(list(text), tokenizer)
        if not ids:
            raise ConfigError(f"text {place} has no tokens; leave it out")
        if len(ids) > context and not truncate:
            raise ContextLengthError(
                f"text {place} has {len(ids)} tokens, the model takes {context}; shorten it or pass truncate=True"
            )
        suffix = list(tokenizer.parts.suffix)
        fitted.append(ids if len(ids) <= context else ids[: context - len(suffix)] + suffix)
    return fitted


def finished_vectors(
    vectors: npt.NDArray[np.float32] | None, normalize: bool, dimensions: int | None
) -> npt.NDArray[np.float32]:
    """f32 (n, d): cut to the first ``dimensions``, then brought to length 1 (a zero vector stays)."""
    if vectors is None:
        raise ConfigError("embed expected at least one text, received none")
    if dimensions is not None and not 1 <= dimensions <= vectors.shape[1]:
        raise ConfigError(f"dimensions: expected 1 to {vectors.shape[1]}, received {dimensions}")
    cut = vectors[:, :dimensions].astype(np.float64)
    if normalize:
        lengths = np.linalg.norm(cut, axis=1, keepdims=True)
        cut = cut / np.where(lengths == 0, 1.0, lengths)
    return cut.astype(np.float32)
