"""snell: a deep-learning library that finds the path of least time for a tensor program."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from snell import frontend, trees
from snell.engine.array import Array
from snell.engine.defaults import compile, default_engine, load
from snell.engine.defaults import graph as Graph  # noqa: N812 - used as a class is
from snell.engine.eager import EagerEvaluator
from snell.frontend import *  # noqa: F403 - every operation is public here under its own name
from snell.frontend import random
from snell.symbolic import Dim

if TYPE_CHECKING:
    from snell import io, llm

__version__ = "0.1.0"
__all__ = [
    *frontend.__all__,
    "Array",
    "Dim",
    "Graph",
    "compile",
    "default_engine",
    "io",
    "llm",
    "load",
    "random",
    "tree",
]

tree = trees
# The one permitted default: tensors made from nothing are evaluated by the reference interpreter.
frontend.Trace.default_evaluator = EagerEvaluator()


def __getattr__(name: str) -> Any:
    # Language models and file formats are loaded when first asked for: importing snell stays fast.
    if name in ("io", "llm"):
        return import_module(f"snell.{name}")
    raise AttributeError(f"module 'snell' has no attribute {name!r}")
