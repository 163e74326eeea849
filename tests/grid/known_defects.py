"""Cases of the grid that fail for a reason that is known and not yet fixed; each is asserted to fail still."""

from __future__ import annotations

__all__ = ["KNOWN_DEFECTS"]

# Label of the case → why it fails.
KNOWN_DEFECTS: dict[str, str] = {}
