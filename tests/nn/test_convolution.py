"""Convolutions and transposed convolutions equal PyTorch's modules, forward and backward, with their parameters."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from tests.nn.torch_layers import Case, Outcome, floats, outcomes

import snell as sn
from snell import nn
from snell.errors import ConfigError, ShapeError

SIZES = {1: (9,), 2: (7, 6), 3: (5, 4, 6)}
CONVOLUTIONS = {1: (nn.Conv1d, torch.nn.Conv1d), 2: (nn.Conv2d, torch.nn.Conv2d), 3: (nn.Conv3d, torch.nn.Conv3d)}
TRANSPOSED = {
    1: (nn.ConvTranspose1d, torch.nn.ConvTranspose1d),
    2: (nn.ConvTranspose2d, torch.nn.ConvTranspose2d),
    3: (nn.ConvTranspose3d, torch.nn.ConvTranspose3d),
}


def case(kinds: dict[int, Any], rank: int, channels: tuple[int, int], kernel: Any, **options: Any) -> Case:
    ours, theirs = kinds[rank]
    layer = ours(*channels, kernel, dtype="f64", **options)
    return Case(layer, theirs(*channels, kernel, **options).double(), floats(2, channels[0], *SIZES[rank]))


CASES = {
    "strided, 1 axis": case(CONVOLUTIONS, 1, (3, 4), 3, stride=2, padding=1),
    "same with dilation, 1 axis": case(CONVOLUTIONS, 1, (2, 2), 4, padding="same", dilation=2),
    "groups, 2 axes": case(CONVOLUTIONS, 2, (4, 6), (3, 2), groups=2, stride=(2, 1), padding=(1, 0)),
    "depthwise without a bias, 2 axes": case(CONVOLUTIONS, 2, (3, 3), 3, groups=3, bias=False, dilation=2, padding=2),
    "3 axes": case(CONVOLUTIONS, 3, (2, 3), (3, 2, 3), stride=2, padding=1),
    "reflected border": case(CONVOLUTIONS, 2, (2, 3), 3, padding=(2, 1), padding_mode="reflect"),
    "replicated border": case(CONVOLUTIONS, 1, (2, 3), 5, padding=2, padding_mode="replicate", stride=2),
    "circular border, same": case(CONVOLUTIONS, 2, (2, 2), (3, 4), padding="same", padding_mode="circular"),
    "transposed, 1 axis": case(TRANSPOSED, 1, (3, 4), 3, stride=2, padding=1, output_padding=1),
    "transposed with groups, 2 axes": case(TRANSPOSED, 2, (4, 6), (3, 2), groups=2, stride=(2, 1), padding=(1, 0)),
    "transposed and dilated, 2 axes": case(TRANSPOSED, 2, (2, 3), 3, dilation=2, stride=3, bias=False),
    "transposed, 3 axes": case(TRANSPOSED, 3, (2, 2), 2, stride=2, padding=1),
}


@pytest.fixture(scope="module")
def found() -> dict[str, Outcome]:
    return outcomes(CASES)


@pytest.mark.parametrize("name", CASES)
def test_a_convolution_and_its_gradients_equal_pytorch(name: str, found: dict[str, Outcome]) -> None:
    found[name].check()


@pytest.mark.parametrize("name", CASES)
def test_initial_parameters_have_the_shapes_and_bounds_of_pytorch(name: str) -> None:
    layer, module = CASES[name].layer, CASES[name].module
    made = layer.parameters(sn.random.key(0))
    assert {k: v.shape for k, v in made.items()} == {k: tuple(v.shape) for k, v in module.named_parameters()}
    bound = 1 / math.sqrt(math.prod(module.weight.shape[1:]))
    largest = np.abs(made["weight"].numpy()).max()
    assert 0.5 * bound < largest <= bound


def test_the_activation_comes_after_the_bias() -> None:
    layer = nn.Conv1d(2, 3, 3, sn.relu)
    x, params = floats(1, 2, 6).astype(np.float32), {"weight": floats(3, 2, 3, seed=1), "bias": floats(3, seed=2)}
    y, state = layer(x, params, {})
    plain, _ = dataclasses.replace(layer, activation=None)(x, params, {})
    np.testing.assert_allclose(y.numpy(), np.maximum(plain.numpy(), 0))
    assert state == {}


@pytest.mark.parametrize(("kernel", "stride", "dilation"), [(3, 2, 1), (4, 2, 1), (2, 3, 1), (3, 1, 2), (5, 3, 2)])
def test_a_transposed_convolution_of_padding_same_multiplies_extents_by_the_stride(
    kernel: int, stride: int, dilation: int
) -> None:
    layer = nn.ConvTranspose1d(2, 3, kernel, stride=stride, dilation=dilation, padding="same")
    y, _ = layer(floats(1, 2, 7), layer.parameters(sn.random.key(0)), {})
    assert y.shape == (1, 3, 7 * stride)


def test_one_program_serves_batches_and_heights_that_are_dims() -> None:
    layer = nn.Conv2d(2, 3, 3, stride=2, padding=1)
    params, _ = layer.init(sn.random.key(1))
    f = sn.compile(lambda x, p: layer(x, p, {})[0], dims={"x": ("batch", None, "height", None)})
    for batch, height in ((1, 3), (3, 8)):
        x = floats(batch, 2, height, 5).astype(np.float32)
        weight, bias = (torch.from_numpy(np.array(params[name])) for name in ("weight", "bias"))
        expected = torch.nn.functional.conv2d(torch.from_numpy(x), weight, bias, stride=2, padding=1)
        np.testing.assert_allclose(np.asarray(f(x, params)), expected.numpy(), rtol=1e-4, atol=1e-5)


def test_options_given_as_lists_leave_a_layer_hashable_and_equal() -> None:
    given = nn.Conv2d(1, 2, [3, 3], padding=[1, 1], stride=[2, 1])  # type: ignore[arg-type]
    same = nn.Conv2d(1, 2, (3, 3), padding=(1, 1), stride=(2, 1))
    assert given == same
    assert hash(given) == hash(same)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.Conv2d(3, 8, (3, 3, 3)), "Conv2d: kernel_size expected 1 or 2 integers"),
        (lambda: nn.Conv2d(3, 8, 0), "kernel_size expected 1 or 2 integers of at least 1, received 0"),
        (lambda: nn.Conv1d(3, 8, 3, groups=2), "`groups` divides, received 3 and 8 channels and 2 groups"),
        (lambda: nn.Conv1d(3, 8, 3, padding="same", stride=2), "Conv1d: padding expected 'valid', 'same'"),
        (lambda: nn.Conv1d(3, 8, 3, padding_mode="mirror"), "padding_mode expected zeros, reflect"),
        (lambda: nn.ConvTranspose1d(3, 8, 3, stride=2, output_padding=2), "output_padding expected numbers below"),
    ],
)
def test_options_that_mean_nothing_are_errors_that_name_the_layer(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


@pytest.mark.parametrize("shape", [(2, 4, 7, 7), (2, 3, 7)])
def test_an_input_of_other_channels_or_axes_is_an_error_that_shows_both(shape: tuple[int, ...]) -> None:
    layer = nn.Conv2d(3, 8, 3)
    with pytest.raises(
        ShapeError, match=r"Conv2d\(3, 8, 3\) expected x of shape \(n, 3, height, width\), received f64"
    ):
        layer(floats(*shape), layer.parameters(sn.random.key(0)), {})
