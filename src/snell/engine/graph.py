"""The explicit graph: declare tensors, combine them, compile once, execute many times."""

from __future__ import annotations

from typing import Any

import numpy as np

from snell.dtypes import DType, f32
from snell.engine.engine import Engine
from snell.errors import GraphError, ShapeError
from snell.frontend import Tensor, Trace, as_dtype
from snell.frontend.evaluator import Evaluator
from snell.frontend.promotion import DTypeLike
from snell.graph.node import Operand
from snell.graph.primitives import Input
from snell.runtime.executable import Executable
from snell.symbolic import Dim, as_expr, as_size, show_shape

__all__ = ["Graph", "GraphTensor"]


class GraphTensor(Tensor):
    """A tensor of an explicit graph: an input that can be set, or a value that can be retrieved."""

    __slots__ = ("graph", "name")

    graph: Graph
    name: str

    def __init__(self, tensor: Tensor, graph: Graph, name: str) -> None:
        super().__init__(tensor.operand, tensor.trace)
        object.__setattr__(self, "graph", graph)
        object.__setattr__(self, "name", name)

    def set(self, values: Any) -> GraphTensor:
        """Give the input its values, converted to its dtype; ShapeError where the shape differs."""
        self.graph.set(self, values)
        return self


class Graph:
    """An explicit program: `tensor` declares inputs, `retrieve` marks outputs, `compile` and `execute` run them."""

    def __init__(self, engine: Engine, evaluator: Evaluator) -> None:
        self._engine = engine
        self.trace = Trace(evaluator)
        self.trace.retriever = self.retrieve
        self._shapes: dict[str, tuple[tuple[Any, ...], DType]] = {}
        self._outputs: dict[str, Operand] = {}
        self._results: dict[str, np.ndarray[Any, Any]] = {}
        self._executable: Executable | None = None
        self._inputs: tuple[str, ...] = ()

    def tensor(
        self, shape: tuple[int | Dim, ...] | int, dtype: DTypeLike = f32, name: str | None = None
    ) -> GraphTensor:
        """A new input of `shape` (integers, Dims) and dtype; ShapeError for a negative extent."""
        sizes = tuple(as_size(as_expr(size)) for size in (shape if isinstance(shape, tuple) else (shape,)))
        if any(isinstance(size, int) and size < 0 for size in sizes):
            raise ShapeError(f"expected extents of at least 0, received {shape}; give a Dim for a size that varies")
        label = name or f"tensor{len(self._shapes)}"
        declared = as_dtype(dtype)
        self._shapes[label] = (sizes, declared)
        operand = self.trace.input(Input(label, sizes, declared))
        return GraphTensor(Tensor(operand, self.trace), self, label)

    def __repr__(self) -> str:
        return f"<Graph of {len(self._shapes)} inputs and {len(self._outputs)} outputs>"

    def set(self, tensor: GraphTensor, values: Any) -> None:
        """Values of an input for the next execution."""
        if tensor.name not in self._shapes:
            raise GraphError(f"{tensor.name!r} is computed, only tensors made by Graph.tensor can be set")
        shape, dtype = self._shapes[tensor.name]
        array = np.ascontiguousarray(values, dtype=dtype.numpy)
        fits = len(array.shape) == len(shape) and all(
            not isinstance(size, int) or size == n for size, n in zip(shape, array.shape, strict=True)
        )
        if not fits:
            raise ShapeError(
                f"{tensor.name!r} expected shape {show_shape(shape)}, received {array.shape}; reshape the values"
            )
        self.trace.arrays[tensor.name] = array

    def retrieve(self, operand: Operand) -> Retrieved:
        """Mark a value as an output."""
        name = f"out{len(self._outputs)}"
        self._outputs[name] = operand
        self._executable = None
        return Retrieved(self, name, operand)

    def compile(self) -> None:
        """Compile everything that was retrieved; GraphError where nothing was."""
        if not self._outputs:
            raise GraphError("nothing was retrieved; call .retrieve() on the values you want before compiling")
        graph = self.trace.graph(list(self._outputs.items()))
        prepared = self._engine.prepare(graph)
        frozen = {name: array for name, array in self.trace.arrays.items() if name not in self._shapes}
        self._inputs = prepared.inputs
        self._executable = prepared.bind(frozen, self._engine.pool())

    def execute(self) -> None:
        """Run the compiled program on the values that were set."""
        if self._executable is None:
            raise GraphError("the graph is not compiled (or was changed since); call compile() first")
        missing = [name for name in self._inputs if name not in self.trace.arrays]
        if missing:
            raise GraphError(f"inputs {', '.join(missing)} have no values; call .set(...) on each of them first")
        outputs = self._executable(*(self.trace.arrays[name] for name in self._inputs))
        self._results = dict(zip(self._outputs, outputs, strict=True))

    def result(self, name: str) -> np.ndarray[Any, Any]:
        """The value of an output after the last execution."""
        if name not in self._results:
            raise GraphError("this output has no value yet; call compile() and execute() first")
        return self._results[name]


class Retrieved:
    """An output of an explicit graph."""

    def __init__(self, graph: Graph, name: str, operand: Operand) -> None:
        self._graph, self._name, self._operand = graph, name, operand

    def numpy(self) -> np.ndarray[Any, Any]:
        """The value after the last execution."""
        return self._graph.result(self._name)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        values = self.numpy() if dtype is None else self.numpy().astype(dtype, copy=False)
        return values.copy() if copy else values

    def __repr__(self) -> str:
        return f"Retrieved({self._operand.dtype}{show_shape(self._operand.shape)})"
