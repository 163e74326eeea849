"""Which nodes are stored: the cut of a graph into definitions, decided before terms are built.

Everything that is not cut is inlined into its consumers.  A reduction may carry an element-wise epilogue over its own
coordinates; it is cut where a consumer would evaluate it more than once.  An element-wise node is cut where inlining it
would repeat real work: it feeds a product sum that evaluates it once per output column, or it is expensive and has
several readers.  A value that is compared with its own maximum is cut, too: worked out twice, it may be rounded in two
ways, and equal nothing.  Short expressions of frozen inputs alone (decoded weights) are never cut: storing them would inflate
memory, so the schedule packs or inlines them.

A long expression is cut into pieces whose terms are quick to rewrite: each does enough work for the memory that passes
between two.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from snell.dtypes import bool_
from snell.graph.node import Graph, Node, Operand
from snell.graph.primitives import (
    Binary,
    Constant,
    Contiguous,
    Input,
    Iota,
    LessThan,
    MaxReduce,
    Mul,
    Random,
    Reduce,
    ScalarFunction,
    Source,
    Structured,
    SumReduce,
    Unary,
)
from snell.graph.selection import equates_position, selects_one
from snell.rewrite.decisions import Decider, Question
from snell.rewrite.node_word import node_word
from snell.symbolic import Axis, Expr, View, as_expr

__all__ = ["cut_nodes", "least_typical_size", "typical_size", "typical_volume"]

_EXPENSIVE = 4.0
_POSITIONAL = 0.1  # comparisons of positions become loop bounds, masks or nothing at all
_MANY = 2.0
_CLUSTER = 64
_LONGEST = 128  # operations in a term: passes over it are recursive, and what they take grows faster than its length
_LOOKUPS = 3  # inlined into one another: each is an index of the next one's load, which names it more than once
_LOAD = 1.0  # a sum that selects one position becomes an indexed load


def typical_size(expression: object) -> float:
    """A size with every dim at its largest typical value (its maximum, at most 128, where none was given).

    A size that depends on dims counts as 1 at least: what typically is empty needs no schedule, and divides by nothing.
    """
    value = as_expr(expression)
    found = float(value.evaluate({dim: _typical_dim(dim.typical, dim.min, dim.max) for dim in value.dims()}))
    return found if value.is_constant else max(1.0, found)


def least_typical_size(expression: object) -> float:
    """The same with every dim at its smallest typical value."""
    value = as_expr(expression)
    found = float(
        value.evaluate({dim: min(dim.typical, default=_typical_dim((), dim.min, dim.max)) for dim in value.dims()})
    )
    return found if value.is_constant else max(1.0, found)


def _typical_dim(typical: tuple[int, ...], least: int, most: int) -> int:
    return max(typical) if typical else max(least, min(most, 128))


def typical_volume(axes: Iterable[Axis]) -> float:
    """Positions of the axes at their typical sizes."""
    return math.prod(typical_size(axis.extent) for axis in axes)


def _elements(shape: Sequence[object]) -> float:
    return math.prod(typical_size(size) for size in shape)


@dataclass(slots=True)
class _State:
    """What is known of each node while walking: stored, holding a pending reduction, cost, made of frozen inputs only."""

    readers: dict[Node, tuple[Node, ...]]
    results: frozenset[Node]
    decide: Decider
    stored: dict[Node, None] = field(default_factory=dict[Node, None])
    pending: dict[Node, Node] = field(default_factory=dict[Node, Node])
    converging: set[Node] = field(default_factory=set[Node])
    cost: dict[Node, float] = field(default_factory=dict[Node, float])
    length: dict[Node, int] = field(default_factory=dict[Node, int])
    lookups: dict[Node, int] = field(default_factory=dict[Node, int])
    frozen: set[Node] = field(default_factory=set[Node])
    positional: set[Node] = field(default_factory=set[Node])

    def is_inline(self, node: Node) -> bool:
        return node not in self.stored and not isinstance(node.op, Source)

    def stores(self, node: Node, usual: bool) -> bool:
        """Whether to store a node that may as well be worked out where it is read.

        A mask of positions never is: stored, it would be no index to those that look up by it, and take a byte for each.
        """
        if equates_position(node):
            return False
        return self.decide(Question.STORE, lambda: node_word(node, self.readers[node]), usual)


def cut_nodes(graph: Graph, decide: Decider | None = None) -> tuple[Node, ...]:
    """The nodes to store, producers first: every output, and every inner node whose inlining would repeat work.

    `decide` is asked where storing a node and working it out again are both possible.
    """
    nodes = graph.nodes()
    readers: dict[Node, dict[Node, None]] = {node: {} for node in nodes}
    for node in nodes:
        for operand in node.operands:
            readers[operand.node][node] = None
    roots = list(graph.roots())
    outputs = {operand.node for operand in roots if not _is_moved(operand, roots, readers)}
    results = frozenset(operand.node for operand in roots)
    state = _State({node: tuple(found) for node, found in readers.items()}, results, decide or Decider())
    for node in nodes:
        _visit(state, node)
        if node in outputs:
            _store(state, node)
    position = {node: k for k, node in enumerate(nodes)}
    return tuple(sorted((n for n in state.stored if not isinstance(n.op, Source)), key=position.__getitem__))


def _is_moved(operand: Operand, roots: Sequence[Operand], readers: dict[Node, dict[Node, None]]) -> bool:
    """An output that shows a node in another order and is its only reader: the node is computed where it is shown."""
    single = not readers[operand.node] and sum(root.node is operand.node for root in roots) == 1
    return single and not operand.is_whole and _is_bijective(operand)


def _store(state: _State, node: Node) -> None:
    state.stored[node] = None
    state.pending.pop(node, None)
    state.cost[node] = 0.0
    state.length[node] = state.lookups[node] = 0


def _visit(state: _State, node: Node) -> None:
    match node.op:
        case Input():
            if node.op.frozen:
                state.frozen.add(node)
            state.cost[node] = 0.0
        case Constant() | Iota():
            state.cost[node] = 0.0
            state.positional.add(node)
        case Random():
            _store_operands(state, node)
            state.cost[node] = 20.0
        case Reduce():
            _visit_reduction(state, node)
        case Structured():
            _store_operands(state, node)
            _store(state, node)
        case _:
            _visit_elementwise(state, node)


def _store_operands(state: _State, node: Node) -> None:
    for operand in node.operands:
        if state.is_inline(operand.node):
            _store(state, operand.node)


def _visit_elementwise(state: _State, node: Node) -> None:
    held = list(dict.fromkeys(state.pending[o.node] for o in node.operands if o.node in state.pending))
    for operand in node.operands:
        if operand.node in state.pending and not _stays_pending(state, operand, held[-1]):
            _store(state, operand.node)
    for operand in node.operands:
        if state.is_inline(operand.node) and operand.node not in state.pending and _is_cut(state, operand):
            _store(state, operand.node)
    for compared in _compared_with_maximum(node):
        if state.is_inline(compared) and state.length.get(compared, 0) > 1:  # one operation has one way to be rounded
            _store(state, compared)
    kept = [state.pending[o.node] for o in node.operands if o.node in state.pending]
    if kept:
        _hold(state, node, kept[0])
    if all(o.node in state.frozen or isinstance(o.node.op, Constant) for o in node.operands):
        state.frozen.add(node)
    own = _own_cost(node)
    if all(o.node in state.positional for o in node.operands):
        state.positional.add(node)
        own = own if isinstance(node.op, ScalarFunction | Unary) else _POSITIONAL
    state.cost[node] = own + sum(state.cost[o.node] for o in dict.fromkeys(node.operands))
    _store_where_long(state, node)


def _compared_with_maximum(node: Node) -> list[Node]:
    """What a comparison compares with a maximum of the same values."""
    if not isinstance(node.op, LessThan):
        return []
    a, b = (operand.node for operand in node.operands)
    pairs = ((a, b), (b, a))
    return [x for x, y in pairs if isinstance(y.op, MaxReduce) and y.operands[0].node is x]


def _store_where_long(state: _State, node: Node) -> None:
    """A condition is given longer: it may be about to become a bound or an index, which it cannot once it is stored."""
    state.length[node] = 1 + sum(state.length.get(o.node, 0) for o in dict.fromkeys(node.operands))
    state.lookups[node] = isinstance(node.op, Reduce) + max(state.lookups.get(o.node, 0) for o in node.operands)
    longest = 2 * _LONGEST if node.dtype == bool_ else _LONGEST
    if state.length[node] > longest or state.lookups[node] > _LOOKUPS:
        _store(state, node)


def _hold(state: _State, node: Node, reduction: Node) -> None:
    """The node's value contains a reduction that is not stored."""
    state.pending[node] = reduction
    if len(state.readers[node]) > 1 and node not in state.converging:
        state.converging |= _cluster(state, node)


