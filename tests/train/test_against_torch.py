"""From the same weights and data, snell and PyTorch have the same losses at every step."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.train.models import batch_of

import snell as sn
from snell import nn, train
from snell.errors import ConfigError, ShapeError

CROSS_ENTROPY = sn.losses.cross_entropy
MODEL = nn.Chain(nn.Linear(6, 24, sn.relu), nn.LayerNorm(24), nn.Linear(24, 24, sn.gelu), head=nn.Linear(24, 3))
NAMES = {"0": "fc1", "1": "norm", "2": "fc2"}
TURNED = ("0.weight", "2.weight", "head.weight")


class TorchModel(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.norm = torch.nn.Linear(6, 24), torch.nn.LayerNorm(24)
        self.fc2, self.head = torch.nn.Linear(24, 24), torch.nn.Linear(24, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.nn.functional.gelu(self.fc2(self.norm(torch.relu(self.fc1(x))))))


@pytest.fixture
def module() -> Iterator[TorchModel]:
    """On one thread: two libraries whose threads wait by spinning take each other's time."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield TorchModel()
    torch.set_num_threads(threads)


def arrays_of(module: torch.nn.Module, prefix: str = "") -> dict[str, np.ndarray]:
    return {prefix + name: value.detach().numpy() for name, value in module.state_dict().items()}


def initial(arrays: dict[str, np.ndarray]) -> Any:
    like, _ = MODEL.init(sn.random.key(0))
    return train.from_pytorch(like, arrays, names=NAMES, transposed=TURNED)


def test_losses_agree_at_200_steps_with_weight_decay_clipping_and_warm_up(module: TorchModel) -> None:
    schedule = sn.optim.lr_schedule.warm_up(20, sn.optim.lr_schedule.constant(3e-3))
    optimizer = sn.optim.chain(sn.optim.clip_by_norm(0.5), sn.optim.adamw(schedule, weight_decay=0.1))
    ts = train.TrainState.create(MODEL, initial(arrays_of(module)), {}, optimizer)
    judge = torch.optim.AdamW(module.parameters(), lr=3e-3, weight_decay=0.1)
    worst = 0.0
    for number in range(200):
        x, y = batch_of(32, number)
        for group in judge.param_groups:
            group["lr"] = float(ts_rate(number))
        judge.zero_grad()
        loss = torch.nn.functional.cross_entropy(module(torch.from_numpy(x)), torch.from_numpy(y).long())
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(module.parameters(), 0.5)
        judge.step()
        result, ts = train.step(ts, (x, y), CROSS_ENTROPY)
        worst = max(worst, abs(float(result.loss) - float(loss.detach())))
        assert float(result.grad_norm) == pytest.approx(float(norm), rel=1e-3)
    assert worst < 2e-5


def ts_rate(step: int) -> float:
    return 3e-3 * min(1.0, step / 20)


def test_names_and_layouts_of_pytorch_are_mapped(module: TorchModel, tmp_path: Path) -> None:
    sn.io.save_safetensors(tmp_path / "m.safetensors", arrays_of(module, "_orig_mod."))
    for arrays in (
        sn.io.load_safetensors(tmp_path / "m.safetensors"),
        arrays_of(module, "_orig_mod."),
        arrays_of(module, "module."),
    ):
        found = initial(arrays)
        np.testing.assert_array_equal(found["2"]["weight"], module.fc2.weight.detach().numpy().T)
        np.testing.assert_array_equal(found["1"]["weight"], module.norm.weight.detach().numpy())


def test_names_that_do_not_fit_are_said_with_both_sides(module: TorchModel) -> None:
    like, _ = MODEL.init(sn.random.key(0))
    with pytest.raises(ConfigError, match=r"0\.bias: expected an array called '0\.bias'.*fc1\.weight"):
        train.from_pytorch(like, arrays_of(module))
    with pytest.raises(
        ShapeError, match=r"0\.weight: expected \(6, 24\), 'fc1\.weight' has \(24, 6\); list '0\.weight'"
    ):
        train.from_pytorch(like, arrays_of(module), names=NAMES)
    extra = {**arrays_of(module), "tail.weight": np.zeros(3)}
    with pytest.raises(ConfigError, match=r"no leaf takes the arrays tail\.weight"):
        initial(extra)
