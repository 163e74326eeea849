"""Pools, upsampling, pixel shuffles and flattening equal PyTorch's modules, forward and backward."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.nn.torch_layers import Case, Outcome, floats, outcomes

import snell as sn
from snell import nn
from snell.errors import ConfigError, ShapeError

LINE, IMAGE, VOLUME = floats(2, 3, 11), floats(2, 3, 7, 10), floats(1, 2, 5, 6, 7)
PIXELS = floats(2, 8, 3, 5)
torch_nn = torch.nn

CASES = {
    "max, 1 axis": Case(nn.MaxPool1d(3, 2, 1), torch_nn.MaxPool1d(3, 2, 1), LINE),
    "max with a ceiling, 2 axes": Case(
        nn.MaxPool2d((3, 2), (2, 3), (1, 0), ceil_mode=True),
        torch_nn.MaxPool2d((3, 2), (2, 3), (1, 0), ceil_mode=True),
        IMAGE,
    ),
    "dilated max, 2 axes": Case(nn.MaxPool2d(2, 1, dilation=3), torch_nn.MaxPool2d(2, 1, dilation=3), IMAGE),
    "max, 3 axes": Case(nn.MaxPool3d(2), torch_nn.MaxPool3d(2), VOLUME),
    "mean, 1 axis": Case(nn.AvgPool1d(4), torch_nn.AvgPool1d(4), LINE),
    "mean of what is not padding, 2 axes": Case(
        nn.AvgPool2d(3, 2, 1, count_include_pad=False), torch_nn.AvgPool2d(3, 2, 1, count_include_pad=False), IMAGE
    ),
    "mean with a ceiling, 3 axes": Case(
        nn.AvgPool3d(3, 2, 1, ceil_mode=True), torch_nn.AvgPool3d(3, 2, 1, ceil_mode=True), VOLUME
    ),
    "adaptive mean, 1 axis": Case(nn.AdaptiveAvgPool1d(4), torch_nn.AdaptiveAvgPool1d(4), LINE),
    "adaptive mean, 2 axes": Case(nn.AdaptiveAvgPool2d((3, 5)), torch_nn.AdaptiveAvgPool2d((3, 5)), IMAGE),
    "adaptive mean, more windows than elements": Case(
        nn.AdaptiveAvgPool2d((9, None)), torch_nn.AdaptiveAvgPool2d((9, None)), IMAGE
    ),
    "adaptive mean, 3 axes": Case(nn.AdaptiveAvgPool3d((2, 3, 4)), torch_nn.AdaptiveAvgPool3d((2, 3, 4)), VOLUME),
    "adaptive max, 1 axis": Case(nn.AdaptiveMaxPool1d(3), torch_nn.AdaptiveMaxPool1d(3), LINE),
    "adaptive max, 2 axes": Case(nn.AdaptiveMaxPool2d((4, 6)), torch_nn.AdaptiveMaxPool2d((4, 6)), IMAGE),
    "adaptive max, 3 axes": Case(nn.AdaptiveMaxPool3d(2), torch_nn.AdaptiveMaxPool3d(2), VOLUME),
    "global mean": Case(nn.GlobalAvgPool(), torch_nn.AdaptiveAvgPool2d(1), IMAGE),
    "global max": Case(
        nn.GlobalMaxPool(keepdims=False), torch_nn.Sequential(torch_nn.AdaptiveMaxPool2d(1), torch_nn.Flatten()), IMAGE
    ),
    "nearest by a factor": Case(nn.Upsample(scale_factor=2), torch_nn.Upsample(scale_factor=2), IMAGE),
    "nearest to a size": Case(nn.Upsample((5, 16)), torch_nn.Upsample((5, 16)), IMAGE),
    "linear by a factor": Case(
        nn.Upsample(scale_factor=2.5, mode="linear"), torch_nn.Upsample(scale_factor=2.5, mode="linear"), LINE
    ),
    "bilinear by a factor": Case(
        nn.Upsample(scale_factor=(2.0, 1.5), mode="bilinear"),
        torch_nn.Upsample(scale_factor=(2.0, 1.5), mode="bilinear"),
        IMAGE,
    ),
    "bilinear to a size": Case(
        nn.Upsample((13, 4), mode="bilinear"), torch_nn.Upsample((13, 4), mode="bilinear"), IMAGE
    ),
    "bilinear with its corners aligned": Case(
        nn.Upsample((13, 4), mode="bilinear", align_corners=True),
        torch_nn.Upsample((13, 4), mode="bilinear", align_corners=True),
        IMAGE,
    ),
    "trilinear with its corners aligned": Case(
        nn.Upsample(scale_factor=2, mode="trilinear", align_corners=True),
        torch_nn.Upsample(scale_factor=2, mode="trilinear", align_corners=True),
        VOLUME,
    ),
    "channels as pixels": Case(nn.PixelShuffle(2), torch_nn.PixelShuffle(2), PIXELS),
    "pixels as channels": Case(nn.PixelUnshuffle(3), torch_nn.PixelUnshuffle(3), floats(2, 2, 6, 9)),
    "flattened": Case(nn.Flatten(), torch_nn.Flatten(), IMAGE),
    "flattened in the middle": Case(nn.Flatten(1, 2), torch_nn.Flatten(1, 2), IMAGE),
}


@pytest.fixture(scope="module")
def found() -> dict[str, Outcome]:
    return outcomes(CASES)


@pytest.mark.parametrize("name", CASES)
def test_a_layer_without_parameters_and_its_gradient_equal_pytorch(name: str, found: dict[str, Outcome]) -> None:
    # PyTorch works out where a line is read in the dtype of the numbers; the layer's places are exact.
    found[name].check(1e-6 if "linear" in name else 1e-10)


@pytest.mark.parametrize("name", CASES)
def test_a_layer_without_parameters_has_none_and_no_state(name: str) -> None:
    assert CASES[name].layer.parameters(sn.random.key(0)) == {}
    assert CASES[name].layer.initial_state(sn.random.key(0)) == {}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.MaxPool2d(0), "MaxPool2d: kernel_size expected 1 or 2 integers of at least 1, received 0"),
        (lambda: nn.AvgPool1d(2, padding=(1, 1)), "AvgPool1d: padding expected 1 or 1 entries"),
        (lambda: nn.AdaptiveMaxPool2d((1, 2, 3)), r"AdaptiveMaxPool2d: output_size expected 1 or 2 .* \(1, 2, 3\)"),
        (lambda: nn.Upsample(), "Upsample expected either size or scale_factor"),
        (lambda: nn.Upsample(2, mode="cubic"), "Upsample expected mode nearest, linear, bilinear, trilinear"),
        (lambda: nn.Upsample(2, align_corners=True), "align_corners with a linear one alone"),
        (lambda: nn.PixelShuffle(0), "PixelShuffle expected a factor of at least 1, received 0"),
    ],
)
def test_options_that_mean_nothing_are_errors_that_name_the_layer(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


@pytest.mark.parametrize(
    ("layer", "shape", "message"),
    [
        (nn.MaxPool2d(2), (2, 3, 7), r"MaxPool2d\(2\) expected x of shape \(n, channels, height, width\), received"),
        (nn.GlobalAvgPool(), (2, 3), r"GlobalAvgPool\(\) expected x of shape \(n, channels, \*spatial\), received"),
        (nn.Upsample(4, mode="bilinear"), (2, 3, 7), r"expected x of shape \(n, channels, height, width\)"),
        (nn.PixelShuffle(2), (2, 6, 3, 3), "expected a multiple of 4 channels"),
        (nn.PixelUnshuffle(2), (2, 3, 3, 4), "expected a height and a width that it divides"),
        (nn.Flatten(3), (2, 3, 4), r"Flatten\(start=3.*\) expected an input with the axes 3 to -1"),
    ],
)
def test_an_input_of_another_shape_is_an_error_that_shows_it(layer: nn.Layer, shape: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        layer(floats(*shape), {}, {})


def test_elements_that_share_an_adaptive_maximum_share_its_gradient_and_second_derivatives_exist() -> None:
    x = np.zeros((1, 1, 5))
    pooled = sn.compile(sn.grad(lambda x: (sn.adaptive_max_pool(x, 3) * np.arange(1.0, 4.0)).sum()))
    # The windows are 0…1, 1…3 and 3…4.
    expected = [1 / 2, 1 / 2 + 2 / 3, 2 / 3, 2 / 3 + 3 / 2, 3 / 2]
    np.testing.assert_allclose(np.asarray(pooled(x))[0, 0], expected)

    def objective(x: sn.Tensor) -> sn.Tensor:
        return (sn.adaptive_avg_pool(x, 3) ** 2).sum() + (sn.adaptive_max_pool(x, 3) ** 3).sum()

    def of_torch(x: torch.Tensor) -> torch.Tensor:
        mean, greatest = torch.nn.functional.adaptive_avg_pool1d(x, 3), torch.nn.functional.adaptive_max_pool1d(x, 3)
        return (mean**2).sum() + (greatest**3).sum()

    point, direction = floats(1, 2, 5), floats(1, 2, 5, seed=1)
    _, found = sn.compile(lambda x, v: sn.jvp(sn.grad(objective), (x,), (v,)))(point, direction)
    _, wanted = torch.autograd.functional.hvp(of_torch, torch.from_numpy(point), torch.from_numpy(direction))
    np.testing.assert_allclose(np.asarray(found), wanted.numpy(), rtol=1e-10)
