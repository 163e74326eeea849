"""Programs: the compiled functions of a train state, one for each thing it was asked to do.

A first batch is compiled at its own size.  When batches of another size follow, as the last of an epoch is, one more
program is compiled whose batch axis is symbolic: it serves every size, so nothing is compiled after that.
"""

from __future__ import annotations

import inspect
import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from snell import trees
from snell.engine.defaults import compile
from snell.engine.function import CompiledFunction
from snell.errors import CompileError, SymbolicError, UnsupportedError
from snell.locks import Lock
from snell.symbolic import Dim
from snell.train.dtype_policy import DTypePolicy, checked_tree, wide_paths
from snell.train.options import BatchAxis, Options

__all__ = ["CompilationWarning", "Program", "Programs"]

_KEPT = 64


class CompilationWarning(UserWarning):
    """Something was compiled once more than a user may expect, for the reason that is given."""


@dataclass(frozen=True, slots=True)
class _Signature:
    """What tells one batch from another: its structure, and its leaves' shapes and dtypes."""

    structure: trees.Structure
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[Any, ...]

    @staticmethod
    def of(leaves: Sequence[Any], structure: trees.Structure) -> _Signature:
        shapes = tuple(np.shape(leaf) for leaf in leaves)
        return _Signature(structure, shapes, tuple(getattr(leaf, "dtype", type(leaf)) for leaf in leaves))

    def resized(self, other: _Signature) -> frozenset[int] | None:
        """The leaves whose first extent alone differs from the other's, all by the same sizes; None where more differs."""
        if (self.structure, self.dtypes) != (other.structure, other.dtypes):
            return None
        pairs = [(k, a, b) for k, (a, b) in enumerate(zip(self.shapes, other.shapes, strict=True)) if a != b]
        if any(len(a) != len(b) or a[1:] != b[1:] for _, a, b in pairs):
            return None
        sizes = {(a[0], b[0]) for _, a, b in pairs}
        return frozenset(k for k, _, _ in pairs) if len(sizes) == 1 else None


