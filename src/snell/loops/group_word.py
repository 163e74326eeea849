"""A word for a group by what it computes: equal for groups that differ in names alone."""

from __future__ import annotations

import hashlib

from snell.loops.build import canonical_group
from snell.loops.group_text import group_text
from snell.loops.grouping import Group
from snell.loops.stage import Stage

__all__ = ["group_word", "stage_word"]


def group_word(group: Group) -> str:
    """Twelve digits over the canonical group's text."""
    canonical, _ = canonical_group(group)
    return hashlib.sha256(group_text(canonical).encode()).hexdigest()[:12]


def stage_word(stage: Stage) -> str:
    """The word of a stage by itself."""
    return group_word(Group((stage,), ()))