def _stays_pending(state: _State, operand: Operand, reduction: Node) -> bool:
    """Whether the reader becomes a finished reduction's epilogue; else what reads the reader works it out."""
    if not _is_absorbed(state, operand, reduction):
        return False
    return not (operand.node is reduction and state.stores(operand.node, usual=False))


def _is_cut(state: _State, operand: Operand) -> bool:
    """Whether an element-wise value is stored rather than inlined into its reader."""
    node = operand.node
    if _repeats(state, operand):
        return state.stores(node, usual=True)
    shared = len(state.readers[node]) > 1 and state.cost[node] >= 1.0
    worth = shared and node not in state.frozen and node not in state.positional
    return worth and state.stores(node, usual=False)


def _is_absorbed(state: _State, operand: Operand, reduction: Node) -> bool:
    """Whether a pending value becomes part of its reader's epilogue: the one reduction kept there, evaluated once."""
    node = operand.node
    single = len(state.readers[node]) == 1 or node in state.converging
    return state.pending[node] is reduction and single and _is_bijective(operand)


def _cluster(state: _State, root: Node) -> set[Node]:
    """Nodes between a value with several readers and the element-wise node in which all of them meet; empty if none do.

    A result of the graph meets nothing: it is stored.

    `gelu(x) = x·(1 + erf(x/√2))/2` reads its argument twice and meets again in the product.
    """
    inside: dict[Node, None] = {root: None}
    while len(inside) < _CLUSTER:
        open_nodes = [n for n in inside if n in state.results or any(r not in inside for r in state.readers[n])]
        if len(inside) > 1 and len(open_nodes) <= 1:
            return set(inside) - set(open_nodes)
        grown = [r for n in open_nodes for r in state.readers[n] if r not in inside and _joins(r, inside)]
        if not grown:
            return set()
        inside.update(dict.fromkeys(grown))
    return set()


