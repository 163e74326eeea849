"""Fed the gradients that PyTorch's and optax's optimizers are fed, ours arrive at the same parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import optax
import pytest
import torch
from tests.optim.judge import MATRICES, gradients, params, relative_error, trained, trained_by_torch

import snell as sn
from snell.optim import Transform

TOLERANCE = 1e-6

Torch = Callable[[list[torch.Tensor]], torch.optim.Optimizer]

TORCH: dict[str, tuple[Transform, Torch]] = {
    "sgd": (sn.optim.sgd(), lambda p: torch.optim.SGD(p)),
    "sgd with momentum, dampening and decay": (
        sn.optim.sgd(0.01, momentum=0.9, dampening=0.5, weight_decay=0.1),
        lambda p: torch.optim.SGD(p, 0.01, momentum=0.9, dampening=0.5, weight_decay=0.1),
    ),
    "sgd with Nesterov's momentum": (
        sn.optim.sgd(0.01, momentum=0.9, weight_decay=0.1, nesterov=True),
        lambda p: torch.optim.SGD(p, 0.01, momentum=0.9, weight_decay=0.1, nesterov=True),
    ),
    "adam": (sn.optim.adam(), lambda p: torch.optim.Adam(p)),
    "adam with decay and other betas": (
        sn.optim.adam(0.01, betas=(0.8, 0.95), eps=0.1, weight_decay=0.1, amsgrad=True),
        lambda p: torch.optim.Adam(p, 0.01, betas=(0.8, 0.95), eps=0.1, weight_decay=0.1, amsgrad=True),
    ),
    "adamw": (sn.optim.adamw(), lambda p: torch.optim.AdamW(p)),
    "adamw with decay and amsgrad": (
        sn.optim.adamw(0.01, weight_decay=0.5, amsgrad=True),
        lambda p: torch.optim.AdamW(p, 0.01, weight_decay=0.5, amsgrad=True),
    ),
    "adagrad": (sn.optim.adagrad(), lambda p: torch.optim.Adagrad(p)),
    "adagrad with decays and a start": (
        sn.optim.adagrad(0.1, lr_decay=0.01, weight_decay=0.1, initial_accumulator=0.5, eps=1e-3),
        lambda p: torch.optim.Adagrad(p, 0.1, lr_decay=0.01, weight_decay=0.1, initial_accumulator_value=0.5, eps=1e-3),
    ),
    "rmsprop": (sn.optim.rmsprop(), lambda p: torch.optim.RMSprop(p)),
    "rmsprop, centered, with momentum and decay": (
        sn.optim.rmsprop(0.001, alpha=0.9, eps=1e-3, momentum=0.9, weight_decay=0.1, centered=True),
        lambda p: torch.optim.RMSprop(p, 0.001, alpha=0.9, eps=1e-3, momentum=0.9, weight_decay=0.1, centered=True),
    ),
    "adafactor": (sn.optim.adafactor(), lambda p: torch.optim.Adafactor(p)),
    "adafactor with decay and other numbers": (
        sn.optim.adafactor(0.05, beta2_decay=-0.5, eps1=1e-4, eps2=1e-2, clipping=1.5, weight_decay=0.1),
        lambda p: torch.optim.Adafactor(p, 0.05, beta2_decay=-0.5, eps=(1e-4, 1e-2), d=1.5, weight_decay=0.1),
    ),
}


@pytest.mark.parametrize("case", TORCH)
def test_a_hundred_steps_end_where_those_of_torch_end(case: str) -> None:
    transform, judge = TORCH[case]
    start, recorded = params(), gradients()
    assert relative_error(trained(transform, start, recorded), trained_by_torch(judge, start, recorded)) < TOLERANCE


MUON: dict[str, tuple[Transform, Torch]] = {
    "muon": (sn.optim.muon(), lambda p: torch.optim.Muon(p)),
    "muon with other choices": (
        sn.optim.muon(momentum=0.9, nesterov=False, adjust_learning_rate="match_rms_adamw", iterations=3),
        lambda p: torch.optim.Muon(p, momentum=0.9, nesterov=False, adjust_lr_fn="match_rms_adamw", ns_steps=3),
    ),
}


@pytest.mark.parametrize("case", MUON)
def test_a_hundred_steps_of_muon_end_where_those_of_torch_end(case: str) -> None:
    transform, judge = MUON[case]
    start, recorded = params(MATRICES), gradients(MATRICES)
    assert relative_error(trained(transform, start, recorded), trained_by_torch(judge, start, recorded)) < TOLERANCE


OPTAX: dict[str, tuple[Transform, optax.GradientTransformation]] = {
    "lamb": (sn.optim.lamb(1e-3), optax.lamb(1e-3)),
    "lamb with decay": (
        sn.optim.lamb(0.01, betas=(0.8, 0.95), weight_decay=0.1),
        optax.lamb(0.01, b1=0.8, b2=0.95, weight_decay=0.1),
    ),
    "lion": (sn.optim.lion(1e-4), optax.lion(1e-4)),
    "lion with decay": (
        sn.optim.lion(1e-3, betas=(0.8, 0.9), weight_decay=0.1),
        optax.lion(1e-3, b1=0.8, b2=0.9, weight_decay=0.1),
    ),
}


def trained_by_optax(transform: optax.GradientTransformation, start: Any, recorded: Any) -> dict[str, Any]:
    current, state = start, transform.init(start)
    for gradient in recorded:
        updates, state = transform.update(gradient, state, current)
        current = optax.apply_updates(current, updates)
    return {name: np.asarray(value) for name, value in current.items()}


@pytest.mark.parametrize("case", OPTAX)
def test_a_hundred_steps_end_where_those_of_optax_end(case: str) -> None:
    transform, judge = OPTAX[case]
    start, recorded = params(), gradients()
    assert relative_error(trained(transform, start, recorded), trained_by_optax(judge, start, recorded)) < TOLERANCE


def test_the_tolerance_tells_apart_two_epsilons() -> None:
    start, recorded = params(), gradients()
    expected = trained_by_torch(lambda p: torch.optim.Adam(p, eps=0.1), start, recorded)
    other = trained_by_torch(lambda p: torch.optim.Adam(p, eps=0.11), start, recorded)
    assert relative_error(other, expected) > 10 * TOLERANCE
