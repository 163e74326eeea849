"""Scopes and value numbering: where each instruction goes.

A function is a stack of scopes (the function, loop bodies, branches).  A pure instruction is numbered by its text and
placed in the outermost scope where its operands live, which is common-subexpression elimination and loop-invariant
motion by construction.  Reads of memory never leave the innermost branch around them; reads of memory that the kernel
writes stay where they are.  What a loop holds in registers for others is bounded by a budget.
"""

from __future__ import annotations

from enum import Enum, auto

from snell.codegen.assembler import Value

__all__ = ["Scope", "ScopeKind", "Scopes"]

Slot = tuple[int, tuple[object, ...]]


class ScopeKind(Enum):
    """What a scope is to the instructions inside."""

    FUNCTION = auto()
    LOOP = auto()
    BRANCH = auto()


class Scope:
    """One open region of straight-line text, and everything known to be computed in it."""

    __slots__ = ("accumulators", "block", "depth", "held", "kind", "lines", "phis", "restarted", "terms", "values")

    def __init__(self, kind: ScopeKind, depth: int, block: str) -> None:
        self.kind = kind
        self.depth = depth
        self.block = block
        self.lines: list[str] = []
        self.values: dict[object, str] = {}
        self.terms: dict[tuple[object, ...], Value] = {}
        self.held = 0.0
        # Accumulators: current values by group and slot, phi nodes of this loop, groups initialised in here.
        self.accumulators: dict[object, dict[Slot, Value]] = {}
        self.phis: list[tuple[str, object, Slot, Value]] = []
        self.restarted: set[object] = set()


class Scopes:
    """The stack of scopes of one function, with fresh names; private to one emission."""

    def __init__(self, budget: float) -> None:
        self.stack = [Scope(ScopeKind.FUNCTION, 0, "entry")]
        self.depths: dict[object, int] = {}
        self.declarations: set[str] = set()
        self._budget = budget
        self._count = 0
        self._branch = 0

    @property
    def top(self) -> Scope:
        return self.stack[-1]

    def fresh(self, prefix: str = "v") -> str:
        self._count += 1
        return f"%{prefix}{self._count}"

    def depth(self, operand: object) -> int:
        """Depth of the scope an operand lives in; constants live everywhere."""
        return self.depths.get(operand, 0)

    def emit(self, text: str, *operands: object) -> str:
        """A pure instruction that cannot trap."""
        depth = 0
        depths = self.depths
        for operand in operands:
            found = depths.get(operand, 0)
            if found > depth:
                depth = found
        scope = self.stack[depth]
        name = scope.values.get(text)
        if name is None:
            name = self._place(scope, text, text)
        return name

    def emit_limited(self, text: str, registers: float, *operands: object, memory: bool = False) -> str:
        """A pure instruction that stays inside the branch around it (`memory`) and within the register budget."""
        depth = max([self.depths.get(operand, 0) for operand in operands], default=0)
        last = len(self.stack) - 1
        for level in range(depth, last + 1):
            name = self.stack[level].values.get(text)
            if name is not None:
                return name
        if memory:
            depth = max(depth, self._branch)
        if registers and depth < last:
            depth = self._within_budget(depth, last, registers)
        return self._place(self.stack[depth], text, text)

    def emit_here(self, text: str, version: object) -> str:
        """A read of memory that the kernel writes: numbered by the buffer's version, never moved."""
        key = (text, version)
        found = self.top.values.get(key)
        return found if found is not None else self._place(self.top, text, key)

    def effect(self, text: str) -> None:
        """An instruction without a result."""
        self.top.lines.append(f" {text}")

    def _place(self, scope: Scope, text: str, key: object) -> str:
        name = self.fresh()
        scope.lines.append(f" {name} = {text}")
        scope.values[key] = name
        self.depths[name] = scope.depth
        return name

    def _within_budget(self, depth: int, last: int, registers: float) -> int:
        chosen = last
        while chosen > depth:
            scope = self.stack[chosen]
            if scope.kind is ScopeKind.LOOP and scope.held + registers > self._budget:
                break
            chosen -= 1
        for level in range(chosen + 1, last + 1):
            self.stack[level].held += registers
        return chosen

    def push(self, kind: ScopeKind, block: str) -> Scope:
        scope = Scope(kind, len(self.stack), block)
        self.stack.append(scope)
        if kind is ScopeKind.BRANCH:
            self._branch = scope.depth
        return scope

    def pop(self) -> Scope:
        scope = self.stack.pop()
        self._branch = max((s.depth for s in self.stack if s.kind is ScopeKind.BRANCH), default=0)
        return scope
