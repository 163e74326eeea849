"""The VJP of a loop: the same number of steps, backwards, each computing its own step again from the carry it had.

    forward    carry_t+1, made_t = body(carry_t, row_t, invariants)                    keeps carry_t, and s_t
    backward   (c̄_t, r̄_t, ī += …) = VJP of body at (carry_t, row_t, invariants) on (c̄_t+1, m̄_t), reading s_t

Time is O(T).  What is kept is a step's carry and its long sums s_t, as those of products of matrices: reading one costs less
than its terms.  The rest of a step is computed again.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from snell.autodiff.step_products import Known, StepProduct, split_products
from snell.graph.node import Builder, Graph, Node, Operand, full_view
from snell.graph.primitives import Input, SumReduce
from snell.graph.replay import Replay, stored
from snell.graph.scan import Loop, Scan
from snell.graph.value import Value
from snell.symbolic import View, as_expr, coordinates

__all__ = ["loop_cotangents", "with_kept_carries"]

_LONG = 8  # terms of a sum that is kept

PullBack = Callable[
    [Builder, Sequence[Operand], Sequence[Operand | None], Sequence[Node]],
    tuple[list[Operand], list[Operand | None]],
]


def with_kept_carries(builder: Builder, outputs: Sequence[Operand], active: Mapping[Node, None]) -> list[Operand]:
    """The outputs, with each active loop in them replaced by one that also gives the carries before each step."""
    if not any(isinstance(node.op, Scan) for node in active):
        return list(outputs)

    def instead(target: Builder, node: Node, operands: Sequence[Operand]) -> Operand | None:
        if not isinstance(node.op, Scan) or node not in active:
            return None
        given = [stored(target, operand) for operand in operands]
        return full_view(target.add(Scan(_keeping(node.op.loop), node.op.result), given))

    inputs = {node: full_view(node) for output in outputs for node in Graph((("", output),)).inputs()}
    replay = Replay(builder, inputs, instead)
    return [replay(output) for output in outputs]


def _inputs(loop: Loop) -> dict[str, Node]:
    """The body's inputs by name; one that the body does not read is not there."""
    return {node.op.name: node for node in loop.body.inputs() if isinstance(node.op, Input)}


def _keeping(loop: Loop) -> Loop:
    """The loop with a made row for each carry that its body reads and for each long sum, unless it has one."""
    inputs = _inputs(loop)
    made = [operand for _, operand in loop.body.outputs[loop.carries :]]
    read = [full_view(inputs[name]) for name in loop.carry_names() if name in inputs]
    read += [full_view(node) for node in loop.body.nodes() if _is_long_sum(node)]
    missing = [operand for operand in read if operand not in made]
    named = tuple((f"made{len(made) + k}", operand) for k, operand in enumerate(missing))
    return replace(loop, body=replace(loop.body, outputs=(*loop.body.outputs, *named)))


def _is_long_sum(node: Node) -> bool:
    """Whether to read a value takes less than to add it up; an extent that is not known counts as long."""
    if not isinstance(node.op, SumReduce) or not node.dtype.is_float:
        return False
    extents = [node.operands[0].shape[axis] for axis in node.op.axes]
    return math.prod(extent if isinstance(extent, int) else _LONG for extent in extents) >= _LONG


def loop_cotangents(
    builder: Builder, loop: Loop, operands: Sequence[Operand], results: Mapping[int, Operand],
    wanted: Sequence[bool], pull: PullBack,
) -> list[Operand | None]:  # fmt: skip
    """A cotangent for each operand that is wanted, from those of the loop's results by number."""
    backward = _Backward(builder, loop, operands, results)
    backward.write(wanted, pull)
    return backward.found()


