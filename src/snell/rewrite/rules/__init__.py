"""The rules, by group; each is data with its example and near-miss."""

from snell.rewrite.rules.arithmetic import ARITHMETIC
from snell.rewrite.rules.factoring import FACTORING
from snell.rewrite.rules.idioms import IDIOMS, LOG2_E
from snell.rewrite.rules.integers import INTEGERS
from snell.rewrite.rules.reductions import REDUCTIONS
from snell.rewrite.rules.rule import Rule, Tag
from snell.rewrite.rules.selection import SELECTION

__all__ = ["LOG2_E", "RULES", "Rule", "Tag"]

# Streaming reductions (DESIGN §4, the theorem) join here as a group of their own.
RULES: tuple[Rule, ...] = (*ARITHMETIC, *IDIOMS, *SELECTION, *FACTORING, *REDUCTIONS, *INTEGERS)
