"""The loop walks over epochs, measures, tells callbacks, and stops when it is told to."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.train.models import batch_of, state_of

import snell as sn
from snell import train
from snell.errors import ConfigError
from snell.train import Checkpoints, DataLoader, EpochEnd, StepEnd

CROSS_ENTROPY = sn.losses.cross_entropy


def objective(model: Any, params: Any, state: Any, batch: Any, *, train: bool) -> Any:
    logits, state = model(batch[0], params, state, train=train)
    accuracy = (logits.argmax(-1) == batch[1]).astype("f32").mean()
    return CROSS_ENTROPY(logits, batch[1]), state, {"accuracy": accuracy}


def loader(rows: int = 32, size: int = 8) -> DataLoader:
    return DataLoader(batch_of(rows), size, key=1)


def test_epochs_are_walked_over_and_measured() -> None:
    history, ts = train.fit(state_of(), loader(), objective, epochs=3, validation=loader(16))
    assert int(ts.step) == 12
    assert set(history) == {"loss", "accuracy", "grad_norm", "validation/loss", "validation/accuracy"}
    steps, losses = history["loss"]
    assert steps.tolist() == list(range(1, 13))
    assert losses[-4:].mean() < losses[:4].mean()
    assert history["validation/loss"][0].tolist() == [4, 8, 12]


def test_a_number_of_steps_ends_it_in_the_middle_of_an_epoch_and_the_next_call_goes_on() -> None:
    data = loader()
    whole, _ = train.fit(state_of(), loader(), CROSS_ENTROPY, steps=10)
    first, ts = train.fit(state_of(), data, CROSS_ENTROPY, steps=6)
    assert data.position["batch"] == 2
    second, _ = train.fit(ts, data, CROSS_ENTROPY, steps=4)
    assert [*first["loss"][1], *second["loss"][1]] == whole["loss"][1].tolist()
    assert second["loss"][0].tolist() == [7, 8, 9, 10]


def test_callbacks_hear_of_steps_and_epochs_and_one_of_them_ends_it() -> None:
    heard: list[Any] = []
    last: list[Any] = []

    def stops(event: train.Event) -> bool:
        heard.append((type(event), event.step))
        return isinstance(event, StepEnd) and event.step == 5

    train.fit(state_of(), loader(), CROSS_ENTROPY, epochs=9, callbacks=(stops, last.append))
    assert [step for kind, step in heard if kind is StepEnd] == [1, 2, 3, 4, 5]
    assert [step for kind, step in heard if kind is EpochEnd] == [4, 5]
    assert len(last) == len(heard)


def test_it_stops_early_when_the_validation_no_longer_gets_better() -> None:
    still = sn.optim.sgd(0.0)
    history, _ = train.fit(
        state_of(optimizer=still), loader(), CROSS_ENTROPY, epochs=50, validation=[batch_of(16)],
        callbacks=[train.EarlyStopping(patience=2)],
    )  # fmt: skip
    assert len(history["validation/loss"][0]) == 3
    with pytest.raises(ConfigError, match="waits for 'validation/loss', the epochs measure loss"):
        train.fit(state_of(), loader(), CROSS_ENTROPY, epochs=1, callbacks=[train.EarlyStopping()])


def test_checkpoints_are_saved_as_asked(tmp_path: Path) -> None:
    every, ends = Checkpoints(tmp_path / "every"), Checkpoints(tmp_path / "ends", keep=1)
    callbacks = [train.SaveCheckpoints(every, every=3), train.SaveCheckpoints(ends)]
    train.fit(state_of(), loader(), CROSS_ENTROPY, epochs=2, callbacks=callbacks)
    assert every.steps() == [3, 6]
    assert ends.steps() == [8]
    assert ends.restore(state_of()).data == {"epoch": 2, "batch": 0, "key": [1, 0]}


def test_an_evaluation_counts_each_batch_by_its_rows() -> None:
    ts = state_of()
    whole = train.evaluate(ts, [batch_of(13)], objective)
    parts = train.evaluate(ts, DataLoader(batch_of(13), 5), objective)
    assert parts["loss"] == pytest.approx(whole["loss"], rel=1e-5)
    assert parts["accuracy"] == pytest.approx(whole["accuracy"], rel=1e-6)


def test_a_skipped_step_does_not_spoil_the_mean_of_the_epoch() -> None:
    x, y = batch_of(24)
    x[0, 0] = np.nan
    epochs: list[Any] = []
    _, ts = train.fit(
        state_of(), DataLoader((x, y), 8), CROSS_ENTROPY, epochs=1,
        callbacks=[lambda event: epochs.append(event) if isinstance(event, EpochEnd) else None],
    )  # fmt: skip
    assert np.isfinite(epochs[0].values["loss"])
    assert int(ts.skipped) == 1


def test_a_loop_without_an_end_or_without_batches_is_refused() -> None:
    with pytest.raises(ConfigError, match="epochs or steps"):
        train.fit(state_of(), loader(), CROSS_ENTROPY)
    with pytest.raises(ConfigError, match="at least one batch an epoch"):
        train.fit(state_of(), [], CROSS_ENTROPY, epochs=1)
    with pytest.raises(ConfigError, match="at least one batch"):
        train.evaluate(state_of(), [], CROSS_ENTROPY)


def test_a_bar_is_shown_where_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    train.fit(state_of(), loader(), CROSS_ENTROPY, epochs=1, progress=True)
    assert "epoch 1: loss" in capsys.readouterr().err
    train.fit(state_of(), loader(), CROSS_ENTROPY, epochs=1)
    assert capsys.readouterr().err == ""


def records(file: Path) -> list[bytes]:
    """The records of an event file: length, its checksum, content, its checksum."""
    data, found = file.read_bytes(), []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        found.append(data[12 : 12 + length])
        data = data[16 + length :]
    return found


def test_values_are_logged_in_tensorboard_s_format(tmp_path: Path) -> None:
    with train.TensorBoard(tmp_path, every=2) as log:
        train.fit(state_of(), loader(), CROSS_ENTROPY, epochs=1, validation=loader(8), callbacks=[log])
    (file,) = tmp_path.glob("events.out.tfevents.*")
    written = records(file)
    assert b"brain.Event:2" in written[0]
    for name, count in ((b"step/loss", 2), (b"step/grad_norm", 2), (b"epoch/loss", 1), (b"epoch/validation/loss", 1)):
        assert sum(name in record for record in written) == count


def test_curves_are_drawn_into_a_file(tmp_path: Path) -> None:
    history, _ = train.fit(state_of(), loader(), CROSS_ENTROPY, epochs=2, validation=loader(8))
    train.plot_curves(history, tmp_path / "losses.png")
    train.plot_curves(history, tmp_path / "norm.svg", ["grad_norm"], logarithmic=True)
    assert "<svg" in (tmp_path / "norm.svg").read_text()
    assert (tmp_path / "losses.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    with pytest.raises(ConfigError, match=r"history has .*received accuracy"):
        train.plot_curves(history, tmp_path / "x.png", ["accuracy"])
