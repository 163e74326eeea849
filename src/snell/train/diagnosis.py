"""Diagnosis: which layer made the first value that is infinite or NaN.

The model runs once more with every layer watched.  Forward, the culprit is the innermost layer whose inputs and parameters
are finite and whose result is not.  Backward it is the last one (the first that the backward pass comes to) whose result
has a finite cotangent while that of its input, or a gradient of its parameters, is not.

Cotangents are seen through probes: a zero that is added to a value has the sum of the value's cotangent as its gradient.
Layers inside of a repetition (`scan`) are not seen apart; what holds them is named.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from snell import trees
from snell.engine.defaults import compile
from snell.errors import NonFiniteError
from snell.frontend import Tensor, as_tensor, isfinite, logical_and, random, value_and_grad
from snell.nn import Call, Layer, watched
from snell.train.objective import Objective
from snell.train.step_program import Recipe, in_compute_dtype

__all__ = ["raise_diagnosed"]

_AT_A_LOSS = "the step was not finite, but every layer is when each is computed by itself"


@dataclass(frozen=True, slots=True)
class _Record:
    """One call of a layer: the numbers of the probes at its input and its result, and whether these are finite."""

    path: trees.Path
    probe_in: int
    probe_out: int
    finite_in: Tensor
    finite_out: Tensor


class _Recorder:
    """Watches one run of the model; without probes it only counts those that there will be."""

    def __init__(self, home: Any, probes: Sequence[Tensor] | None) -> None:
        self._home, self._probes = home, probes
        self._open: list[int | None] = []
        self.count = 0
        self.records: list[_Record] = []

    def enter(self, path: trees.Path, x: Any) -> Any:
        if self._is_foreign(x):
            self._open.append(None)
            return x
        self._open.append(self.count)
        return self._probed(x)

    def leave(self, call: Call) -> Any:
        entered = self._open.pop()
        if entered is None:
            return call.y
        finite_in = _all_finite((*trees.leaves(call.x), *trees.leaves(dict(call.params))))
        self.records.append(_Record(call.path, entered, self.count, finite_in, _all_finite(trees.leaves(call.y))))
        return self._probed(call.y)

    def _probed(self, tree: Any) -> Any:
        number, self.count = self.count, self.count + 1
        if self._probes is None:
            return tree
        probe = self._probes[number]
        return trees.map(lambda leaf: leaf + probe if as_tensor(leaf).dtype.is_float else leaf, tree)

    def _is_foreign(self, tree: Any) -> bool:
        """Whether this is the body of a repetition, whose values mean nothing outside of it."""
        tensors = [leaf for leaf in trees.leaves(tree) if isinstance(leaf, Tensor)]
        return any(tensor.trace is not self._home and tensor.trace.is_inside(self._home) for tensor in tensors)


def raise_diagnosed(recipe: Recipe, objective: Objective, variables: dict[str, Any], batch: Any) -> None:
    """Raise NonFiniteError naming where the first infinity or NaN came from.

    Returns where only the scale of the loss made gradients overflow, which dynamic scaling is about to correct.
    """
    recorders: list[_Recorder] = []

    def flags(variables: dict[str, Any], batch: Any) -> dict[str, Any]:
        return _flags(recipe, objective, variables, batch, recorders)

    found = compile(flags, precision="strict")(variables, batch)
    culprit = _culprit(found, recorders[-1].records, variables, batch)
    if culprit is None and recipe.options.loss_scaling is not None:
        return
    path, message = culprit or (None, _AT_A_LOSS)
    error = NonFiniteError(
        f"{message}; look at its inputs and parameters in this state (ts was not donated), "
        "or lower the learning rate if training came here"
    )
    error.path = path
    raise error


def _flags(
    recipe: Recipe, objective: Objective, variables: dict[str, Any], batch: Any, recorders: list[_Recorder]
) -> dict[str, Any]:
    """What is finite: loss, batch, parameters, each layer's input and result, all cotangents and gradients."""
    narrow = functools.partial(in_compute_dtype, recipe.options)
    key = random.fold_in(variables["key"], variables["step"])

    def run(params: Any, probes: Sequence[Tensor] | None) -> tuple[Tensor, Any]:
        recorder = _Recorder(trees.leaves(params)[0].trace, probes)
        recorders.append(recorder)
        model = recipe.model
        if isinstance(model, Layer):
            model = watched(model, recorder.leave, before=recorder.enter)
        loss, _, _ = objective(model, narrow(params), variables["state"], narrow(batch), key=key, train=True)
        return loss, [isfinite(loss), [(record.finite_in, record.finite_out) for record in recorder.records]]

    run(variables["params"], None)
    probes = [as_tensor(0.0) for _ in range(recorders[-1].count)]
    differentiated = value_and_grad(run, argnums=(0, 1), has_aux=True)
    (_, (loss, layers)), (grads, cotangents) = differentiated(variables["params"], probes)
    finite = functools.partial(trees.map, lambda leaf: _all_finite([leaf]))
    return {
        "loss": loss,
        "layers": layers,
        "grads": finite(grads),
        "cotangents": finite(cotangents),
        "params": finite(variables["params"]),
        "batch": finite(batch),
    }


def _all_finite(leaves: Iterable[Any]) -> Tensor:
    floats = [tensor for tensor in map(as_tensor, leaves) if tensor.dtype.is_float]
    return functools.reduce(logical_and, [isfinite(tensor).all() for tensor in floats], as_tensor(True))


def _culprit(
    found: dict[str, Any], records: Sequence[_Record], variables: dict[str, Any], batch: Any
) -> tuple[str | None, str] | None:
    """(path, message) of the first place that is not finite; None where all are."""
    for name, tree in (("batch", batch), ("params", variables["params"])):
        for path, finite in zip(trees.paths(tree), trees.leaves(found[name]), strict=True):
            if not finite:
                place = ".".join((name, *path))
                return place, f"{place} is not finite before the step"
    for record, (finite_in, finite_out) in zip(records, found["layers"], strict=True):
        if finite_in and not finite_out:
            place = _shown(record.path)
            return place, f"layer {place} gives a value that is not finite, of finite inputs, in the forward pass"
    if not found["loss"]:
        return "loss", "the loss is not finite, of finite predictions"
    return _backward(found, records)


def _backward(found: dict[str, Any], records: Sequence[_Record]) -> tuple[str | None, str] | None:
    cotangents = [bool(finite) for finite in found["cotangents"]]
    bad = {
        path
        for path, finite in zip(trees.paths(found["grads"]), trees.leaves(found["grads"]), strict=True)
        if not finite
    }
    candidates = [
        record.path
        for record in records
        if cotangents[record.probe_out] and not (cotangents[record.probe_in] and _none_below(record.path, bad))
    ]
    for path in reversed(candidates):
        # A layer around the culprit is one too.
        if not any(other != path and other[: len(path)] == path for other in candidates):
            place = _shown(path)
            return place, f"layer {place} gives a gradient that is not finite, of a finite one, in the backward pass"
    if all(cotangents) and not bad:
        return None
    return "loss", "the gradient of the loss with respect to the predictions is not finite"


def _none_below(path: trees.Path, bad: set[trees.Path]) -> bool:
    return not any(other[: len(path)] == path for other in bad)


def _shown(path: trees.Path) -> str:
    return ".".join(path) or "(the model itself)"
