"""Tracing: a Python function of tensors becomes a graph.

`trace(fn, specs)` calls the function once on tensors that stand for its inputs.  Python numbers among the specs become
weakly typed run-time scalars; NumPy arrays that the function closes over become frozen inputs holding the array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from snell import trees
from snell.dtypes import DType, bool_, f32, from_numpy, i64
from snell.errors import DTypeError, GraphError
from snell.frontend.context import Trace
from snell.frontend.evaluator import Array
from snell.frontend.promotion import DTypeLike, as_dtype, as_tensor
from snell.frontend.shapes import ShapeLike, as_shape
from snell.frontend.tensor import Tensor
from snell.graph.node import Graph
from snell.graph.primitives import Input, Storage
from snell.symbolic import Shape

__all__ = ["TensorSpec", "Trace", "Traced", "spec_of", "trace"]


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """What is known of an argument before it is given: shape (with Dims), dtype, and how it may be used.

    `frozen`: bound once (a weight); `donated`: may be overwritten; `weak`: a Python number; `storage`: a typed
    window of a file's bytes.  The name defaults to the argument's path.
    """

    shape: Shape
    dtype: DType
    frozen: bool = False
    donated: bool = False
    name: str | None = None
    storage: Storage | None = None
    weak: bool = False

    @staticmethod
    def of(shape: ShapeLike, dtype: DTypeLike = f32, **options: Any) -> TensorSpec:
        """A spec from sizes (integers, Dims) and a dtype or its name."""
        return TensorSpec(as_shape(shape), as_dtype(dtype), **options)


@dataclass(frozen=True, slots=True)
class Traced:
    """A traced function: its graph, the structures of its arguments and result, and the arrays it closed over.

    `inputs` are the names of the graph's inputs, one a leaf of the argument tree, in order (an input that the function
    never reads has a name but no node).  `arrays` holds the captured ones.
    """

    graph: Graph
    inputs: tuple[str, ...]
    input_tree: trees.Structure
    output_tree: trees.Structure
    arrays: dict[str, Array]


def spec_of(leaf: Any) -> TensorSpec:
    """The spec of an argument: itself, an array's, or a Python number's (a weak scalar: bool, i64 or f32)."""
    if isinstance(leaf, TensorSpec):
        return leaf
    if isinstance(leaf, Tensor):
        return TensorSpec(leaf.shape, leaf.dtype, weak=leaf.weak)
    if isinstance(leaf, bool | int | float):
        dtype = bool_ if isinstance(leaf, bool) else i64 if isinstance(leaf, int) else f32
        return TensorSpec((), dtype, weak=True)
    if isinstance(leaf, np.ndarray | np.generic):
        array: Array = np.asarray(cast("Any", leaf))
        return TensorSpec(array.shape, from_numpy(array.dtype))
    raise DTypeError(
        f"expected an array, a number or a TensorSpec, received {type(leaf).__name__}: {leaf!r}; "
        "mark other arguments static, or register their dataclass with sn.tree.register"
    )


def trace(function: Callable[..., Any], specs: Sequence[Any], names: Sequence[str] | None = None) -> Traced:
    """The graph of `function(*arguments)`, each argument a tree of TensorSpecs, arrays or Python numbers.

    `names` are the arguments' names in error messages and input names.  Raises GraphError where the function returns
    something that is no tensor or number, or tensors of another program.
    """
    context = Trace()
    leaves, structure = trees.flatten(tuple(specs))
    labels = _labels(trees.paths(tuple(specs)), names)
    tensors: list[Tensor] = []
    inputs: list[str] = []
    for leaf, label in zip(leaves, labels, strict=True):
        spec = spec_of(leaf)
        name = spec.name or label
        declaration = Input(name, spec.shape, spec.dtype, spec.frozen, spec.donated, spec.storage)
        tensors.append(Tensor(context.input(declaration), context, weak=spec.weak))
        inputs.append(name)
    result = function(*trees.unflatten(structure, tensors))
    outputs, output_tree = trees.flatten(result)
    paths = trees.paths(result)
    named = [
        (".".join(("result", *path)), _output(value, context).operand)
        for value, path in zip(outputs, paths, strict=True)
    ]
    return Traced(context.graph(named), tuple(inputs), structure, output_tree, dict(context.arrays))


def _labels(paths: Sequence[trees.Path], names: Sequence[str] | None) -> list[str]:
    """`x`, `params.layers.0.weight`: the argument's name (or its number) and the path inside it."""
    labels: list[str] = []
    for position, *inner in paths:
        first = names[int(position)] if names else f"argument{position}"
        labels.append(".".join((first, *inner)))
    return labels


def _output(value: Any, context: Trace) -> Tensor:
    if not isinstance(value, Tensor | np.ndarray | np.generic | bool | int | float):
        raise GraphError(f"a traced function must return tensors, arrays or numbers, received {type(value).__name__}")
    return as_tensor(cast("Any", value), context)
