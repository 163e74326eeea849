"""Names of transforms that stand side by side in a state."""

from __future__ import annotations

from collections.abc import Sequence

from snell.optim.transform import Transform

__all__ = ["distinct_names"]


def distinct_names(transforms: Sequence[Transform]) -> list[str]:
    """Each one's name, with a number behind the second of a name and those after: adamw, adamw_2."""
    seen: dict[str, int] = {}
    names: list[str] = []
    for one in transforms:
        seen[one.name] = seen.get(one.name, 0) + 1
        names.append(one.name if seen[one.name] == 1 else f"{one.name}_{seen[one.name]}")
    return names
