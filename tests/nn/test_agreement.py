"""Layers compute what the modules of PyTorch do with the same numbers: forward, in training, and all gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.nn.agreement import Case, arrays, close, disagreements, run

import snell as sn
from snell import nn

RNG = np.random.default_rng(5)


def numbers(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


CASES = {
    "linear": Case(nn.Linear(5, 3), torch.nn.Linear(5, 3), (numbers(4, 5),)),
    "linear without bias, three axes": Case(
        nn.Linear(5, 3, bias=False), torch.nn.Linear(5, 3, bias=False), (numbers(2, 4, 5),)
    ),
    "bilinear": Case(nn.Bilinear(5, 3, 4), torch.nn.Bilinear(5, 3, 4), (numbers(6, 5), numbers(6, 3))),
    "embedding": Case(nn.Embedding(7, 3), torch.nn.Embedding(7, 3), (np.array([[1, 2, 2], [0, 6, 1]]),)),
    "embedding with padding": Case(
        nn.Embedding(7, 3, padding_idx=2), torch.nn.Embedding(7, 3, padding_idx=2), (np.array([[1, 2, 2], [0, 6, 1]]),)
    ),
    "layer norm": Case(nn.LayerNorm(6), torch.nn.LayerNorm(6), (numbers(3, 6),)),
    "layer norm over two axes without bias": Case(
        nn.LayerNorm((4, 6), bias=False), torch.nn.LayerNorm((4, 6), bias=False), (numbers(3, 4, 6),)
    ),
    "layer norm without parameters": Case(
        nn.LayerNorm(6, 1e-3, affine=False), torch.nn.LayerNorm(6, 1e-3, elementwise_affine=False), (numbers(3, 6),)
    ),
    "rms norm": Case(nn.RMSNorm(6), torch.nn.RMSNorm(6), (numbers(3, 6),)),
    "group norm": Case(nn.GroupNorm(2, 6), torch.nn.GroupNorm(2, 6), (numbers(3, 6, 4),)),
    "instance norm": Case(
        nn.InstanceNorm(3, affine=True), torch.nn.InstanceNorm2d(3, affine=True), (numbers(2, 3, 4, 5),)
    ),
    "instance norm without parameters": Case(nn.InstanceNorm(3), torch.nn.InstanceNorm1d(3), (numbers(2, 3, 5),)),
    "batch norm of rows": Case(nn.BatchNorm(3), torch.nn.BatchNorm1d(3), (numbers(7, 3),)),
    "batch norm of sequences": Case(nn.BatchNorm(3, 1e-3), torch.nn.BatchNorm1d(3, 1e-3), (numbers(4, 3, 5),)),
    "batch norm of images": Case(
        nn.BatchNorm(3, momentum=0.3), torch.nn.BatchNorm2d(3, momentum=0.3), (numbers(2, 3, 4, 5),)
    ),
    "batch norm of volumes with the average of all batches": Case(
        nn.BatchNorm(2, momentum=None), torch.nn.BatchNorm3d(2, momentum=None), (numbers(2, 2, 3, 2, 3),)
    ),
    "batch norm without parameters": Case(
        nn.BatchNorm(3, affine=False), torch.nn.BatchNorm1d(3, affine=False), (numbers(7, 3),)
    ),
    "batch norm without running statistics": Case(
        nn.BatchNorm(3, track_running_stats=False),
        torch.nn.BatchNorm1d(3, track_running_stats=False),
        (numbers(7, 3),),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_layer_agrees_with_the_module(name: str) -> None:
    assert disagreements(CASES[name]) == []


def test_the_initial_numbers_have_the_names_and_shapes_of_the_module() -> None:
    for name, case in CASES.items():
        params, state = sn.trace(case.layer.init, (sn.TensorSpec.of(2, "u32"),)).output_tree.children
        assert set(params.keys) == {n for n, _ in case.module.named_parameters()}, name
        assert set(state.keys) == {n for n, _ in case.module.named_buffers()}, name


def test_an_activation_follows_the_product() -> None:
    x = numbers(4, 5)
    layer = nn.Linear(5, 3, sn.relu)
    params, state = layer.init(sn.random.key(1))
    expected = np.maximum(x @ np.asarray(params["weight"]) + np.asarray(params["bias"]), 0)
    close(run(lambda x, p: layer(x, p, state)[0], x, params), expected)


def test_the_gradient_of_a_padding_row_is_zero_though_it_is_read() -> None:
    layer = nn.Embedding(4, 3, padding_idx=-1)
    params, state = layer.init(sn.random.key(1))
    assert not np.asarray(params["weight"])[3].any()
    found = run(sn.grad(lambda p, ids: layer(ids, p, state)[0].sum()), params, np.array([3, 3, 1]))
    np.testing.assert_array_equal(found["weight"], [[0] * 3, [1] * 3, [0] * 3, [0] * 3])


def test_a_batch_norm_with_a_symbolic_batch_serves_every_size_and_stays_finite_on_one_row() -> None:
    layer = nn.BatchNorm(3)
    params, state = layer.init(sn.random.key(0))
    step = sn.compile(lambda x, p, s: layer(x, p, s, train=True), dims={"x": ("batch", None)})
    module = torch.nn.BatchNorm1d(3)
    for rows in (6, 2):
        x = numbers(rows, 3)
        y, state = step(x, params, state)
        close(y, module(torch.tensor(x)).detach().numpy())
        close(state["running_var"], module.running_var.numpy())
    y, state = step(numbers(1, 3), params, state)
    assert np.isfinite(np.asarray(y)).all()
    assert all(np.isfinite(leaf).all() for leaf in sn.tree.leaves(arrays(state)))


def test_statistics_of_half_precision_are_those_of_single_precision() -> None:
    x = (numbers(64, 3) * 3 + 300).astype(np.float16)
    layer = nn.BatchNorm(3)
    params, state = layer.init(sn.random.key(0))
    y, after = run(lambda x, p, s: layer(x, p, s, train=True), x, params, state)
    wide = x.astype(np.float32)
    assert y.dtype == np.float16
    close(after["running_mean"], 0.1 * wide.mean(0), 1e-5)
    close(after["running_var"], 0.9 + 0.1 * wide.var(0, ddof=1), 1e-4)
    close(y, (wide - wide.mean(0)) / wide.std(0), 3e-3)


@pytest.mark.parametrize(
    ("layer", "module"),
    [
        (nn.WeightNorm(nn.Linear(5, 3)), torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(5, 3))),
        (nn.WeightNorm(nn.Bilinear(5, 5, 3)), torch.nn.utils.parametrizations.weight_norm(torch.nn.Bilinear(5, 5, 3))),
    ],
    ids=["a matrix", "a kernel of three axes"],
)
def test_a_normed_weight_agrees_with_the_module(layer: nn.WeightNorm, module: torch.nn.Module) -> None:
    is_matrix = isinstance(layer.layer, nn.Linear)
    stem = "parametrizations.weight.original"
    names = {"weight_g": f"{stem}0", "weight_v": f"{stem}1", "bias": "bias"}
    found = {ours: dict(module.named_parameters())[theirs] for ours, theirs in names.items()}

    def ours(array: np.ndarray) -> np.ndarray:
        return array.T.copy() if is_matrix and array.ndim == 2 else array

    params = {"layer": {name: ours(p.detach().numpy()) for name, p in found.items()}}
    params["layer"]["weight_g"] = params["layer"]["weight_g"] * 1.5
    with torch.no_grad():
        found["weight_g"].mul_(1.5)
    x = [numbers(4, 5) for _ in range(1 if is_matrix else 2)]
    given = x[0] if is_matrix else tuple(x)
    y = module(*map(torch.tensor, x))
    (y**2).sum().backward()

    def objective(params: object, x: object) -> tuple[sn.Tensor, sn.Tensor]:
        result, _ = layer(x, params, {})  # type: ignore[arg-type]
        return (result**2).sum(), result

    (_, result), gradient = run(sn.value_and_grad(objective, has_aux=True), params, given)
    close(result, y.detach().numpy())
    for name, parameter in found.items():
        assert parameter.grad is not None
        close(gradient["layer"][name], ours(parameter.grad.numpy()), 1e-4)


def test_a_normed_weight_begins_as_the_weight_that_the_layer_would_have() -> None:
    inner = nn.Linear(5, 3)
    normed = nn.WeightNorm(inner)
    params, _ = nn.Chain(normed).init(sn.random.key(3))
    plain, _ = nn.Chain(nn.Chain(layer=inner)).init(sn.random.key(3))
    x = numbers(2, 5)
    y, expected = run(
        lambda p, q, x: (nn.Chain(normed)(x, p, {})[0], nn.Chain(nn.Chain(layer=inner))(x, q, {})[0]), params, plain, x
    )
    close(y, expected)


def test_an_instance_norm_with_running_statistics_moves_and_uses_them_as_the_module_does() -> None:
    layer = nn.InstanceNorm(3, track_running_stats=True)
    module = torch.nn.InstanceNorm2d(3, track_running_stats=True)
    x = numbers(2, 3, 4, 5) * 2 + 1
    params, state = layer.init(sn.random.key(0))
    trained, state = run(lambda x, p, s: layer(x, p, s, train=True), x, params, state)
    close(trained, module.train()(torch.tensor(x)).numpy())
    close(state["running_mean"], module.running_mean.numpy())
    close(state["running_var"], module.running_var.numpy())
    close(run(lambda x, p, s: layer(x, p, s)[0], x, params, state), module.eval()(torch.tensor(x)).numpy())
