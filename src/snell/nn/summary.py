"""summary: what each layer of a model holds, and does in one call on inputs of given shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from snell import trees
from snell.dtypes import f32
from snell.engine.array import Array
from snell.engine.cost import program_cost
from snell.engine.default_engine import default_engine
from snell.engine.report.costs import KernelCost
from snell.errors import ConfigError
from snell.frontend import Tensor, TensorSpec, random, trace
from snell.frontend.shapes import as_shape
from snell.frontend.trace import spec_of
from snell.graph.node import Graph
from snell.graph.primitives import Input
from snell.nn.layer import Layer
from snell.nn.printing import Place, numbers_in, places
from snell.nn.watching import Call, watched
from snell.symbolic import Dim, Expr, show_shape

__all__ = ["LayerCost", "Summary", "summary"]


@dataclass(frozen=True)
class LayerCost:
    """What a layer, with all inside it, holds and does in its calls.

    `parameters` are numbers and `parameter_bytes` their bytes; `flops` are floating-point operations, of which a product
    that is added is two, and `moved_bytes` what is read and written at least, were the layer a program of its own.
    `result` shows the shapes of its (last) result, and is empty where the layer is not called.
    """

    path: str
    layer: str
    result: str
    parameters: int
    parameter_bytes: int
    flops: float
    moved_bytes: float


@dataclass(frozen=True)
class Summary:
    """A line a layer, the model first; `str(summary)` is a table."""

    layers: tuple[LayerCost, ...]
    lines: tuple[str, ...] = field(repr=False)

    @property
    def total(self) -> LayerCost:
        """The whole model's."""
        return self.layers[0]

    def __getitem__(self, path: str) -> LayerCost:
        """The line of the layer at a path, such as "encoder.0"; ConfigError where there is none."""
        for cost in self.layers:
            if cost.path == path:
                return cost
        raise ConfigError(f"no layer at {path!r}; the layers are {', '.join(cost.path for cost in self.layers[1:])}")

    def __str__(self) -> str:
        rows = [("layer", "result", "parameters", "bytes", "FLOPs", "bytes moved")]
        rows += [(line, *_cells(cost)) for line, cost in zip(self.lines, self.layers, strict=True)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        return "\n".join(_aligned(row, widths) for row in rows)


def summary(model: Layer, *inputs: Any, train: bool = False) -> Summary:
    """Parameters, FLOPs and bytes of each layer, and the shapes of its results, for one call of the model.

    An input is a shape (of f32), an array, or a `TensorSpec.of(shape, dtype)`; several make a tuple.  Sizes that are Dims
    count as their typical ones.  Nothing is run.  Of layers inside `Repeated` or another loop the line of the loop counts
    all steps, and theirs one.  Raises ConfigError without an input, and what the model raises for inputs it does not take.
    """
    if not inputs:
        raise ConfigError("summary expected the shape of the model's input, such as summary(model, (32, 784))")
    specs = tuple(_given(value) for value in inputs)
    params, calls = _calls(model, specs[0] if len(specs) == 1 else specs, train)
    counter = _Counter(train)
    found = list(places(model, params))
    costs = tuple(_layer_cost(place, calls.get(place.path, []), counter) for place in found)
    return Summary(costs, tuple(place.line for place in found))


@dataclass(frozen=True)
class _Seen:
    """A call, with specs in the place of tensors."""

    layer: Layer
    arguments: tuple[Any, Any, Any]
    result: Any


@dataclass
class _Counter:
    """Counts the cost of a layer's call as a program of its own, equal ones once."""

    train: bool
    known: dict[Any, KernelCost] = field(default_factory=dict[Any, KernelCost])

    def __call__(self, seen: _Seen) -> KernelCost:
        leaves, structure = trees.flatten(seen.arguments)
        key = (seen.layer, structure, tuple(leaves))
        if key not in self.known:
            self.known[key] = self._counted(seen)
        return self.known[key]

    def _counted(self, seen: _Seen) -> KernelCost:
        def call(x: Any, params: Any, state: Any) -> Any:
            return seen.layer(x, params, state, train=self.train)

        graph = trace(call, seen.arguments, ("x", "params", "state")).graph
        # What a layer passes on as it got it, its state for instance, costs nothing.
        made = tuple((name, o) for name, o in graph.outputs if not (isinstance(o.node.op, Input) and o.is_whole))
        return program_cost(Graph(made, graph.checks), default_engine()) if made else KernelCost(0.0, 0.0)


def _calls(model: Layer, x: Any, train: bool) -> tuple[Any, dict[trees.Path, list[_Seen]]]:
    """Specs of the model's parameters, and the calls of each layer while the model is traced on specs."""
    found: dict[trees.Path, list[_Seen]] = {}

    def observe(call: Call) -> Any:
        arguments = (_specs(call.x), _specs(dict(call.params)), _specs(dict(call.state)))
        found.setdefault(call.path, []).append(_Seen(call.layer, arguments, _specs(call.y)))
        return call.y

    observed = watched(model, observe)

    def run(x: Any, params: Any, state: Any) -> Any:
        return observed(x, params, state, train=train)

    key = random.key(0)
    params, state = _specs(model.parameters(key)), _specs(model.initial_state(key))
    trace(run, (x, params, state), ("x", "params", "state"))
    return params, found


def _layer_cost(place: Place, calls: Sequence[_Seen], counter: _Counter) -> LayerCost:
    costs = [counter(seen) for seen in calls]
    sizes = [numbers_in(leaf) * leaf.dtype.itemsize for leaf in trees.leaves(place.params)]
    return LayerCost(
        ".".join(place.path),
        place.line.lstrip("│├└─ "),
        _shapes(calls[-1].result) if calls else "",
        numbers_in(place.params),
        sum(sizes),
        sum(cost.flops for cost in costs),
        sum(cost.bytes for cost in costs),
    )


def _given(value: Any) -> Any:
    """An input as specs: of a shape, of f32; of a tree of arrays and specs, each leaf's."""
    sizes = cast("Sequence[Any]", value) if isinstance(value, tuple | list) else None
    if sizes is not None and all(isinstance(size, int | Dim | Expr) for size in sizes):
        return TensorSpec(as_shape(sizes), f32)
    return _specs(value)


def _specs(tree: Any) -> Any:
    return trees.map(_spec, tree)


def _spec(leaf: Any) -> TensorSpec:
    if isinstance(leaf, Tensor):
        return TensorSpec(leaf.shape, leaf.dtype)
    return spec_of(leaf.numpy() if isinstance(leaf, Array) else leaf)


def _shapes(tree: Any) -> str:
    return ", ".join(f"{leaf.dtype}{show_shape(leaf.shape)}" for leaf in trees.leaves(tree))


def _cells(cost: LayerCost) -> tuple[str, ...]:
    numbers = (cost.parameters, cost.parameter_bytes, round(cost.flops), round(cost.moved_bytes))
    return (cost.result, *(f"{number:,}" if number else "" for number in numbers))


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    """The first two columns begin, the numbers end, under each other."""
    cells = [cell.ljust(w) if k < 2 else cell.rjust(w) for k, (cell, w) in enumerate(zip(row, widths, strict=True))]
    return "  ".join(cells).rstrip()
