"""The e-graph pass over a program: each distinct definition is rewritten once, equal ones take the same result.

Two definitions are equal when they differ only in which tensors they load and store; thirty equal layers are one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from snell.loops.retarget import retarget_term
from snell.rewrite.cut import typical_size
from snell.rewrite.definition import Definition
from snell.rewrite.rewrite import Policy, RewriteReport, rewrite_terms
from snell.rewrite.term import Load, Reduction, Tensor, Term, walk
from snell.symbolic import Axis

__all__ = ["ProgramRewriter"]


@dataclass(slots=True)
class ProgramRewriter:
    """`rewriter(program) -> program`; `reports` holds one report for each distinct definition, with its name."""

    policy: Policy = Policy.DEFAULT
    reports: list[tuple[str, RewriteReport]] = field(default_factory=list)

    def __call__(self, program: tuple[Definition, ...]) -> tuple[Definition, ...]:
        known: dict[Term, Term] = {}
        return tuple(self._rewritten(definition, known) for definition in program)

    def _rewritten(self, definition: Definition, known: dict[Term, Term]) -> Definition:
        abstract, names = _abstract(definition.value)
        found = known.get(abstract)
        if found is None:
            result = rewrite_terms((abstract,), self.policy, _is_frozen)
            found = result.roots[0]
            if _stores_more(found, definition.axes):
                found = abstract
            known[abstract] = found
            self.reports.append((definition.tensor.name, result.report))
        return replace(definition, value=retarget_term(found, names))


def _stores_more(value: Term, axes: tuple[Axis, ...]) -> bool:
    """Whether a sum inside a sum has more results than the definition: block sums pay only where an instruction takes
    them whole (integer dot products); stored, they would cost more traffic than the factoring saves work."""
    own = _volume(axes)
    for outer in walk(value):
        if isinstance(outer.op, Reduction):
            inner = (t for t in walk(outer.args[0]) if isinstance(t.op, Reduction))
            if any(_volume(t.free) > own for t in inner):
                return True
    return False


def _volume(axes: Iterable[Axis]) -> float:
    return math.prod(typical_size(axis.extent) for axis in axes)


def _is_frozen(tensor: Tensor) -> bool:
    return tensor.frozen


def _abstract(value: Term) -> tuple[Term, dict[Tensor, Tensor]]:
    """The term with its tensors named by first use, and the way back."""
    order: dict[Tensor, Tensor] = {}
    for item in walk(value):
        if isinstance(item.op, Load) and item.op.tensor not in order:
            order[item.op.tensor] = replace(item.op.tensor, name=f"t{len(order)}")
    return retarget_term(value, order), {new: old for old, new in order.items()}


