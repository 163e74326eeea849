"""A model is judged beside its own weights in f32, once for all figures; other formats are written by llama.cpp."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tests.llm.tiny_models import tiny_llama, write_gguf_llama

import snell as sn
from snell.bench import formats
from snell.bench.cases import Quality, QualityFigure
from snell.bench.formats import split_format
from snell.bench.peers import judged as judging
from snell.bench.peers.judged import judged
from snell.bench.text import CONTEXT
from snell.errors import UnsupportedError


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    model = tiny_llama(max_position_embeddings=CONTEXT, num_hidden_layers=1)
    path = write_gguf_llama(tmp_path / "tiny.gguf", model)
    monkeypatch.setattr(judging, "model_path", lambda name: path)
    monkeypatch.setattr(judging, "_known", {})
    monkeypatch.setenv("SNELL_BENCH_PREDICTIONS", "600")
    return path


def test_a_model_is_read_once_for_all_figures_and_judged_by_its_f32_self(tiny: Path) -> None:
    opened: list[Path] = []
    shares: list[np.ndarray] = []

    def load(path: Path) -> judging.Logits:
        opened.append(path)
        model = sn.llm.load(path, kv_dtype="f32")

        def logits(ids: Sequence[int]) -> np.ndarray:
            found = model.logits(ids)
            wide = np.exp(found.astype(np.float64))
            shares.append((wide / wide.sum(1, keepdims=True))[:-1, 0])
            found[:, 0] -= 0.5
            return found

        return logits

    readings = {figure: judged(Quality("tiny", figure), 1, load).measure(1) for figure in QualityFigure}
    assert opened == [tiny]
    assert {len(values) for values in readings.values()} == {2 * (CONTEXT - 1)}
    share = np.concatenate(shares)
    expected = share / 2 + np.log1p(share * np.expm1(-0.5))
    np.testing.assert_allclose(readings[QualityFigure.MEAN_DIVERGENCE], expected, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("smollm2-q4_0", ("smollm2", "q4_0")),
        ("gemma3-270m-q4_k_m", ("gemma3-270m", "q4_k_m")),
        ("gemma3-270m", ("gemma3-270m", None)),
        ("smollm2", ("smollm2", None)),
    ],
)
def test_a_name_may_end_in_a_format(name: str, parts: tuple[str, str | None]) -> None:
    assert split_format(name) == parts


def test_without_llama_cpp_no_format_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "find_spec", lambda name: None)
    with pytest.raises(UnsupportedError, match="install llama-cpp-python"):
        formats.requantised(tmp_path / "a.gguf", "q4_0", tmp_path / "b.gguf")


def test_a_file_that_was_written_is_used_again(tmp_path: Path) -> None:
    (tmp_path / "b.gguf").touch()
    assert formats.requantised(tmp_path / "a.gguf", "q4_0", tmp_path / "b.gguf") == tmp_path / "b.gguf"
