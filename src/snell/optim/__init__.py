"""Optimizers: transforms of gradients, chained, whose hyperparameters live in their state."""

from snell.optim import lr_schedule
from snell.optim.accumulate import accumulate
from snell.optim.adafactor import adafactor
from snell.optim.adagrad import adagrad
from snell.optim.adam import adam, adamw
from snell.optim.chain import chain
from snell.optim.clip import clip_by_norm, clip_by_value, global_norm
from snell.optim.ema import averaged_params, ema
from snell.optim.hyperparameters import hyperparameters, with_hyperparameters
from snell.optim.lamb import lamb
from snell.optim.lion import lion
from snell.optim.lr_schedule import LrSchedule
from snell.optim.mask import Mask
from snell.optim.muon import muon
from snell.optim.partition import freeze, masked, partition
from snell.optim.rmsprop import rmsprop
from snell.optim.scale_by_lr_schedule import scale_by_lr_schedule
from snell.optim.sgd import sgd
from snell.optim.transform import Transform, apply_updates
from snell.optim.weight_decay import weight_decay

__all__ = [
    "LrSchedule",
    "Mask",
    "Transform",
    "accumulate",
    "adafactor",
    "adagrad",
    "adam",
    "adamw",
    "apply_updates",
    "averaged_params",
    "chain",
    "clip_by_norm",
    "clip_by_value",
    "ema",
    "freeze",
    "global_norm",
    "hyperparameters",
    "lamb",
    "lion",
    "lr_schedule",
    "masked",
    "muon",
    "partition",
    "rmsprop",
    "scale_by_lr_schedule",
    "sgd",
    "weight_decay",
    "with_hyperparameters",
]