class Program:
    """One function of (variables, batch), compiled for batches of the shapes that come."""

    def __init__(self, name: str, function: Callable[[Any, Any], Any], options: Options, donate: bool) -> None:
        self._name, self._function, self._options, self._donate = name, function, options, donate
        self._known: dict[_Signature, Callable[..., Any]] = {}
        self._symbolic: dict[tuple[trees.Structure, frozenset[int]], Callable[..., Any]] = {}
        self._refused: set[tuple[trees.Structure, frozenset[int]]] = set()
        self._lock = Lock()

    def __call__(self, variables: Any, batch: Any) -> Any:
        """Run, compiling where the batch is of a new kind.

        Python numbers are inputs too.  Warns with CompilationWarning of what is compiled after the first.
        """
        leaves, structure = trees.flatten(batch)
        signature = _Signature.of(leaves, structure)
        call = self._known.get(signature)
        if call is None:
            with self._lock:
                if signature not in self._known:
                    return self._first_call(signature, variables, batch)
                call = self._known[signature]
        return call(variables, *leaves)

    def _first_call(self, signature: _Signature, variables: Any, batch: Any) -> Any:
        policy = self._options.dtype_policy
        leaves = trees.leaves(checked_tree(batch, "batch", policy))
        sized = self._sized_leaves(signature)
        if sized and (signature.structure, sized) not in self._refused:
            try:
                call, result = self._run_symbolic(signature, sized, variables, leaves, batch)
            except (SymbolicError, CompileError, UnsupportedError) as error:
                if self._options.batch_axis is BatchAxis.SYMBOLIC:
                    raise
                self._refused.add((signature.structure, sized))
                self._warn(f"the batch axis cannot be symbolic here ({error}), so each size is compiled by itself")
            else:
                self._known[signature] = call
                return result
        elif self._known:
            self._warn(f"{self._difference(signature)}; this shape was compiled by itself, with the same state")
        call = self._compiled(signature.structure, len(leaves), {}, batch)
        result = call(variables, *trees.leaves(batch))
        self._known[signature] = call
        return result

    def _sized_leaves(self, signature: _Signature) -> frozenset[int]:
        """The leaves whose first axis is to be symbolic."""
        axis = self._options.batch_axis
        if axis is BatchAxis.FIXED or self._options.accumulate > 1 or not signature.shapes:
            return frozenset()
        if axis is BatchAxis.SYMBOLIC:
            ranked = [k for k, shape in enumerate(signature.shapes) if shape]
            size = signature.shapes[ranked[0]][0] if ranked else 0
            return frozenset(k for k in ranked if signature.shapes[k][0] == size)
        found = (signature.resized(known) for known in self._known)
        return next((sized for sized in found if sized), frozenset())

    def _run_symbolic(
        self, signature: _Signature, sized: frozenset[int], variables: Any, leaves: Sequence[Any], batch: Any
    ) -> tuple[Callable[..., Any], Any]:
        key = (signature.structure, sized)
        call = self._symbolic.get(key)
        if call is None:
            own = signature.shapes[min(sized)][0]
            others = [known.shapes[min(sized)][0] for known in self._known if len(known.shapes) > min(sized)]
            dim = Dim("batch", min=1, typical=tuple(sorted({max(1, size) for size in (*others[:1], own)})))
            dims = {f"batch{k}": (dim, *[None] * (len(signature.shapes[k]) - 1)) for k in sized}
            call = self._compiled(signature.structure, len(leaves), dims, batch)
        result = call(variables, *trees.leaves(batch))
        if key not in self._symbolic:
            self._symbolic[key] = call
            if self._known:
                self._warn(
                    f"{self._difference(signature)}; compiled once more with a symbolic batch axis, which serves "
                    "every size from here on"
                )
        return call, result

    def _compiled(self, structure: trees.Structure, count: int, dims: dict[str, Any], batch: Any) -> Callable[..., Any]:
        """The function of (variables, batch0, batch1, …), its arguments' leaves by name, so that each has its dims."""
        function = self._function

        def flat(variables: Any, *leaves: Any) -> Any:
            return function(variables, trees.unflatten(structure, leaves))

        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        names = ["variables", *(f"batch{k}" for k in range(count))]
        flat.__name__ = self._name
        flat.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])  # type: ignore[attr-defined]
        options = self._options
        compiled: CompiledFunction = compile(
            flat,
            dims=dims,
            donate=("variables",) if self._donate else (),
            precision=options.precision,
            search=options.search,
        )
        if options.dtype_policy is DTypePolicy.CONVERT and wide_paths(batch, "batch"):
            return lambda variables, *leaves: compiled(variables, *checked_tree(leaves, "batch", DTypePolicy.CONVERT))
        return compiled

    def _difference(self, signature: _Signature) -> str:
        """In what a batch differs from the last one of a new kind."""
        last = list(self._known)[-1]
        if last.structure != signature.structure:
            return "the batch is another tree than before"
        names = [
            ".".join(("batch", *path)) for path in trees.paths(trees.unflatten(last.structure, range(len(last.shapes))))
        ]
        for name, *kinds in zip(names, last.shapes, signature.shapes, last.dtypes, signature.dtypes, strict=True):
            old_shape, new_shape, old_dtype, new_dtype = kinds
            if (old_shape, old_dtype) != (new_shape, new_dtype):
                return f"{name} was {old_dtype}{old_shape} and is {new_dtype}{new_shape}"
        return "the batch is of a new kind"

    def _warn(self, reason: str) -> None:
        warnings.warn(f"{self._name}: {reason}", CompilationWarning, stacklevel=5)


class Programs:
    """The programs of a state and of all states that follow from it, by what they do."""

    def __init__(self) -> None:
        self._programs: OrderedDict[Hashable, Program] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._programs)

    def get(self, key: Hashable, make: Callable[[], Program]) -> Program:
        """The program under a key, made where it is new; the least recently used ones are forgotten."""
        with self._lock:
            found = self._programs.pop(key, None) or make()
            self._programs[key] = found
            while len(self._programs) > _KEPT:
                self._programs.popitem(last=False)
            return found
