"""The programs of training, as functions to be traced: gradients, their application, a whole step, an evaluation.

`Variables` are what a step changes, a dict of trees: params, state, optimizer_state, step, skipped, key, loss_scale.  Each
program is one executable: nothing of it runs in Python once it is compiled.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from snell import trees
from snell.dtypes import f32
from snell.engine.array import Array
from snell.errors import ShapeError
from snell.frontend import (
    Tensor,
    as_tensor,
    astype,
    isfinite,
    logical_and,
    logical_not,
    random,
    reshape,
    scan,
    value_and_grad,
    where,
    zeros_like,
)
from snell.optim import Transform, apply_updates, global_norm
from snell.symbolic import Shape, show_shape
from snell.train.dtype_policy import checked_layers
from snell.train.objective import Objective
from snell.train.options import Options

__all__ = [
    "EvalResult",
    "Gradients",
    "Recipe",
    "StepResult",
    "applied",
    "evaluated",
    "gradients",
    "in_compute_dtype",
    "predicted",
    "stepped",
]

Variables = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class StepResult:
    """What a step tells: loss f32 (), metrics as the objective gave them, the gradients' norm f32 (), and skipped bool ().

    `grad_norm` is the norm of all gradients as one vector, before the optimizer clips.  A step whose loss or norm is
    infinite or NaN changes nothing but the counters; `skipped` says so.
    """

    loss: Array
    metrics: Any
    grad_norm: Array
    skipped: Array


@dataclass(frozen=True, slots=True, eq=False)
class EvalResult:
    """The loss f32 () and the metrics of a batch, without training."""

    loss: Array
    metrics: Any


@dataclass(frozen=True, slots=True, eq=False)
class Gradients:
    """Loss, metrics and norm as in `StepResult`; `grads`, a tree like the parameters; the layers' state after the pass."""

    loss: Array
    metrics: Any
    grads: Any
    state: Any
    grad_norm: Array


