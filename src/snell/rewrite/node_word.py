"""A word for a node by its surroundings, equal for the nodes at one place of equal layers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from snell.graph.node import Node
from snell.graph.primitives import Source, Structured

__all__ = ["node_word"]

_DEPTH = 4  # of operands below the node


def node_word(node: Node, readers: Iterable[Node]) -> str:
    """Twelve digits over what makes the node, a few operations deep, and the kinds of its readers."""
    text = f"{_shown(node, _DEPTH)} read by {sorted(type(reader.op).__name__ for reader in readers)}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _shown(node: Node, depth: int) -> str:
    named = isinstance(node.op, Source | Structured)  # names differ between layers
    own = f"{type(node.op).__name__ if named else node.op!r} {node.dtype} {node.shape}"
    if not depth or named:
        return own
    return f"{own} ({'; '.join(f'{operand.view} {_shown(operand.node, depth - 1)}' for operand in node.operands)})"
