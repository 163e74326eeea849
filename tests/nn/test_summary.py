"""Models print as trees, and summaries count what each layer holds and does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import snell as sn
from snell import nn
from snell.errors import ConfigError, ShapeError

MODEL = nn.Chain(
    nn.Linear(784, 128, sn.relu), nn.Dropout(0.1), blocks=nn.Repeated(nn.Linear(128, 128), 4), head=nn.Linear(128, 10)
)


def test_a_model_prints_as_a_tree_with_counts_and_shapes() -> None:
    assert str(MODEL).splitlines() == [
        "Chain()  167,818",
        "├── 0: Linear(784, 128, activation=relu)  100,480  bias (128,), weight (784, 128)",
        "├── 1: Dropout(rate=0.1)",
        "├── blocks: Repeated(4)  66,048",
        "│   └── layer: Linear(128, 128)  66,048  bias (4, 128), weight (4, 128, 128)",
        "└── head: Linear(128, 10)  1,290  bias (10,), weight (128, 10)",
    ]


def test_a_summary_counts_parameters_operations_and_bytes() -> None:
    found = nn.summary(MODEL, (32, 784))
    first, head, blocks = found["0"], found["head"], found["blocks"]
    assert (first.parameters, first.parameter_bytes, first.result) == (100_480, 401_920, "f32(32, 128)")
    # A product and a sum for each weight and row; the bias and the activation a few more for each result.
    assert 2 * 32 * 784 * 128 <= first.flops <= 2 * 32 * 784 * 128 + 4 * 32 * 128
    assert first.moved_bytes == pytest.approx(4 * (32 * 784 + 784 * 128 + 128 + 32 * 128), rel=0.01)
    assert head.flops == pytest.approx(2 * 32 * 128 * 10, rel=0.05)
    assert blocks.flops == pytest.approx(4 * found["blocks.layer"].flops)
    assert found["1"].flops == found["1"].moved_bytes == 0
    assert found.total.parameters == 167_818
    assert found.total.flops == pytest.approx(first.flops + blocks.flops + head.flops, rel=0.01)


def test_a_summary_is_a_table_whose_lines_are_the_layers() -> None:
    lines = str(nn.summary(MODEL, (1, 784))).splitlines()
    assert lines[0].split()[:3] == ["layer", "result", "parameters"]
    assert lines[2].startswith("├── 0: Linear(784, 128, activation=relu)  f32(1, 128)")
    assert "100,480" in lines[2]
    assert len(lines) == 7


def test_a_table_that_is_looked_up_costs_the_rows_that_are_read() -> None:
    found = nn.summary(nn.Embedding(50_000, 64), sn.TensorSpec.of((2, 8), "i64"))
    assert found.total.flops == 0
    assert found.total.moved_bytes < 3 * 4 * 16 * 64
    assert found.total.parameters == 3_200_000


def test_inputs_may_be_several_arrays_and_symbolic() -> None:
    pair = nn.summary(nn.Bilinear(3, 4, 5), np.zeros((2, 3), np.float32), (2, 4))
    assert pair.total.result == "f32(2, 5)"
    batch = sn.Dim("batch", typical=(16,))
    found = nn.summary(nn.Linear(8, 4), (batch, 8))
    assert found.total.result == "f32(batch, 4)"
    assert found.total.flops == pytest.approx(2 * 16 * 8 * 4, rel=0.2)


def test_training_is_summarised_with_what_it_draws() -> None:
    model = nn.Chain(nn.Dropout(0.5), nn.BatchNorm(4))
    assert nn.summary(model, (8, 4), train=True)["0"].flops > nn.summary(model, (8, 4))["0"].flops == 0


def test_shared_parameters_are_counted_where_they_are() -> None:
    inner = nn.Linear(4, 4)
    twice = nn.share(nn.Chain(a=inner, b=inner), {"b": "a"})
    found = nn.summary(twice, (2, 4))
    assert found.total.parameters == 20
    assert found["a"].flops == found["b"].flops
    assert found["b"].parameters == 0


def test_an_input_that_does_not_fit_or_is_missing_is_refused() -> None:
    with pytest.raises(ShapeError, match="Linear"):
        nn.summary(MODEL, (32, 700))
    with pytest.raises(ConfigError, match="shape of the model's input"):
        nn.summary(MODEL)
    with pytest.raises(ConfigError, match="no layer at 'tail'"):
        _ = nn.summary(nn.Linear(1, 1), (1, 1))["tail"]


def test_watching_sees_every_call_and_may_replace_results() -> None:
    model = nn.Chain(nn.Linear(3, 3), nn.Repeated(nn.Linear(3, 3), 2), head=sn.tanh)
    params, state = model.init(sn.random.key(0))
    seen: list[tuple[str, ...]] = []

    def observe(call: nn.Call) -> Any:
        seen.append(call.path)
        return call.y * 0.0 if call.path == ("0",) else call.y

    watched = nn.watched(model, observe)
    x = np.ones((2, 3), np.float32)
    y = sn.compile(lambda x, p: watched(x, p, state)[0])(x, params)
    expected = sn.compile(lambda x, p: model[1:](x * 0.0, p, state)[0])(x, params)
    np.testing.assert_allclose(np.asarray(y), np.asarray(expected), rtol=1e-6)
    assert seen == [("0",), ("1", "layer"), ("1",), ("head",), ()]