def _joins(reader: Node, inside: dict[Node, None]) -> bool:
    """An element-wise node that sees the nodes inside as they are, once each."""
    if not isinstance(reader.op, Unary | Binary | Contiguous | ScalarFunction):
        return False
    return all(o.is_whole for o in reader.operands if o.node in inside)


def _repeats(state: _State, operand: Operand) -> bool:
    """An expensive element-wise value read by several consumers, or at many more points than it has."""
    node = operand.node
    if node in state.frozen or state.cost[node] < _EXPENSIVE:
        return False
    return len(state.readers[node]) > 1 or _elements(operand.shape) >= _MANY * _elements(node.shape)


def _bound_axes(node: Node, op: Reduce) -> frozenset[Axis]:
    """The operand's coordinates that a reduction runs over."""
    (operand,) = node.operands
    return frozenset(a for k in op.axes for a in as_expr(Axis(f"i{k}", operand.shape[k])).axes())


def _visit_reduction(state: _State, node: Node) -> None:
    (operand,) = node.operands
    assert isinstance(node.op, Reduce)
    bound = _bound_axes(node, node.op)
    if isinstance(node.op, SumReduce) and selects_one(operand, bound):
        state.cost[node] = _LOAD
        _store_where_long(state, node)
        return
    if operand.node in state.pending:
        _store(state, operand.node)
    for candidate in _product_operands(state, operand):
        repeated = _elements(candidate.shape) >= _MANY * _elements(candidate.node.shape)
        if repeated and _core_cost(state, candidate, bound) > 0 and state.stores(candidate.node, usual=True):
            _store(state, candidate.node)
    _hold(state, node, node)
    state.cost[node] = _EXPENSIVE
    state.length[node] = 1 + state.length.get(operand.node, 0)
    if operand.node in state.frozen:
        state.frozen.add(node)


def _product_operands(state: _State, operand: Operand) -> list[Operand]:
    """The inlined factors of a product under a reduction, in the reduction's coordinates."""
    node = operand.node
    if not state.is_inline(node) or not isinstance(node.op, Mul):
        return []
    found: list[Operand] = []
    for factor in node.operands:
        seen = Operand(factor.node, factor.view.then(operand.view))
        if state.is_inline(factor.node) and factor.node not in state.frozen:
            found.append(seen)
    return found


def _core_cost(state: _State, operand: Operand, bound: frozenset[Axis]) -> float:
    """Work per point that factoring cannot move out of a sum over `bound`."""
    node = operand.node
    if not state.is_inline(node) or node in state.frozen or isinstance(node.op, Reduce):
        return 0.0  # (an inlined reduction is an indexed load)
    if not any(axis in bound for e in (*operand.view.indices, *operand.view.guards) for axis in e.axes()):
        return 0.0
    inner = [Operand(o.node, o.view.then(operand.view)) for o in node.operands]
    if isinstance(node.op, Mul):
        dependent = [o for o in inner if any(axis in bound for e in o.view.indices for axis in e.axes())]
        return sum(_core_cost(state, o, bound) for o in dependent) + (len(dependent) > 1)
    if isinstance(node.op, Contiguous):  # a conversion is part of reading the operand
        return _core_cost(state, inner[0], bound)
    return _own_cost(node) + sum(_core_cost(state, o, bound) for o in inner)


def _own_cost(node: Node) -> float:
    match node.op:
        case ScalarFunction("barrier"):
            return 0.0
        case ScalarFunction() | Unary():
            return 4.0
        case Contiguous():
            return 0.5 if node.operands[0].dtype != node.dtype else 0.0
        case Binary():
            return 0.25 if node.dtype == bool_ else 1.0
        case _:
            return 0.0


def _is_bijective(operand: Operand) -> bool:
    """Every element of the producer is read exactly once (reshapes and permutations)."""
    view: View = operand.view
    if view.guards:
        return False
    before = _product(operand.node.shape)
    return before == _product(view.shape) and _covers(view)


def _product(shape: Sequence[object]) -> Expr:
    result = as_expr(1)
    for size in shape:
        result = result * as_expr(size)
    return result


def _covers(view: View) -> bool:
    """All consumer axes of extent other than 1 occur in the indices, and no index is a window (a sum of plain axes)."""
    used: set[Axis] = set()
    for index in view.indices:
        used |= index.axes()
        plain = [m for m, _ in index.terms if len(m) == 1 and isinstance(m[0], Axis)]
        if len(plain) > 1 and len({abs(c) for m, c in index.terms if m in plain}) != len(plain):
            return False
    return all(size == 1 or Axis(f"i{k}", size) in used for k, size in enumerate(view.shape))
