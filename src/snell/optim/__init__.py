"""Optimizers: transforms of gradients, chained, whose hyperparameters live in their state."""

from snell.optim import lr_schedule
from snell.optim.chain import chain
from snell.optim.hyperparameters import hyperparameters, with_hyperparameters
from snell.optim.lr_schedule.schedule import LrSchedule
from snell.optim.sgd import sgd
from snell.optim.transform import Transform, apply_updates

__all__ = [
    "LrSchedule",
    "Transform",
    "apply_updates",
    "chain",
    "hyperparameters",
    "lr_schedule",
    "sgd",
    "with_hyperparameters",
]
