"""Accumulators as SSA values: phi nodes appear where a loop updates one, joins where a branch does.

An accumulator at the position of its unrolled data axes is a *group*; a group has one slot set by `Init` and slots of
partial results (lanes of a vectorised reduced axis, unrolled positions of `partial` axes) that begin at the identity.
Looking a value up walks the scopes outwards and stops at the scope that initialised the group, so that partial results
never leak from one iteration of an outer loop into the next.
"""

from __future__ import annotations

from snell.codegen.arithmetic import add, maximum
from snell.codegen.assembler import Value
from snell.codegen.instructions import Instructions
from snell.codegen.literals import type_text
from snell.codegen.position import Positions
from snell.codegen.scope import Scope, ScopeKind, Slot
from snell.errors import CompileError
from snell.loops.ir import Accumulator, Combine

__all__ = ["Accumulators"]

# The accumulator by number, and the constants of its data axes.
Group = tuple[int, tuple[int, ...]]


class Accumulators:
    """Reads and writes accumulator slots in the open scopes."""

    def __init__(self, code: Instructions, positions: Positions) -> None:
        self.code = code
        self.positions = positions
        self._distinct: list[Accumulator] = []
        # By identity; the object is kept so that its id stays its own.
        self._numbers: dict[int, tuple[int, Accumulator]] = {}

    def _number(self, accumulator: Accumulator) -> int:
        """Equal accumulators have one number; looked up by identity first, since hashing them is slow."""
        found = self._numbers.get(id(accumulator))
        if found is None:
            if accumulator not in self._distinct:
                self._distinct.append(accumulator)
            found = self._numbers[id(accumulator)] = self._distinct.index(accumulator), accumulator
        return found[0]

    def group(self, accumulator: Accumulator) -> Group:
        at = self.positions.at
        return self._number(accumulator), tuple([at[axis].constant for axis in accumulator.axes])

    def slot(self, accumulator: Accumulator) -> Slot:
        """Where an update at the current position goes."""
        at, vector = self.positions.at, self.positions.vector
        partial: tuple[object, ...] = tuple(at[axis].unrolled for axis in accumulator.partial)
        if vector is not None and vector not in accumulator.axes:
            partial = ("lanes", *partial)
        return self.positions.lanes, partial

    def start(self, accumulator: Accumulator, value: Value) -> None:
        """Set the group; everything partial from before is forgotten."""
        scope, group = self.code.scopes.top, self.group(accumulator)
        vector = self.positions.vector
        lanes = self.positions.lanes if vector in accumulator.axes else 0
        if value.lanes and not lanes:
            raise CompileError(
                f"{accumulator.name} is initialised with lanes of {vector}, which is not one of its axes"
            )
        scope.accumulators[group] = {(lanes, ()): self.code.splat(value, lanes) if lanes else value}
        scope.restarted.add(group)

    def update(self, accumulator: Accumulator, value: Value, slot: Slot) -> None:
        self.code.scopes.top.accumulators.setdefault(self.group(accumulator), {})[slot] = value

    def current(self, accumulator: Accumulator, slot: Slot) -> Value:
        """The slot's value at this point."""
        return self._lookup(self.group(accumulator), slot, len(self.code.scopes.stack) - 1)

    def identity(self, accumulator: Accumulator, lanes: int) -> Value:
        value = 0 if accumulator.combine is Combine.SUM else accumulator.dtype.lowest
        return self.code.constant(value, accumulator.dtype, lanes)

    def combine(self, accumulator: Accumulator, a: Value, b: Value) -> Value:
        a, b = self.code.join(a, b)
        return add(self.code, a, b) if accumulator.combine is Combine.SUM else maximum(self.code, a, b)

    def read(self, accumulator: Accumulator) -> Value:
        """Combine every slot of the group, lanes of reduced axes last."""
        group = self.group(accumulator)
        slots = self._slots(group)
        if not slots:
            raise CompileError(f"accumulator {accumulator.name} is read before it is initialised here")
        top = len(self.code.scopes.stack) - 1
        own: list[Value] = []
        across: dict[int, list[Value]] = {}
        for slot in slots:
            value = self._lookup(group, slot, top)
            if slot[1][:1] == ("lanes",):
                across.setdefault(slot[0], []).append(value)
            else:
                own.append(value)
        for values in across.values():
            own.append(self._across_lanes(accumulator, self._tree(accumulator, values)))
        neutral = {self.identity(accumulator, lanes).text for lanes in {value.lanes for value in own}}
        kept = [value for value in own if value.text not in neutral] or own[:1]
        return self._tree(accumulator, kept)

    def _tree(self, accumulator: Accumulator, values: list[Value]) -> Value:
        while len(values) > 1:
            pairs = [values[k : k + 2] for k in range(0, len(values), 2)]
            values = [self.combine(accumulator, *pair) if len(pair) == 2 else pair[0] for pair in pairs]
        return values[0]

    def _across_lanes(self, accumulator: Accumulator, value: Value) -> Value:
        """Halve until one lane is left; the order is fixed, whatever the target."""
        while value.lanes > 1 and value.lanes % 2 == 0:
            half = value.lanes // 2
            low, high = (self.code.shuffle(value, None, range(k, k + half)) for k in (0, half))
            value = self.combine(accumulator, low, high)
        result = self.code.extract(value, 0)
        for lane in range(1, value.lanes):
            result = self.combine(accumulator, result, self.code.extract(value, lane))
        return result

    def _slots(self, group: Group) -> list[Slot]:
        found: dict[Slot, None] = {}
        for scope in reversed(self.code.scopes.stack):
            found.update(dict.fromkeys(scope.accumulators.get(group, ())))
            if group in scope.restarted:
                return list(found)
        return []

    def _lookup(self, group: Group, slot: Slot, level: int) -> Value:
        scope = self.code.scopes.stack[level]
        known = scope.accumulators.get(group)
        if known is not None and slot in known:
            return known[slot]
        if group in scope.restarted or level == 0:
            if not slot[1]:
                raise CompileError(
                    f"accumulator {self._distinct[group[0]].name} is updated before it is initialised here"
                )
            return self.identity(self._distinct[group[0]], slot[0])
        value = self._lookup(group, slot, level - 1)
        if scope.kind is ScopeKind.LOOP:
            name = self.code.scopes.fresh("phi")
            self.code.scopes.depths[name] = scope.depth
            scope.phis.append((name, group, slot, value))
            value = Value(name, value.dtype, value.lanes)
            scope.accumulators.setdefault(group, {})[slot] = value
        return value

    # -- closing scopes

    def loop_phis(self, scope: Scope, before: str) -> list[str]:
        """Phi lines of a closed loop scope."""
        lines: list[str] = []
        for name, group, slot, outside in scope.phis:
            inside = scope.accumulators[group][slot]
            kind = type_text(outside.dtype, outside.lanes)
            lines.append(f" {name} = phi {kind} [ {outside.text}, %{before} ], [ {inside.text}, %{scope.block} ]")
        return lines

    def leave_loop(self, scope: Scope) -> None:
        """Values after a loop that ran at least once are those of its last iteration."""
        for group, slot, value in self._escaping(scope):
            self._set(group, slot, value)

    def leave_branch(self, scope: Scope, before: str) -> list[str]:
        """Join the branch's values with those from before it; returns phi lines."""
        lines: list[str] = []
        scopes = self.code.scopes
        for group, slot, value in self._escaping(scope):
            outside = self._lookup(group, slot, len(scopes.stack) - 1)
            if outside.text == value.text:
                continue
            name = scopes.fresh("join")
            kind = type_text(value.dtype, value.lanes)
            lines.append(f" {name} = phi {kind} [ {value.text}, %{scope.block} ], [ {outside.text}, %{before} ]")
            self._set(group, slot, Value(name, value.dtype, value.lanes))
        return lines

    def _escaping(self, scope: Scope) -> list[tuple[Group, Slot, Value]]:
        found: list[tuple[Group, Slot, Value]] = []
        for group, slots in scope.accumulators.items():
            if group not in scope.restarted:
                found += [(group, slot, value) for slot, value in slots.items()]  # type: ignore[arg-type]
        return found

    def _set(self, group: Group, slot: Slot, value: Value) -> None:
        top = self.code.scopes.top
        if value.text.startswith("%"):
            self.code.scopes.depths[value.text] = top.depth
        top.accumulators.setdefault(group, {})[slot] = value
