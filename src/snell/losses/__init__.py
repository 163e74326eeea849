"""Losses: functions of a prediction and a target to the number that training lowers.

Each is computed in f32 at least and takes `reduction`: the "mean" over what counts, the "sum", or "none".
"""

from snell.losses.binary_cross_entropy import binary_cross_entropy, binary_cross_entropy_with_logits, focal
from snell.losses.cross_entropy import cross_entropy
from snell.losses.ctc import ctc
from snell.losses.distribution import dice, kl_divergence
from snell.losses.margin import cosine, cosine_embedding, hinge, triplet
from snell.losses.regression import huber, mae, mse, poisson, smooth_l1

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cosine",
    "cosine_embedding",
    "cross_entropy",
    "ctc",
    "dice",
    "focal",
    "hinge",
    "huber",
    "kl_divergence",
    "mae",
    "mse",
    "poisson",
    "smooth_l1",
    "triplet",
]
