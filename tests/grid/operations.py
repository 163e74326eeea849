"""The table of the grid: every public operation of the frontend, in the forms that are tested."""

from __future__ import annotations

from tests.grid.arrays import ARRAYS
from tests.grid.elementwise import ELEMENTWISE
from tests.grid.networks import NETWORKS
from tests.grid.operation import Operation

__all__ = ["ALIASES", "NOT_OPERATIONS", "OPERATIONS", "operation_names"]

OPERATIONS: tuple[Operation, ...] = (*ELEMENTWISE, *ARRAYS, *NETWORKS)

# Public names that compute nothing, and those that take a function (tests/engine/test_scan.py, tests/autodiff).
NOT_OPERATIONS = frozenset(
    {
        "DTypeLike",
        "Evaluator",
        "Tensor",
        "TensorLike",
        "TensorSpec",
        "Trace",
        "Traced",
        "custom_vjp",
        "grad",
        "jvp",
        "remat",
        "stop_gradient",
        "value_and_grad",
        "vjp",
        "vmap",
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
