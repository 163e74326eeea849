"""Training: one executable a step, data, checkpoints, and a loop around them."""

from snell.train import data
from snell.train.callbacks import (
    Callback,
    EarlyStopping,
    EpochEnd,
    Event,
    SaveCheckpoints,
    StepEnd,
    TensorBoard,
)
from snell.train.checkpoints import Checkpoints, Restored
from snell.train.curves import plot_curves
from snell.train.data import DataLoader
from snell.train.dtype_policy import DTypeWarning
from snell.train.fit import evaluate, fit
from snell.train.history import History
from snell.train.loss_scale import LossScaling
from snell.train.programs import CompilationWarning
from snell.train.pytorch_names import from_pytorch
from snell.train.step import apply_gradients, compute_gradients, eval_step, predict, step
from snell.train.step_program import EvalResult, Gradients, StepResult
from snell.train.train_state import TrainState

__all__ = [
    "Callback",
    "Checkpoints",
    "CompilationWarning",
    "DTypeWarning",
    "DataLoader",
    "EarlyStopping",
    "EpochEnd",
    "EvalResult",
    "Event",
    "Gradients",
    "History",
    "LossScaling",
    "Restored",
    "SaveCheckpoints",
    "StepEnd",
    "StepResult",
    "TensorBoard",
    "TrainState",
    "apply_gradients",
    "compute_gradients",
    "data",
    "eval_step",
    "evaluate",
    "fit",
    "from_pytorch",
    "plot_curves",
    "predict",
    "step",
]
