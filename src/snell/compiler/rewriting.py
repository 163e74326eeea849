"""The e-graph pass over a program: each distinct definition is rewritten once, equal ones take the same result.

Two definitions are equal when they differ only in which tensors they load and store; thirty equal layers are one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from snell.loops.retarget import retarget_term
from snell.rewrite.definition import Definition
from snell.rewrite.rewrite import Policy, RewriteReport, rewrite_terms
from snell.rewrite.term import Load, Tensor, Term, walk

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
            found = known[abstract] = result.roots[0]
            self.reports.append((definition.tensor.name, result.report))
        return replace(definition, value=retarget_term(found, names))


def _is_frozen(tensor: Tensor) -> bool:
    return tensor.frozen


def _abstract(value: Term) -> tuple[Term, dict[Tensor, Tensor]]:
    """The term with its tensors named by first use, and the way back."""
    order: dict[Tensor, Tensor] = {}
    for item in walk(value):
        if isinstance(item.op, Load) and item.op.tensor not in order:
            order[item.op.tensor] = replace(item.op.tensor, name=f"t{len(order)}")
    return retarget_term(value, order), {new: old for old, new in order.items()}


