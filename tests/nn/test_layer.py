"""The protocol of layers: what `init` makes, keys by path, errors that name the layer."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, field
from typing import Any

import numpy as np
import pytest
from tests.nn.agreement import arrays, close, run

import snell as sn
from snell import nn
from snell.errors import ConfigError, GraphError, ShapeError

KEY = sn.random.key(0)


def test_init_makes_arrays_by_name_and_is_a_function_of_the_key() -> None:
    model = nn.Chain(nn.Linear(5, 4, sn.relu), nn.Dropout(), head=nn.Linear(4, 3))
    params, state = model.init(KEY)
    assert sn.tree.paths(params) == [("0", "bias"), ("0", "weight"), ("head", "bias"), ("head", "weight")]
    assert sn.tree.paths(state) == [("1", "counter"), ("1", "key")]
    assert all(isinstance(leaf, sn.Array) and leaf.dtype == np.float32 for leaf in sn.tree.leaves(params))
    again, _ = model.init(KEY)
    other, _ = model.init(sn.random.key(1))
    assert all(map(np.array_equal, sn.tree.leaves(params), sn.tree.leaves(again)))
    assert not np.array_equal(params["head"]["weight"], other["head"]["weight"])


def test_a_model_without_numbers_has_empty_trees() -> None:
    assert nn.Chain(sn.relu, sn.tanh).init(KEY) == ({}, {})


def test_a_model_initialised_inside_a_traced_function_has_the_same_numbers() -> None:
    model = nn.Chain(nn.Linear(5, 4), nn.BatchNorm(4))
    inside = run(model.init, np.asarray(KEY))
    outside = arrays(model.init(KEY))
    assert all(map(np.array_equal, sn.tree.leaves(inside), sn.tree.leaves(outside)))


def test_a_layers_numbers_depend_on_its_path_and_not_on_its_neighbours() -> None:
    small, _ = nn.Chain(body=nn.Linear(3, 3)).init(KEY)
    large, _ = nn.Chain(nn.Linear(3, 3), nn.Dropout(), body=nn.Linear(3, 3)).init(KEY)
    np.testing.assert_array_equal(small["body"]["weight"], large["body"]["weight"])
    assert not np.array_equal(large["0"]["weight"], large["body"]["weight"])


def test_a_name_gives_the_same_key_in_every_process() -> None:
    np.testing.assert_array_equal(np.asarray(nn.named_key(KEY, "weight")), [697611468, 2931781123])


def test_initial_numbers_of_a_linear_layer_are_uniform_as_in_torch() -> None:
    params, _ = nn.Linear(400, 300).init(KEY)
    for leaf in (np.asarray(params["weight"]), np.asarray(params["bias"])):
        assert np.abs(leaf).max() <= 0.05
        assert leaf.std() == pytest.approx(0.05 / np.sqrt(3), rel=0.1)


def test_layers_are_values() -> None:
    layer = nn.Linear(3, 4, sn.relu)
    assert layer == nn.Linear(3, 4, sn.relu) != nn.Linear(3, 4)
    assert len({nn.Chain(layer, head=layer), nn.Chain(layer, head=layer), nn.Chain(layer, layer)}) == 2
    assert nn.LayerNorm([2, 3]) == nn.LayerNorm((2, 3))  # type: ignore[arg-type]  # as people write it elsewhere
    assert (
        repr(nn.Chain(nn.Dropout(0.1), head=nn.Lambda(len)))
        == "Chain(Dropout(rate=0.1), head=Lambda(function=<built-in function len>))"
    )
    with pytest.raises(FrozenInstanceError):
        layer.bias = False  # type: ignore[misc]


def test_parameters_of_another_dtype_are_asked_for_by_name() -> None:
    params, _ = nn.Chain(nn.Linear(3, 4, dtype="f16"), nn.LayerNorm(4, dtype="bf16")).init(KEY)
    assert [str(leaf.dtype) for leaf in sn.tree.leaves(params)] == ["float16", "float16", "bfloat16", "bfloat16"]


@dataclass(frozen=True)
class Residual(nn.Layer):
    """A layer of a user: children by field, and a parameter of its own."""

    inner: nn.Layer
    norm: nn.Layer = field(default=nn.LayerNorm(4))

    def parameters(self, key: sn.Tensor) -> dict[str, Any]:
        return {"scale": sn.ones(()), **nn.parameters_of(self.children(), key)}

    def __call__(self, x: Any, params: Any, state: Any, *, train: bool = False) -> tuple[Any, dict[str, Any]]:
        h, state = nn.call_child(self.children(), "norm", x, params, state, train=train)
        h, state = nn.call_child(self.children(), "inner", h, params, state, train=train)
        return x + h * params["scale"], state


def test_a_layer_of_a_user_has_the_children_in_its_fields() -> None:
    layer = Residual(nn.Chain(nn.Linear(4, 4), nn.Dropout(0.5)))
    params, state = layer.init(KEY)
    assert sn.tree.has(params, "inner.0.weight")
    assert sn.tree.has(params, "norm.weight")
    assert sn.tree.has(params, "scale")
    x = np.ones((2, 4), np.float32)
    y, after = run(lambda x, p, s: layer(x, p, s, train=True), x, params, state)
    assert y.shape == (2, 4)
    assert after["inner"]["1"]["counter"] == 1
    assert layer.with_children({"inner": nn.Linear(4, 4)}).inner == nn.Linear(4, 4)


def test_a_wrong_width_names_the_layer_what_was_expected_and_what_came() -> None:
    model = nn.Chain(nn.Chain(nn.Linear(5, 4), inner=nn.Linear(3, 2, sn.relu)), head=nn.Linear(2, 1))
    params, state = model.init(KEY)
    message = r"Linear\(3, 2, activation=relu\) expected x of shape \(…, 3\), received f32\(7, 4\)"
    with pytest.raises(ShapeError, match=message) as caught:
        sn.compile(lambda x: model(x, params, state)[0])(np.zeros((7, 5), np.float32))
    assert caught.value.__notes__ == ["in layer 'inner'", "in layer '0'"]


@pytest.mark.parametrize(
    ("layer", "shape", "message"),
    [
        (nn.LayerNorm((2, 3)), (2, 4), r"LayerNorm\(\(2, 3\)\) expected x of shape \(…, 2, 3\), received f32\(2, 4\)"),
        (nn.RMSNorm(3), (2, 4), r"RMSNorm\(3\) expected x of shape \(…, 3\)"),
        (nn.BatchNorm(3), (3,), r"BatchNorm\(3\) expected x of shape \(n, 3, …\), received f32\(3,\)"),
        (nn.BatchNorm(3), (1, 3), r"BatchNorm\(3\) expected more than one number a channel in training"),
        (nn.GroupNorm(2, 4), (2, 3), r"GroupNorm\(2, 4\) expected x of shape \(n, 4, …\)"),
        (nn.InstanceNorm(3), (2, 3), r"InstanceNorm\(3\) expected x of shape \(n, 3, positions…\)"),
        (nn.InstanceNorm(3), (2, 3, 1), r"InstanceNorm\(3\) expected more than one position a channel"),
        (nn.Bilinear(3, 4, 5), (2, 3), r"Bilinear\(3, 4, 5\) expected a tuple of 2 inputs, received ndarray"),
    ],
)
def test_an_input_that_does_not_fit_is_refused(layer: nn.Layer, shape: tuple[int, ...], message: str) -> None:
    params, state = layer.init(KEY)
    with pytest.raises(ShapeError, match=message):
        layer(np.zeros(shape, np.float32), params, state, train=True)


def test_numbers_that_are_missing_or_of_another_model_are_named() -> None:
    model = nn.Chain(nn.Linear(5, 4), nn.Dropout(0.5), nn.BatchNorm(4))
    params, state = model.init(KEY)
    x = np.zeros((2, 5), np.float32)
    with pytest.raises(GraphError, match=r"Linear\(5, 4\) expected 'weight' among its .* received none") as caught:
        model(x, {}, state)
    assert caught.value.__notes__ == ["in layer '0'"]
    with pytest.raises(GraphError, match=r"BatchNorm\(4\) expected 'bias' .* received weight"):
        model(x, sn.tree.without(params, "2.bias"), state)
    with pytest.raises(GraphError, match="expected a state with 'key' and 'counter', received none"):
        model(x, params, {}, train=True)
    with pytest.raises(ShapeError, match=r"expected weight of shape \(5, 4\), received \(4, 5\)"):
        model(x, sn.tree.updated(params, "0.weight", np.zeros((4, 5), np.float32)), state)
    with pytest.raises(GraphError, match="expected weight_g and weight_v under 'layer'"):
        nn.WeightNorm(nn.Linear(5, 4))(x, params["0"], {})


def test_a_layer_that_is_no_dataclass_is_told_to_be_one() -> None:
    class Plain(nn.Layer):
        def __call__(self, x: Any, params: Any, state: Any, *, train: bool = False) -> tuple[Any, dict[str, Any]]:
            return x, {}

    with pytest.raises(GraphError, match="decorate Plain with @dataclass"):
        Plain().init(KEY)


def test_sizes_that_make_no_layer_are_refused() -> None:
    with pytest.raises(ConfigError, match="Linear: expected out_features of at least 1, received 0"):
        nn.Linear(3, 0)
    with pytest.raises(
        ConfigError, match="LayerNorm: expected a normalized_shape of sizes from 1 on, received \\(3, 0\\)"
    ):
        nn.LayerNorm((3, 0))
    with pytest.raises(ConfigError, match="divides 4 channels, received 3"):
        nn.GroupNorm(3, 4)
    with pytest.raises(ConfigError, match="padding_idx within 4 rows, received 4"):
        nn.Embedding(4, 2, padding_idx=4)
    with pytest.raises(ConfigError, match=r"parameter 'weight', Dropout\(\) has none"):
        nn.WeightNorm(nn.Dropout()).init(KEY)


def test_stateful_threads_the_state_itself() -> None:
    model = nn.Chain(nn.Linear(5, 4), nn.BatchNorm(4))
    net = nn.Stateful(model, *model.init(KEY), dims=("batch", None))
    x = np.random.default_rng(0).normal(size=(6, 5)).astype(np.float32)
    params, state = model.init(KEY)
    expected, state = run(lambda x, p, s: model(x, p, s, train=True), x, params, state)
    close(net(x, train=True), expected)
    close(net.state["1"]["running_mean"], state["1"]["running_mean"])
    assert np.asarray(net(x[:2])).shape == (2, 4)
    close(net.state["1"]["running_mean"], state["1"]["running_mean"])
    with pytest.raises(GraphError, match="inside a function under tracing"):
        sn.compile(lambda x: net(x))(x)
