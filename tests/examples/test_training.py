"""The examples that train learn what they say, at a small scale."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from snell.train.data import save_idx

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def example(name: str) -> ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """idx files like MNIST's: ten patterns of 28·28 with noise, 1,000 to train on and 200 to test."""
    folder, random = tmp_path_factory.mktemp("mnist"), np.random.default_rng(0)
    patterns = random.uniform(0, 1, (10, 7, 7)).repeat(4, 1).repeat(4, 2)
    for stem, count in (("train", 1000), ("t10k", 200)):
        labels = random.integers(0, 10, count)
        images = patterns[labels] * 160 + random.uniform(0, 95, (count, 28, 28))
        save_idx(folder / f"{stem}-images-idx3-ubyte", images.astype(np.uint8))
        save_idx(folder / f"{stem}-labels-idx1-ubyte", labels.astype(np.uint8))
    return folder


def test_the_multilayer_perceptron_recognises_patterns(digits: Path) -> None:
    assert example("mnist_mlp").train(digits, epochs=10, batch_size=50, hidden=32) > 0.95


def test_lenet_recognises_patterns(digits: Path) -> None:
    assert example("lenet").train(digits, epochs=2, batch_size=50) > 0.95


def test_the_auto_encoder_s_bound_falls(digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vae = example("vae")
    early = vae.train(digits, epochs=1, hidden=32, latent=4)
    late = vae.train(digits, epochs=6, hidden=32, latent=4)
    assert late < early < 784 * np.log(2) * 1.2
    assert len(capsys.readouterr().out.splitlines()) == 2 * 2 * 28


def test_the_equation_is_solved() -> None:
    assert example("pinn").solve(steps=600, points=32, hidden=16) < 0.15


def test_the_field_of_the_spirals_is_learnt() -> None:
    neural_ode = example("neural_ode")
    assert neural_ode.learn(steps=150, length=10, hidden=16) < 0.1


def test_the_lstm_tells_waves_apart() -> None:
    assert example("lstm").learn(steps=150, length=24, hidden=24) > 0.8


def test_the_transformer_learns_a_text_goes_on_from_its_checkpoint_and_writes(tmp_path: Path) -> None:
    char_gpt = example("char_gpt")
    text = "the quick brown fox jumps over the lazy dog. " * 60
    sizes = char_gpt.Sizes(layers=1, width=32, heads=2, context=16, batch=16, rate=1e-2, steps=60)
    whole, ts, vocabulary = char_gpt.train(text, sizes, every=30)
    assert whole[-1] < 1.0
    half = char_gpt.Sizes(**{**vars(sizes)})
    losses, _, _ = char_gpt.train(text, half, tmp_path, every=30)
    again, _, _ = char_gpt.train(text, half, tmp_path, every=30)
    assert losses == whole
    assert again == []
    assert len(char_gpt.write(ts, vocabulary, sizes, "the ", 10)) == 14