@dataclass(slots=True)
class _Backward:
    """The loop that walks back: its body's builder, and its carries and rows with what they start from."""

    outside: Builder
    forward: Loop
    operands: Sequence[Operand]
    results: Mapping[int, Operand]
    inside: Builder = field(default_factory=Builder)
    carries: list[tuple[Node, Operand]] = field(default_factory=list[tuple[Node, Operand]])
    rows: list[tuple[Node, Operand]] = field(default_factory=list[tuple[Node, Operand]])
    invariants: list[tuple[Node, Operand]] = field(default_factory=list[tuple[Node, Operand]])
    following: list[Operand] = field(default_factory=list[Operand])
    made: list[Operand] = field(default_factory=list[Operand])
    products: dict[int, list[StepProduct]] = field(default_factory=dict[int, list[StepProduct]])
    places: dict[int, tuple[bool, int]] = field(default_factory=dict[int, tuple[bool, int]])
    """Operand of the forward loop → whether its cotangent is made row by row, and its number there."""

    def write(self, wanted: Sequence[bool], pull: PullBack) -> None:
        """One step back: the step itself, then its VJP."""
        stand_ins = self._step_inputs()
        replay = Replay(self.inside, {node: full_view(made) for node, made in stand_ins.values()})
        names = self.forward.inputs
        outputs: list[Operand] = []
        seeds: list[Operand] = []
        for k, (_, operand) in enumerate(self.forward.body.outputs):
            seed = self._seed(k, operand)
            if seed is not None:
                outputs.append(replay(operand))
                seeds.append(full_view(seed))
        sought = [
            k for k, name in enumerate(names)
            if name in stand_ins and (wanted[k] or k < self.forward.carries) and stand_ins[name][1].dtype.is_float
        ]  # fmt: skip
        _, found = pull(self.inside, outputs, seeds, [stand_ins[names[k]][1] for k in sought])
        self._collect(dict(zip(sought, self._from_kept(replay, found), strict=True)), wanted)

    def _from_kept(self, replay: Replay, found: Sequence[Operand | None]) -> list[Operand | None]:
        """The cotangents, reading the long sums of the step that they need where they would compute them again."""
        sums = {
            replay.made[node].node: node
            for node in self.forward.body.nodes()
            if _is_long_sum(node) and node in replay.made
        }
        known: dict[Node, Operand] = {}
        stack = [operand.node for operand in found if operand is not None]
        seen: set[Node] = set()
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            if node in sums:
                known[node] = full_view(self._row(full_view(node), self._flipped(self._kept(sums[node]))))
            else:
                stack += [operand.node for operand in node.operands]
        again = Replay(self.inside, known)
        return [None if operand is None else again(operand) for operand in found]

    def _step_inputs(self) -> dict[str, tuple[Node, Node]]:
        """Each input that the body reads, and what stands for it in the body of the loop that walks back."""
        found: dict[str, tuple[Node, Node]] = {}
        split = self.forward.carries + self.forward.rows
        for name, node in _inputs(self.forward).items():
            place = self.forward.inputs.index(name)
            if place < self.forward.carries:
                made = self._row(node, self._flipped(self._kept(node)))
            elif place < split:
                made = self._row(node, self._flipped(self.operands[place]))
            else:
                op = replace(node.op, name=f"invariant{len(self.invariants)}")  # type: ignore[type-var]  # an Input
                made = self.inside.add(op)
                self.invariants.append((made, self.operands[place]))
            found[name] = node, made
        return found

    def _kept(self, node: Node) -> Operand:
        """A value of every step, which the forward loop keeps."""
        made = [operand for _, operand in self.forward.body.outputs[self.forward.carries :]]
        result = self.forward.carries + made.index(full_view(node))
        return full_view(self.outside.add(Scan(self.forward, result), self.operands))

    def _flipped(self, operand: Operand) -> Operand:
        place = coordinates(operand.shape)
        view = View(operand.shape, (as_expr(self.forward.length) - 1 - place[0], *place[1:]))
        return stored(self.outside, Operand(operand.node, operand.view.then(view)))

    def _row(self, like: Node | Operand, walked: Operand) -> Node:
        node = self.inside.add(Input(f"row{len(self.rows)}", like.shape, like.dtype))
        self.rows.append((node, walked))
        return node

    def _carry(self, like: Operand, first: Operand) -> Node:
        node = self.inside.add(Input(f"carry{len(self.carries)}", like.shape, like.dtype))
        self.carries.append((node, stored(self.outside, first)))
        return node

    def _zeros(self, like: Operand) -> Operand:
        return Value(self.outside, like).constant(0).seen

    def _seed(self, result: int, operand: Operand) -> Node | None:
        """The cotangent of a result of the step: a carry of the loop that walks back, or a row of it."""
        if not operand.dtype.is_float:
            return None
        given = self.results.get(result)
        if result < self.forward.carries:
            self.places[result] = False, len(self.carries)
            first = given or self._zeros(self.operands[result])
            return self._carry(operand, first)
        return None if given is None else self._row(operand, self._flipped(given))

    def _collect(self, found: Mapping[int, Operand | None], wanted: Sequence[bool]) -> None:
        """The next carries: cotangents of the step's carries, then the sums for invariants; rows for rows."""
        for place, (node, _) in zip(self.places, list(self.carries), strict=True):
            self.following.append(found.get(place) or Value(self.inside, full_view(node)).constant(0).seen)
        for place, cotangent in found.items():
            if place < self.forward.carries or cotangent is None or not wanted[place]:
                continue
            if place < self.forward.carries + self.forward.rows:
                self.places[place] = True, len(self.made)
                self.made.append(cotangent)
            else:
                self._gather(place, cotangent)

    def _gather(self, place: int, cotangent: Operand) -> None:
        """The cotangent of an invariant: products are summed over all steps afterwards, what remains step by step."""
        products, others = split_products(cotangent)
        self.products[place] = products
        for product in products:
            self.made += [full_view(f.node) for f in product.factors if self._is_made(f.node)]
        if others:
            self.places[place] = False, len(self.carries)
            added = functools.reduce(lambda a, b: a + b, [Value(self.inside, other) for other in others])
            total = self._carry(added.seen, self._zeros(self.operands[place]))
            self.following.append((Value(self.inside, full_view(total)) + added).seen)

    def _is_made(self, node: Node) -> bool:
        """Whether a value is known neither before the loop nor as a row of it."""
        return (
            not any(node is known for known, _ in (*self.rows, *self.invariants)) and full_view(node) not in self.made
        )

    def _outside(self, node: Node, loop: Loop, given: Sequence[Operand]) -> Known:
        """What a value of the body is outside of the loop, its rows in the order of the steps back."""
        for made, operand in self.invariants:
            if made is node:
                return Known(operand, each_step=False)
        for made, operand in self.rows:
            if made is node:
                return Known(operand, each_step=True)
        number = self.made.index(full_view(node))
        return Known(full_view(self.outside.add(Scan(loop, len(self.carries) + number), given)), each_step=True)

    def found(self) -> list[Operand | None]:
        """The cotangents of the operands, as results of the loop that walks back."""
        carries, rows = len(self.carries), len(self.rows)
        named = [(f"carry{k}", operand) for k, operand in enumerate(self.following)]
        named += [(f"made{k}", operand) for k, operand in enumerate(self.made)]
        inputs = [*self.carries, *self.rows, *self.invariants]
        names = tuple(node.op.name for node, _ in inputs if isinstance(node.op, Input))
        loop = Loop(Graph(tuple(named)), names, carries, rows, self.forward.length)
        given = [operand for _, operand in inputs]
        cotangents: list[Operand | None] = [None] * len(self.operands)
        for place, (is_row, number) in self.places.items():
            node = self.outside.add(Scan(loop, carries + number if is_row else number), given)
            cotangents[place] = self._flipped(full_view(node)) if is_row else full_view(node)
        for place, products in self.products.items():
            sums = [
                product.over_all_steps(
                    self.outside, self.forward.length, partial(self._outside, loop=loop, given=given)
                )
                for product in products
            ]
            parts = [part for part in (cotangents[place], *sums) if part is not None]
            if parts:
                cotangents[place] = functools.reduce(lambda a, b: a + b, [Value(self.outside, p) for p in parts]).seen
        return cotangents
