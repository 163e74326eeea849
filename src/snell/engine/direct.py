"""The short way of a call: arguments that are arrays, of shapes and dtypes that were seen before.

What the first call found out is kept: the executable, what it needs at these sizes, which argument each input takes, and
a fast call (`runtime.fastcall`) in which Python takes no step, made when the second call shows that there are more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from snell import trees
from snell.engine.array import Array
from snell.runtime.cache import Compiler
from snell.runtime.executable import Executable, Layout
from snell.runtime.fastcall import fast_call

__all__ = ["Direct", "declines"]


@dataclass(slots=True)
class Direct:
    """One variant at known sizes: `order` has, for each input, the number of the argument it takes."""

    executable: Executable
    layout: Layout
    order: tuple[int, ...]
    output_tree: trees.Structure
    compiler: Compiler
    fast: Callable[..., Any] | None = None
    """Takes the arguments and gives the tree of results, or NotImplemented; None until it is made."""

    def run(self, arguments: Sequence[np.ndarray[Any, Any]]) -> Any:
        """The tree of results, the ordinary way."""
        outputs = self.executable.run(self.layout, [arguments[number] for number in self.order])
        return trees.unflatten(self.output_tree, [Array(output) for output in outputs])

    def made_fast(self, arguments: Sequence[np.ndarray[Any, Any]]) -> Callable[..., Any]:
        """`fast`, made for arguments like these where it is new."""
        if self.fast is None:
            specs = [(array.shape, array.dtype) for array in arguments]
            call = fast_call(self.executable, self.layout, specs, self.order, Array, self.compiler)
            self.fast = declines if call is None else self._in_tree(call)
        return self.fast

    def _in_tree(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The call with its results as a tree: a single one comes bare, several as a tuple."""
        structure, count = self.output_tree, len(self.layout.outputs)
        if structure == trees.flatten(0 if count == 1 else (0,) * count)[1]:
            return call

        def fast(*arguments: Any) -> Any:
            results = call(*arguments)
            if results is NotImplemented:
                return results
            return trees.unflatten(structure, [results] if count == 1 else results)

        return fast


def declines(*_: Any) -> Any:
    """A fast call that takes no call."""
    return NotImplemented
