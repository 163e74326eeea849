"""The e-graph pass over definitions: each template is rewritten once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from snell.rewrite.cut import typical_volume
from snell.rewrite.definition import Definition
from snell.rewrite.policy import Policy
from snell.rewrite.rewrite import RewriteReport, rewrite_terms
from snell.rewrite.term import Reduction, Tensor, Term, walk
from snell.symbolic import Axis

__all__ = ["ProgramRewriter", "RewrittenDefinition"]


@dataclass(frozen=True, slots=True)
class RewrittenDefinition:
    """A template before and after rewriting, and what happened between."""

    before: Definition
    after: Definition
    report: RewriteReport


@dataclass(slots=True)
class ProgramRewriter:
    """`rewriter(template) -> template`; `rewritten` holds what became of each."""

    policy: Policy = Policy.DEFAULT
    rewritten: list[RewrittenDefinition] = field(default_factory=list[RewrittenDefinition])

    def __call__(self, template: Definition) -> Definition:
        """The definition over an equal, cheaper term."""
        result = rewrite_terms((template.value,), self.policy, _is_frozen)
        found = result.roots[0]
        after = template if _stores_more(found, template.axes) else replace(template, value=found)
        self.rewritten.append(RewrittenDefinition(template, after, result.report))
        return after


def _stores_more(value: Term, axes: tuple[Axis, ...]) -> bool:
    """Whether a sum inside a sum has more results than the definition: block sums pay only where an instruction takes
    them whole (integer dot products); stored, they would cost more traffic than the factoring saves work."""
    own = typical_volume(axes)
    for outer in walk(value):
        if isinstance(outer.op, Reduction):
            inner = (t for t in walk(outer.args[0]) if isinstance(t.op, Reduction))
            if any(typical_volume(t.free) > own for t in inner):
                return True
    return False


def _is_frozen(tensor: Tensor) -> bool:
    return tensor.frozen
