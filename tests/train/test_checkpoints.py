"""Training that was stopped goes on bit for bit from its checkpoint, which is there whole or not at all."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.train.models import assert_same, batch_of, state_of, values_of

import snell as sn
from snell import nn, train
from snell.errors import ConfigError, FileFormatError, ModelNotFoundError
from snell.train import Checkpoints, DataLoader

CROSS_ENTROPY = sn.losses.cross_entropy
MODEL = nn.Chain(nn.Linear(6, 16), nn.BatchNorm(16), nn.Dropout(0.3), nn.Linear(16, 3))


def loader() -> DataLoader:
    return DataLoader(batch_of(40), 8, key=5)


def trained(ts: Any, data: DataLoader, steps: int) -> tuple[list[float], Any]:
    history, ts = train.fit(ts, data, CROSS_ENTROPY, steps=steps)
    return history["loss"][1].tolist(), ts


def new_state() -> Any:
    return state_of(MODEL, sn.optim.chain(sn.optim.clip_by_norm(1.0), sn.optim.adamw(1e-2)), compute_dtype="bf16")


def test_training_goes_on_bit_for_bit_in_the_middle_of_an_epoch(tmp_path: Path) -> None:
    whole, last = trained(new_state(), loader(), 13)
    data = loader()
    first, ts = trained(new_state(), data, 7)
    Checkpoints(tmp_path).save(ts, data.position, {"note": "half way"})
    restored = Checkpoints(tmp_path).restore(new_state())
    data = loader()
    data.seek(restored.data)
    second, ts = trained(restored.ts, data, 6)
    assert first + second == whole
    assert_same(ts, last)
    assert restored.extra == {"note": "half way"}


def test_a_checkpoint_is_safetensors_and_json(tmp_path: Path) -> None:
    ts = new_state()
    place = Checkpoints(tmp_path).save(ts, {"epoch": 1})
    arrays = sn.io.load_safetensors(place / "arrays.safetensors")
    np.testing.assert_array_equal(arrays["params.0.weight"], ts.params["0"]["weight"])
    assert {"key", "step", "skipped", "state.1.running_mean"} <= set(arrays)
    assert any(name.startswith("optimizer_state.adamw.") for name in arrays)
    assert json.loads((place / "checkpoint.json").read_text())["data"] == {"epoch": 1}


def test_only_the_latest_are_kept_and_any_of_them_is_restored(tmp_path: Path) -> None:
    ts, checkpoints = state_of(), Checkpoints(tmp_path, keep=2)
    kept = []
    for _ in range(4):
        _, ts = train.step(ts, batch_of(8), CROSS_ENTROPY)
        checkpoints.save(ts)
        kept.append(values_of(ts))
    assert checkpoints.steps() == [3, 4]
    assert_same(checkpoints.restore(state_of()).ts, kept[3])
    assert_same(checkpoints.restore(state_of(), step=3).ts, kept[2])
    with pytest.raises(ModelNotFoundError, match=r"of step 2; the folder has those of steps 3, 4"):
        checkpoints.restore(state_of(), step=2)


def test_a_save_that_fails_leaves_the_one_before_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints, ts = Checkpoints(tmp_path), state_of()
    checkpoints.save(ts, extra={"kept": True})

    def fails(*_: Any) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr("snell.train.checkpoints._write", fails)
    with pytest.raises(OSError, match="disk is full"):
        checkpoints.save(ts, extra={"kept": False})
    assert [entry.name for entry in tmp_path.iterdir()] == ["step-00000000"]
    assert checkpoints.restore(state_of()).extra == {"kept": True}


def test_a_checkpoint_of_the_same_step_is_replaced(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for number in range(2):
        checkpoints.save(state_of(seed=number), extra={"number": number})
    restored = checkpoints.restore(state_of())
    assert restored.extra == {"number": 1}
    assert_same(restored.ts, state_of(seed=1))
    assert len(list(tmp_path.iterdir())) == 1


def test_a_checkpoint_of_another_model_is_refused_by_the_names_that_differ(tmp_path: Path) -> None:
    Checkpoints(tmp_path).save(state_of())
    with pytest.raises(ConfigError, match=r"missing params\.1|missing optimizer_state"):
        Checkpoints(tmp_path).restore(new_state())
    wider = nn.Chain(nn.Linear(6, 17, sn.tanh), head=nn.Linear(17, 3))
    with pytest.raises(ConfigError, match=r"is float32\(16,\), this state has float32\(17,\)"):
        Checkpoints(tmp_path).restore(state_of(wider))


def test_a_damaged_or_missing_checkpoint_is_named(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    with pytest.raises(ModelNotFoundError, match="the folder has none"):
        checkpoints.restore(state_of())
    place = checkpoints.save(state_of())
    (place / "checkpoint.json").write_text("{cut")
    with pytest.raises(FileFormatError, match=r"checkpoint\.json"):
        checkpoints.restore(state_of())
    checkpoints.save(state_of())
    (place / "arrays.safetensors").write_bytes(b"cut")
    with pytest.raises(FileFormatError, match="arrays"):
        checkpoints.restore(state_of())


def test_what_json_does_not_hold_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="JSON"):
        Checkpoints(tmp_path / "new").save(state_of(), extra={"x": object()})
    assert not (tmp_path / "new").exists()


def killed_while_saving(folder: Path, states: list[Any], seconds: float) -> None:
    """A process that saves the states again and again, killed after some time."""
    child = os.fork()
    if child == 0:
        try:
            for ts in states * 1000:
                Checkpoints(folder, keep=2).save(ts)
        finally:
            os._exit(1)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a child that can be killed is made by fork")
def test_a_writer_that_is_killed_leaves_whole_checkpoints(tmp_path: Path) -> None:
    ts, states = state_of(), []
    for _ in range(3):
        _, ts = train.step(ts, batch_of(8), CROSS_ENTROPY)
        states.append(ts.copy())
    wanted = {int(ts.step): values_of(ts) for ts in states}
    random = np.random.default_rng(0)
    Checkpoints(tmp_path).save(states[-1])
    for _ in range(30):
        killed_while_saving(tmp_path, states, float(random.uniform(0.0, 0.03)))
        checkpoints = Checkpoints(tmp_path, keep=2)
        assert checkpoints.steps()
        for step in checkpoints.steps():
            assert_same(checkpoints.restore(state_of(), step).ts, wanted[step])
    Checkpoints(tmp_path, keep=2).save(states[-1])
    assert all(entry.name.startswith("step-") for entry in tmp_path.iterdir())


def test_a_checkpoint_that_was_moved_aside_when_its_writer_died_is_found(tmp_path: Path) -> None:
    checkpoints, ts = Checkpoints(tmp_path), state_of()
    place = checkpoints.save(ts)
    place.rename(tmp_path / ".step-00000000.x.old")
    (tmp_path / ".step-00000000.x").mkdir()
    assert checkpoints.steps() == [0]
    assert_same(checkpoints.restore(state_of()).ts, ts)
    checkpoints.save(ts.with_variables({"step": np.int32(1)}))
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["step-00000000", "step-00000001"]
