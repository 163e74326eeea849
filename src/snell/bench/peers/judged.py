"""How far an implementation's quantised model is from the same weights in f32: what the quality cases read.

The reference is snell on the same file with every weight decoded to f32, every product in f32 and an f32 cache.  It is
computed beside the implementation, a text of some hundred tokens after the other, since the logits of all would take
gigabytes.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import snell as sn
from snell.bench.arrays import F32
from snell.bench.cases import Quality
from snell.bench.divergence import Divergence, divergence, joined
from snell.bench.models import model_path
from snell.bench.peers.peer import Judged
from snell.bench.text import JudgedText, windows
from snell.config import process_environment

__all__ = ["Logits", "judged"]

Logits = Callable[[Sequence[int]], F32]
"""Token ids (n,) → logits (n, vocabulary), the ids in no context but their own."""

_known: dict[tuple[str, JudgedText], Divergence] = {}


def judged(case: Quality, threads: int, load: Callable[[Path], Logits]) -> Judged:
    """The case's readings of an implementation, whose model ``load`` opens; a model's figures share one evaluation."""
    text = JudgedText.from_environment(process_environment())

    def read() -> list[float]:
        key = (case.model, text)
        if key not in _known:
            path = model_path(case.model)
            reference = sn.llm.load(path, threads=threads, precision="default", kv_dtype="f32")
            _known[key] = _divergence(reference, load(path), text)
        return _known[key].readings(case.figure)

    return Judged(read)


def _divergence(reference: Any, logits: Logits, text: JudgedText) -> Divergence:
    tokenizer = reference.tokenizer
    ids = tokenizer.encode(text.read(), add_special=False)
    parts = [
        divergence(reference.logits(window)[:-1], logits(window)[:-1], np.asarray(window[1:], np.int64))
        for window in windows(ids, tokenizer.encode("", add_special=True), text.predictions)
    ]
    return joined(parts)
