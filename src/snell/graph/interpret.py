"""The reference interpreter: a graph's meaning, in NumPy, against which every other stage is judged.

Float arithmetic is float64 and is rounded to a dtype only at an explicit cast (`Contiguous` to another dtype), an input
and an output; integers are exact in their dtype and wrap.  A reduction is evaluated with its element-wise producers in
blocks, a two-operand product sum by matrix multiplication; both equal the plain form.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from snell.dtypes import i64
from snell.errors import DTypeError, GraphError, OutOfRangeError, ShapeError
from snell.graph.contraction import is_contraction, product_sum
from snell.graph.node import Graph, Node, Operand, full_view
from snell.graph.numeric import Array, constant, converted, narrowed, widened, zero
from snell.graph.philox import philox_bits
from snell.graph.planes import unpacked
from snell.graph.primitives import (
    Binary,
    Constant,
    Contiguous,
    Input,
    Iota,
    Mul,
    Op,
    Random,
    Reduce,
    ScalarFunction,
    Structured,
    SumReduce,
    Unary,
)
from snell.graph.scalar_functions import scalar_function
from snell.graph.scan import Loop, Scan
from snell.graph.strided import Block, read, size_of
from snell.symbolic import Dim, Shape, View, show_shape

__all__ = ["interpret"]

DEFERRED_ELEMENTS = 1 << 20


def interpret(
    graph: Graph,
    inputs: Mapping[str, Array],
    sizes: Mapping[Dim | str, int] | None = None,
    *,
    block_bytes: int = 1 << 26,
    contractions: bool = True,
) -> list[Array]:
    """The graph's outputs, in order, in their dtypes; a failing check raises OutOfRangeError with the value.

    `sizes` gives the run-time sizes by Dim or name (those an input's shape determines may be left out).  `block_bytes`
    and `contractions` choose how reductions are evaluated, never what they mean.
    """
    dims = _sizes(graph, inputs, sizes or {})
    evaluation = _Evaluation(graph, dims, max(1, block_bytes // 8), contractions)
    with np.errstate(all="ignore"):
        for node in graph.inputs():
            evaluation.values[node] = _bound(node, inputs, dims)
        for node in graph.nodes():
            evaluation.compute(node)
        for check in graph.checks:
            _raise_where_false(evaluation.whole(check.condition), evaluation.whole(check.value), check.message)
        outputs = [(evaluation.whole(operand), operand.dtype) for _, operand in graph.outputs]
    return [np.ascontiguousarray(narrowed(value, dtype)).reshape(value.shape) for value, dtype in outputs]


def repeated(loop: Loop, arrays: Sequence[Array], sizes: Mapping[Dim, int]) -> list[Array]:
    """The results of a loop on the arrays of its operands, in their dtypes."""
    split = loop.carries + loop.rows
    carries, walked = list(arrays[: loop.carries]), arrays[loop.carries : split]
    given = dict(zip(loop.inputs[split:], arrays[split:], strict=True))
    made = [
        np.zeros([size_of(n, sizes) for n in loop.result_type(k)[0]], operand.dtype.numpy)
        for k, (_, operand) in enumerate(loop.body.outputs)
        if k >= loop.carries
    ]
    own: dict[Dim | str, int] = {dim: sizes[dim] for dim in loop.body.dims()}
    for step in range(size_of(loop.length, sizes)):
        given |= dict(zip(loop.carry_names(), carries, strict=True))
        given |= dict(zip(loop.row_names(), (array[step] for array in walked), strict=True))
        results = interpret(loop.body, given, own)
        carries = results[: loop.carries]
        for whole, row in zip(made, results[loop.carries :], strict=True):
            whole[step] = row
    return [*carries, *made]


def _sizes(graph: Graph, inputs: Mapping[str, Array], given: Mapping[Dim | str, int]) -> dict[Dim, int]:
    """The value of every dim: as given, else read off an input whose shape has the dim alone."""
    dims = graph.dims()
    by_name = {key.name if isinstance(key, Dim) else key: int(value) for key, value in given.items()}
    for node in graph.inputs():
        assert isinstance(node.op, Input)
        array = inputs.get(node.op.name)
        if array is None or node.op.storage is not None:
            continue
        for size, length in zip(node.shape, np.shape(array), strict=False):
            for dim in (d for d in dims if size == 1 * d):
                by_name.setdefault(dim.name, length)
    missing = [dim.name for dim in dims if dim.name not in by_name]
    if missing:
        raise ShapeError(f"no size given for {', '.join(missing)}; pass sizes={{'{missing[0]}': ...}}")
    return {dim: by_name[dim.name] for dim in dims}


def _bound(node: Node, inputs: Mapping[str, Array], sizes: Mapping[Dim, int]) -> Array:
    """An input's array, checked against its declaration and widened."""
    op = node.op
    assert isinstance(op, Input)
    if op.name not in inputs:
        raise GraphError(f"input {op.name!r} was not given; received {', '.join(sorted(inputs)) or 'no inputs'}")
    array = np.asarray(inputs[op.name])
    shape = tuple(size_of(size, sizes) for size in op.shape)
    if op.storage is not None:
        return widened(unpacked(array, op.storage, shape, op.dtype), op.dtype)
    if array.shape != shape:
        raise ShapeError(f"input {op.name!r} expected shape {show_shape(op.shape)} = {shape}, received {array.shape}")
    if array.dtype != op.dtype.numpy:
        raise DTypeError(f"input {op.name!r} expected {op.dtype}, received {array.dtype}; cast it first")
    return widened(array, op.dtype)


def _raise_where_false(condition: Array, value: Array, message: str) -> None:
    if bool(condition.all()):
        return
    where = tuple(np.argwhere(~condition)[0])
    shown = np.broadcast_to(value, condition.shape)[where].item()
    raise OutOfRangeError(message.replace("{value}", str(shown)) if "{value}" in message else f"{message}: {shown}")


class _Evaluation:
    """Values of the nodes computed so far; deferred nodes have none and are evaluated where a reduction reads them."""

    def __init__(self, graph: Graph, sizes: Mapping[Dim, int], block_elements: int, contractions: bool) -> None:
        self.sizes, self.block_elements, self.contractions = sizes, block_elements, contractions
        self.values: dict[Node, Array] = {}
        self._repeated: dict[tuple[Loop, tuple[Operand, ...]], list[Array]] = {}
        self._deferred = _deferred_nodes(graph, sizes)
        self._uses = Counter(id(o.node) for node in graph.nodes() for o in node.operands)
        self._uses.update(id(o.node) for o in graph.roots())

    def compute(self, node: Node) -> None:
        if node in self.values or node in self._deferred:
            return
        match node.op:
            case Random():
                key = self.whole(node.operands[0]).reshape(-1)
                shape = self.shape(node.shape)
                self.values[node] = philox_bits(math.prod(shape), (int(key[0]), int(key[1]))).reshape(shape)
            case Reduce():
                self.values[node] = self._reduced(node, node.op)
            case Scan(loop, result):
                self.values[node] = self._scanned(loop, node.operands)[result]
            case _:
                self.values[node] = self.whole(full_view(node))
        self._release(node)

    def _release(self, node: Node) -> None:
        """Forget producers whose last reader has been computed (deferred readers keep theirs)."""
        for operand in node.operands:
            self._uses[id(operand.node)] -= 1
            if self._uses[id(operand.node)] == 0 and not isinstance(operand.node.op, Input):
                self.values.pop(operand.node, None)

    def shape(self, shape: Shape) -> tuple[int, ...]:
        return tuple(size_of(size, self.sizes) for size in shape)

    def whole(self, operand: Operand) -> Array:
        """The operand's every element."""
        lengths = self.shape(operand.shape)
        block = Block.of(operand.shape, [range(n) for n in lengths], self.sizes)
        return np.broadcast_to(_BlockReader(self, block).operand(operand), lengths)

    def _scanned(self, loop: Loop, operands: tuple[Operand, ...]) -> list[Array]:
        """Every result of a loop: its body interpreted once a row."""
        key = (loop, operands)
        if key not in self._repeated:
            arrays = [np.array(narrowed(self.whole(o), o.dtype)) for o in operands]
            results = repeated(loop, arrays, self.sizes)
            dtypes = [operand.dtype for _, operand in loop.body.outputs]
            self._repeated[key] = [widened(value, dtype) for value, dtype in zip(results, dtypes, strict=True)]
        return self._repeated[key]

    def _reduced(self, node: Node, op: Reduce) -> Array:
        (operand,) = node.operands
        lengths = self.shape(operand.shape)
        if self.contractions and isinstance(op, SumReduce):
            contracted = self._contracted(operand, op, lengths)
            if contracted is not None:
                return contracted
        is_sum = isinstance(op, SumReduce)
        identity = zero(node.dtype) if is_sum else constant(node.dtype.lowest, node.dtype)
        result: Array = np.full(self.shape(node.shape), identity)
        for ranges in _boxes(lengths, self.block_elements):
            block = Block.of(operand.shape, ranges, self.sizes)
            values = _BlockReader(self, block).operand(operand)
            part: Array = op.evaluate(np.broadcast_to(values, block.lengths))
            place = tuple(slice(r.start, r.stop) for k, r in enumerate(ranges) if k not in op.axes)
            result[place] = result[place] + part if is_sum else np.maximum(result[place], part)
        return result

    def _contracted(self, operand: Operand, op: Reduce, lengths: tuple[int, ...]) -> Array | None:
        """A sum of a deferred product of two stored numbers, or None where this is something else."""
        product = operand.node
        if product not in self._deferred or not isinstance(product.op, Mul) or operand.view.guards:
            return None
        if any(o.dtype.kind == "bool" or o.node not in self.values for o in product.operands) or 0 in lengths:
            return None
        a, b = (o.view.then(operand.view) for o in product.operands)
        block = Block.of(operand.shape, [range(n) for n in lengths], self.sizes)
        if not is_contraction(a, b, op.axes, block):
            return None
        left, right = (read(self.values[o.node], v, block) for o, v in zip(product.operands, (a, b), strict=True))
        kept = [n for k, n in enumerate(lengths) if k not in op.axes]
        return np.broadcast_to(product_sum(left, right, op.axes), kept)


def _boxes(lengths: Sequence[int], limit: int) -> Iterator[tuple[range, ...]]:
    """Boxes of at most `limit` elements that tile the lengths (trailing axes whole)."""
    steps: list[int] = []
    for length in reversed(lengths):
        steps.append(max(1, min(length, limit)))
        limit = max(1, limit // max(1, length))
    steps.reverse()
    yield from itertools.product(
        *([range(s, min(s + step, n)) for s in range(0, n, step)] for n, step in zip(lengths, steps, strict=True))
    )


def _deferred_nodes(graph: Graph, sizes: Mapping[Dim, int]) -> frozenset[Node]:
    """Element-wise nodes read only by reductions (through deferred nodes): large ones, and products that are summed."""
    readers: dict[Node, list[Node]] = {}
    for node in graph.nodes():
        for operand in node.operands:
            readers.setdefault(operand.node, []).append(node)
    roots = {operand.node for operand in graph.roots()}
    deferred: set[Node] = set()
    for node in reversed(graph.nodes()):
        if node in roots or isinstance(node.op, Input | Random | Reduce | Structured):
            continue
        elements = math.prod(size_of(size, sizes) for size in node.shape)
        summed = isinstance(node.op, Mul) and all(isinstance(r.op, SumReduce) for r in readers[node])
        reduced = all(isinstance(r.op, Reduce) or r in deferred for r in readers[node])
        if reduced and (elements > DEFERRED_ELEMENTS or summed):
            deferred.add(node)
    return frozenset(deferred)


class _BlockReader:
    """Evaluates operands on one block, each (node, view) once."""

    def __init__(self, evaluation: _Evaluation, block: Block) -> None:
        self._evaluation, self._block = evaluation, block
        self._known: dict[tuple[Node, View], Array] = {}

    def operand(self, operand: Operand) -> Array:
        """The operand's elements in the block, broadcastable to it."""
        return self.read(operand.node, operand.view, bool(operand.view.guards))

    def read(self, node: Node, view: View, masked: bool) -> Array:
        """The node's value through the view; `masked`: some reader discards what is read out of range."""
        stored = self._evaluation.values.get(node)
        if stored is not None:
            return read(stored, view, self._block, masked)
        found = self._known.get((node, view))
        if found is None:
            found = self._known[node, view] = self._computed(node, view, masked)
        return found

    def _computed(self, node: Node, view: View, masked: bool) -> Array:
        place = View(view.shape, view.indices)
        arguments: list[Array] = []
        for operand in node.operands:
            inner = operand.view.then(place)
            arguments.append(self.read(operand.node, inner, masked or bool(inner.guards)))
        value = _apply(node.op, arguments, node, place, self._block)
        if view.guards:
            return np.where(self._block.mask(view.guards), value, zero(node.dtype))
        return value


def _apply(op: Op, arguments: Sequence[Array], node: Node, place: View, block: Block) -> Array:
    """The element-wise operations."""
    match op:
        case Constant(value, dtype):
            return constant(value, dtype)
        case Iota(_, dtype):
            return converted(block.evaluate(place.indices[0]).astype(np.int64), i64, dtype)
        case Contiguous(dtype):
            return converted(arguments[0], node.operands[0].dtype, dtype)
        case ScalarFunction(name):
            return scalar_function(name).evaluate(arguments[0])
        case Unary() | Binary():
            return np.asarray(op.evaluate(*arguments))
        case _:
            raise GraphError(f"the interpreter has no meaning for {type(op).__name__}")
