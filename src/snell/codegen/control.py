"""Branches and counted loops as text: scopes become basic blocks, accumulators phi nodes."""

from __future__ import annotations

from collections.abc import Callable

from snell.codegen.accumulators import Accumulators
from snell.codegen.instructions import Instructions, Scalar
from snell.codegen.scope import ScopeKind

__all__ = ["Body", "ControlFlow", "CounterBody"]

Body = Callable[[], None]
CounterBody = Callable[[Scalar], None]


class ControlFlow:
    """Opens a scope, runs the emission of its body, closes it."""

    def __init__(self, code: Instructions, accumulators: Accumulators) -> None:
        self.code = code
        self.accumulators = accumulators

    def when(self, predicate: str, a: Scalar, b: Scalar, body: Body) -> None:
        """Run the body where `icmp predicate a, b` holds."""
        name = self.code.scopes.emit(f"icmp {predicate} i64 {a}, {b}", a, b)
        self._branch(name, body)

    def when_below(self, start: Scalar, stop: Scalar | None, body: Body) -> None:
        """Run the body where `start < stop` (always without a stop)."""
        if stop is None:
            body()
        elif isinstance(start, int) and isinstance(stop, int):
            if start < stop:
                body()
        else:
            self.when("slt", start, stop, body)

    def guarded_loop(self, start: Scalar, stop: Scalar, step: int, body: CounterBody) -> None:
        """A loop that may run no iteration."""
        self.when_below(start, stop, lambda: self.loop(start, stop, step, body))

    def _branch(self, condition: str, body: Body) -> None:
        scopes = self.code.scopes
        then, after = scopes.fresh("then")[1:], scopes.fresh("after")[1:]
        outer = scopes.top
        scopes.push(ScopeKind.BRANCH, then)
        body()
        scope = scopes.pop()
        joins = self.accumulators.leave_branch(scope, outer.block)
        outer.lines += [f" br i1 {condition}, label %{then}, label %{after}", f"{then}:", *scope.lines]
        outer.lines += [f" br label %{after}", f"{after}:", *joins]
        outer.block = after

    def loop(self, start: Scalar, stop: Scalar, step: int, body: CounterBody) -> None:
        """A loop that runs at least once: counter = start, start + step, … below stop."""
        scopes = self.code.scopes
        head, after = scopes.fresh("loop")[1:], scopes.fresh("done")[1:]
        outer = scopes.top
        scope = scopes.push(ScopeKind.LOOP, head)
        counter, following, again = scopes.fresh("i"), scopes.fresh("n"), scopes.fresh("c")
        scopes.depths[counter] = scope.depth
        body(counter)
        scopes.pop()
        before = outer.block
        phis = self.accumulators.loop_phis(scope, before)
        outer.lines += [f" br label %{head}", f"{head}:"]
        outer.lines.append(f" {counter} = phi i64 [ {start}, %{before} ], [ {following}, %{scope.block} ]")
        outer.lines += [*phis, *scope.lines, f" {following} = add nuw nsw i64 {counter}, {step}"]
        outer.lines.append(f" {again} = icmp slt i64 {following}, {stop}")
        outer.lines += [f" br i1 {again}, label %{head}, label %{after}", f"{after}:"]
        outer.block = after
        self.accumulators.leave_loop(scope)
