"""Steps: what is done with a train state and a batch, each by one executable.

A state that is given to `step` or `apply_gradients` is donated: its arrays may be overwritten, and reading them raises
DonatedError.  Evaluating and computing gradients leave it as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from snell.errors import GraphError
from snell.train import step_program
from snell.train.diagnosis import raise_diagnosed
from snell.train.function_identity import function_identity
from snell.train.objective import Objective
from snell.train.programs import Program
from snell.train.step_program import EvalResult, Gradients, StepResult
from snell.train.train_state import TrainState

__all__ = ["apply_gradients", "compute_gradients", "eval_step", "predict", "step"]

Function = Callable[..., Any]


def step(ts: TrainState, batch: Any, objective: Function, *, debug: bool = False) -> tuple[StepResult, TrainState]:
    """Train on a batch: forward, backward, clipping and update in one executable.  Gives (result, state after it).

    `objective` is a loss `(prediction, target)`, with batch = (input, target), or a function
    `(model, params, state, batch) -> (loss, state, metrics)`, which may also take `key` and `train` by name.

    Where the loss or the gradients are not finite, parameters, layers' state and optimizer stay as they are;
    `result.skipped` is true and `ts.skipped` counts it.  With `debug`, such a step raises NonFiniteError that names
    the layer which made the first NaN or infinity, forward or backward, by its path; `ts` is not donated then.

    New shapes reuse the state; what is compiled for them is announced by a CompilationWarning with the reason.
    Raises ConfigError for a function that is neither, ShapeError or DTypeError where the batch does not fit the model.
    """
    result, after = _program(ts, "debugged step" if debug else "step", objective)(ts.variables(), batch)
    if debug and bool(result.skipped):
        raise_diagnosed(ts.recipe, Objective.of(objective), ts.variables(), batch)
    return result, ts.with_variables(after)


def eval_step(ts: TrainState, batch: Any, objective: Function) -> EvalResult:
    """The loss and metrics of a batch with `train=False`; nothing changes.

    An objective that calls the model itself takes `train` by name to tell an evaluation from a step.
    """
    return _program(ts, "eval_step", objective)(ts.variables(), batch)


def compute_gradients(ts: TrainState, batch: Any, objective: Function) -> Gradients:
    """Loss, metrics, gradients and the layers' state after the pass; the state stays as it is.

    Gradients are f32 like the parameters, without the loss's scale, averaged over the parts of an accumulated batch.
    """
    return _program(ts, "compute_gradients", objective)(ts.variables(), batch)


def apply_gradients(ts: TrainState, gradients: Gradients) -> TrainState:
    """The state after an update with gradients that `compute_gradients` gave, perhaps changed since.

    Both are donated.  Gradients that are not finite (by their `grad_norm`) change nothing and are counted.
    """
    if not isinstance(gradients, Gradients):
        raise GraphError(
            f"apply_gradients expected what compute_gradients gave, received {type(gradients).__name__}; "
            "change single gradients with dataclasses.replace(gradients, grads=…)"
        )
    recipe = ts.recipe

    def apply(variables: Any, found: Gradients) -> Any:
        return step_program.applied(recipe, variables, found)[1]

    program = ts.programs.get("apply_gradients", lambda: Program("apply_gradients", apply, recipe.options, donate=True))
    return ts.with_variables(program(ts.variables(), gradients))


def predict(ts: TrainState, x: Any) -> Any:
    """The model's result for an input, with `train=False`, compiled like a step; nothing changes."""
    recipe = ts.recipe

    def run(variables: Any, batch: Any) -> Any:
        return step_program.predicted(recipe, variables, batch)

    program = ts.programs.get("predict", lambda: Program("predict", run, recipe.options, donate=False))
    return program(ts.variables(), x)


_PROGRAMS: dict[str, tuple[Callable[..., Any], bool]] = {
    "step": (step_program.stepped, True),
    "debugged step": (step_program.stepped, False),
    "eval_step": (step_program.evaluated, False),
    "compute_gradients": (step_program.gradients, False),
}


def _program(ts: TrainState, name: str, objective: Function) -> Program:
    """The program of a state that does this with this objective."""
    recipe = ts.recipe

    def make() -> Program:
        traced, donate = _PROGRAMS[name]
        wanted = Objective.of(objective)
        return Program(name, lambda variables, batch: traced(recipe, wanted, variables, batch), recipe.options, donate)

    return ts.programs.get((name, function_identity(objective)), make)
