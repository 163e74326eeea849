"""What trains in `snell bench train` is the same in every implementation: equal losses from equal weights."""

import numpy as np
import pytest

from snell.bench.cases import Train, parse_case
from snell.bench.peers import snell_training, torch_training
from snell.bench.suites import suite
from snell.bench.training import TrainModel, initial_weights, training_flops


@pytest.mark.parametrize(
    "model", [TrainModel.MLP, TrainModel.LSTM, pytest.param(TrainModel.GPT, marks=pytest.mark.slow)]
)
def test_losses_of_the_first_steps_are_pytorchs(model: TrainModel) -> None:
    found = snell_training.training_losses(model, 5)
    np.testing.assert_allclose(found, torch_training.training_losses(model, 5), rtol=2e-5)
    assert found[-1] < found[0]


def test_the_suite_has_a_line_for_each_model() -> None:
    assert [case.name for case in suite("train")] == ["train/mlp", "train/gpt", "train/lstm", "train/gpt_bf16"]
    assert parse_case("train/lstm") == Train(TrainModel.LSTM)


def test_arithmetic_is_three_products_for_each_weight_but_for_the_first_layers() -> None:
    first = initial_weights(TrainModel.MLP)["layer0.weight"].size
    others = sum(initial_weights(TrainModel.MLP)[f"layer{k}.weight"].size for k in (1, 2))
    assert training_flops(TrainModel.MLP) == 2 * 128 * (2 * first + 3 * others)
    assert 20e9 < training_flops(TrainModel.GPT) < 30e9
