"""lr_schedule: hyperparameters that change with the number of updates, or with a metric.

optim.adamw(lr_schedule.warm_up(500, lr_schedule.cosine(1e-3, steps=10_000)))
"""

from snell.optim.lr_schedule.annealing import constant, cosine, linear, one_cycle
from snell.optim.lr_schedule.joining import joined, warm_up
from snell.optim.lr_schedule.plateau import Plateau, reduce_on_plateau
from snell.optim.lr_schedule.schedule import LrSchedule
from snell.optim.lr_schedule.steps import multi_step, step

__all__ = [
    "LrSchedule",
    "Plateau",
    "constant",
    "cosine",
    "joined",
    "linear",
    "multi_step",
    "one_cycle",
    "reduce_on_plateau",
    "step",
    "warm_up",
]
