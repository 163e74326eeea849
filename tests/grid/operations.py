"""The table of the grid: every public operation of the frontend, in the forms that are tested."""

from __future__ import annotations

from tests.grid.arrays import ARRAYS
from tests.grid.elementwise import ELEMENTWISE
from tests.grid.networks import NETWORKS
from tests.grid.operation import Operation

__all__ = ["ALIASES", "NOT_OPERATIONS", "OPERATIONS", "operation_names"]

OPERATIONS: tuple[Operation, ...] = (*ELEMENTWISE, *ARRAYS, *NETWORKS)

# Public names that compute nothing, and `scan`, which takes a function (tests/engine/test_scan.py).
NOT_OPERATIONS = frozenset(
    {
        "DTypeLike",
        "Evaluator",
        "Tensor",
        "TensorLike",
        "TensorSpec",
        "Trace",
        "Traced",
        "as_dtype",
        "methods",
        "scan",
        "random",
        "trace",
    }
)

# Second names of the same function.
ALIASES = {"abs": "absolute", "concat": "concatenate", "pow": "power"}


def operation_names() -> frozenset[str]:
    """The public names that the table's rows begin with."""
    return frozenset(row.name.split()[0] for row in OPERATIONS)
