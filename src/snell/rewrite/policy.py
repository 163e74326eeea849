"""Policy: which rewrite rules run, and so how far results may differ from the program as written."""

from __future__ import annotations

from enum import Enum

__all__ = ["Policy", "Tag"]


class Tag(Enum):
    """When a rule is sound.

    EXACT: equal, infinities and NaN included where they can matter, and no larger first-order error bound.
    REFINES: equal wherever the original is finite; a NaN may become finite, or a bound may grow by a small factor.
    FAST: equal in exact arithmetic only; runs when the policy says so.
    """

    EXACT = "exact"
    REFINES = "refines"
    FAST = "fast"


class Policy(Enum):
    """Which rules run; each policy includes the ones before it."""

    STRICT = "strict"
    DEFAULT = "default"
    FAST = "fast"

    def allows(self, tag: Tag) -> bool:
        match self:
            case Policy.STRICT:
                return tag is Tag.EXACT
            case Policy.DEFAULT:
                return tag is not Tag.FAST
            case Policy.FAST:
                return True