for _class in (StepResult, EvalResult, Gradients):
    trees.register(_class)


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a program is made from, besides the objective: nothing in it changes while training."""

    model: Any
    optimizer: Transform
    options: Options


def gradients(recipe: Recipe, objective: Objective, variables: Variables, batch: Any) -> Gradients:
    """The pass forward and backward, in parts where the recipe says so."""
    key = random.fold_in(variables["key"], variables["step"])
    if recipe.options.accumulate == 1:
        return _finished(*_pass(recipe, objective, variables, variables["state"], batch, key), variables)
    parts = trees.map(functools.partial(_in_parts, recipe.options.accumulate), batch)
    zero = trees.map(zeros_like, variables["params"])

    def body(carry: tuple[Any, Any, Tensor], part: Any) -> tuple[Any, Any]:
        total, state, number = carry
        own = random.fold_in(key, number)
        loss, metrics, grads, after = _pass(recipe, objective, variables, state, part, own)
        return (trees.map(lambda a, b: a + b, total, grads), after, number + 1), (loss, metrics)

    first = (zero, variables["state"], as_tensor(0))
    (total, state, _), (losses, metrics) = scan(body, first, parts)
    share = 1.0 / recipe.options.accumulate
    grads = trees.map(lambda g: g * share, total)
    return _finished(losses.mean(), trees.map(_joined, metrics), grads, state, variables)


def _pass(
    recipe: Recipe, objective: Objective, variables: Variables, state: Any, batch: Any, key: Tensor
) -> tuple[Tensor, Any, Any, Any]:
    """(loss, metrics, gradients of the scaled loss, state after) of one part of a batch."""
    model = checked_layers(recipe.model, recipe.options.dtype_policy)
    scale = variables["loss_scale"].get("scale", 1.0)
    narrow = functools.partial(in_compute_dtype, recipe.options)

    def scaled_loss(params: Any) -> tuple[Tensor, Any]:
        loss, after, metrics = objective(model, narrow(params), state, narrow(batch), key=key, train=True)
        return loss * scale, (loss, after, metrics)

    (_, (loss, after, metrics)), grads = value_and_grad(scaled_loss, has_aux=True)(variables["params"])
    return loss, metrics, grads, after


def _finished(loss: Tensor, metrics: Any, grads: Any, state: Any, variables: Variables) -> Gradients:
    scale = variables["loss_scale"].get("scale")
    if scale is not None:
        inverse = 1.0 / as_tensor(scale)
        grads = trees.map(lambda g: g * inverse, grads)
    return Gradients(loss, metrics, grads, state, astype(global_norm(grads), f32))  # type: ignore[arg-type]  # tensors, while traced


def applied(recipe: Recipe, variables: Variables, found: Gradients) -> tuple[Tensor, Variables]:
    """Whether the gradients were finite, and the variables after their update, or as they were where they are not."""
    finite = logical_and(isfinite(found.loss), isfinite(found.grad_norm))
    updates, optimizer = recipe.optimizer.update(found.grads, variables["optimizer_state"], variables["params"])
    after = {
        "params": apply_updates(variables["params"], updates),
        "state": found.state,
        "optimizer_state": optimizer,
    }
    scaling = recipe.options.loss_scaling
    kept = {name: trees.map(functools.partial(_chosen, finite), tree, variables[name]) for name, tree in after.items()}
    counted = as_tensor(variables["skipped"])
    return finite, {
        **kept,
        "step": as_tensor(variables["step"]) + 1,
        "skipped": counted + astype(logical_not(finite), counted.dtype),
        "key": variables["key"],
        "loss_scale": {} if scaling is None else scaling.following(variables["loss_scale"], finite),
    }


def stepped(recipe: Recipe, objective: Objective, variables: Variables, batch: Any) -> tuple[StepResult, Variables]:
    """Forward, backward and update."""
    found = gradients(recipe, objective, variables, batch)
    finite, after = applied(recipe, variables, found)
    skipped = logical_not(finite)
    return StepResult(found.loss, found.metrics, found.grad_norm, skipped), after  # type: ignore[arg-type]


def evaluated(recipe: Recipe, objective: Objective, variables: Variables, batch: Any) -> EvalResult:
    """The objective without training; what it does to the state is left out."""
    model = checked_layers(recipe.model, recipe.options.dtype_policy)
    narrow = functools.partial(in_compute_dtype, recipe.options)
    key = random.fold_in(variables["key"], variables["step"])
    loss, _, metrics = objective(
        model, narrow(variables["params"]), variables["state"], narrow(batch), key=key, train=False
    )
    return EvalResult(loss, metrics)  # type: ignore[arg-type]


def predicted(recipe: Recipe, variables: Variables, x: Any) -> Any:
    """The model's result, without training."""
    narrow = functools.partial(in_compute_dtype, recipe.options)
    model = checked_layers(recipe.model, recipe.options.dtype_policy)
    return model(narrow(x), narrow(variables["params"]), variables["state"], train=False)[0]


def in_compute_dtype(options: Options, tree: Any) -> Any:
    """Floats of a tree in the dtype that forward and backward compute in; gradients come back in the masters' own."""
    dtype = options.compute_dtype
    if dtype is None:
        return tree
    return trees.map(lambda leaf: astype(leaf, dtype) if as_tensor(leaf).dtype.is_float else leaf, tree)


def _in_parts(count: int, leaf: Any) -> Tensor:
    """(batch, …) as (count, batch / count, …)."""
    tensor = as_tensor(leaf)
    shape: Shape = tensor.shape
    if not shape or not isinstance(shape[0], int) or shape[0] % count:
        raise ShapeError(
            f"accumulate={count} cuts a batch into {count} equal parts, received an array of shape {show_shape(shape)}; "
            f"make the batch size a multiple of {count} (and drop a last batch that is not: drop_last=True)"
        )
    return reshape(tensor, (count, shape[0] // count, *shape[1:]))


def _joined(parts: Tensor) -> Tensor:
    """A metric of all parts: floats are means and are averaged, integers count and are added."""
    return parts.mean(axis=0) if parts.dtype.is_float else astype(parts.sum(axis=0), parts.dtype)


def _chosen(finite: Tensor, new: Any, old: Any) -> Tensor:
    before = as_tensor(old)
    return where(finite, astype(as_tensor(new), before.dtype), before)
