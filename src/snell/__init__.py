"""snell: a deep-learning library that finds the path of least time for a tensor program.

Public names are imported when first asked for (PEP 562), so that `import snell` costs milliseconds, and a program that
only opens a model never loads the compiler.
"""

# ruff: noqa: F401 - the names that a checker sees are those that __getattr__ finds

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from snell import config, dtypes, errors, io, llm, nn, targets, trees
    from snell import trees as tree
    from snell.engine.array import Array
    from snell.engine.default_engine import default_engine, load
    from snell.engine.defaults import compile
    from snell.engine.defaults import graph as Graph  # noqa: N812 - used as a class is
    from snell.frontend import *  # noqa: F403 - every operation is public here under its own name
    from snell.frontend import random
    from snell.symbolic import Dim

__version__ = "0.1.0"

# Name → its module and its name there; besides these, every operation of the frontend is public.
_PUBLIC = {
    "Array": ("snell.engine.array", "Array"),
    "Dim": ("snell.symbolic", "Dim"),
    "Graph": ("snell.engine.defaults", "graph"),
    "compile": ("snell.engine.defaults", "compile"),
    "default_engine": ("snell.engine.default_engine", "default_engine"),
    "load": ("snell.engine.default_engine", "load"),
}
_MODULES = {
    "io": "snell.io",
    "llm": "snell.llm",
    "nn": "snell.nn",
    "random": "snell.frontend.ops.random",
    "tree": "snell.trees",
}
# What everyone may use: reached as `sn.errors`, but no part of `from snell import *`.
_SUBMODULES = ("config", "dtypes", "errors", "frontend", "targets", "trees")


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return sorted({*import_module("snell.frontend").__all__, *_PUBLIC, *_MODULES})
    if name in _PUBLIC:
        module, attribute = _PUBLIC[name]
        value = getattr(import_module(module), attribute)
    elif name in _MODULES or name in _SUBMODULES:
        value = import_module(_MODULES.get(name, f"snell.{name}"))
    elif not name.startswith("_") and name in import_module("snell.frontend").__all__:
        value = getattr(import_module("snell.frontend"), name)
    else:
        raise AttributeError(f"module 'snell' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__getattr__("__all__"), *_SUBMODULES, "__version__", "__doc__"})
