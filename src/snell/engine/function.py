"""compile(): a Python function of arrays as an executable for each structure of its arguments."""

from __future__ import annotations

import inspect
import math
import os
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from snell import trees
from snell.config import SearchBudget
from snell.dtypes import from_numpy
from snell.engine.array import Array
from snell.engine.direct import Direct, declines
from snell.engine.engine import Engine, Prepared, pack
from snell.engine.inputs import Inputs, shape_and_dtype
from snell.engine.saved import Header, write_program
from snell.errors import ConfigError, ShapeError, UnsupportedError
from snell.frontend import TensorSpec, Traced, trace
from snell.graph.node import Graph
from snell.rewrite.policy import Policy
from snell.runtime.buffers import is_usable
from snell.runtime.executable import Executable
from snell.symbolic import Dim, as_expr, as_size

if TYPE_CHECKING:
    from snell.engine.report import Report

__all__ = ["CompiledFunction", "DimSpec"]

DimSpec = Sequence[str | Dim | None]
_Shown = tuple[tuple[str, int, int], ...]

_DIRECT_KEPT = 256


@dataclass(frozen=True, slots=True)
class _Variant:
    """One executable: how leaves feed its inputs, and how outputs become a tree."""

    executable: Executable
    prepared: Prepared
    graph: Graph
    inputs: Inputs
    output_tree: trees.Structure
    arguments: tuple[str, ...]
    structure: trees.Structure
    weights: Mapping[str, Any]


class CompiledFunction:
    """The function, compiled on the first call with arguments of a new structure, shape or dtype."""

    def __init__(
        self,
        function: Callable[..., Any],
        engine: Engine,
        *,
        static: Sequence[int | str] = (),
        dims: Mapping[str | int, DimSpec] | None = None,
        donate: Sequence[int | str] = (),
        precision: str = "default",
        search: SearchBudget | None = None,
    ) -> None:
        self._function = function
        self._engine = engine
        self._signature = inspect.signature(function)
        self._names = tuple(self._signature.parameters)
        self._static = self._named(static)
        self._donate = self._named(donate)
        self._dims = {self._name(key): tuple(value) for key, value in (dims or {}).items()}
        self._policy = _policy(precision)
        self._search = _search(search)
        self._variants: dict[Hashable, _Variant] = {}
        self._direct: dict[Hashable, Direct] = {}
        self._fast: Callable[..., Any] = declines
        self._lock = threading.Lock()
        self.__name__ = getattr(function, "__name__", "function")
        self.__doc__ = function.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not kwargs:
            results = self._fast(*args)  # of the shapes and dtypes of the last call, in most programs
            if results is not NotImplemented:
                return results
        arrays: list[np.ndarray[Any, Any]] = []
        seen: list[Hashable] = []
        for value in args:
            array = value.numpy() if type(value) is Array else value
            if type(array) is not np.ndarray or not is_usable(array):
                break
            arrays.append(array)
            seen.append(array.shape)
            seen.append(array.dtype)
        if kwargs or len(arrays) < len(args):
            return _run(*self._variant_of(args, kwargs))
        direct = self._direct.get(tuple(seen))
        if direct is not None:
            return self._again(direct, args, arrays)
        variant, leaves = self._variant_of(args, kwargs)
        results = _run(variant, leaves)
        self._remember(tuple(seen), variant, arrays)
        return results

    def _again(self, direct: Direct, args: tuple[Any, ...], arrays: Sequence[np.ndarray[Any, Any]]) -> Any:
        """A call with arguments like earlier ones, which the next call is expected to have too."""
        fast = direct.made_fast(arrays)
        if fast is not self._fast:
            self._fast = fast
            results = fast(*args)
            if results is not NotImplemented:
                return results
        return direct.run(arrays)

    def _variant_of(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[_Variant, list[Any]]:
        """The executable for these arguments, compiled where it is new, and the leaves of the arguments."""
        arguments = self._arguments(args, kwargs)
        leaves, structure = trees.flatten({k: v for k, v in arguments.items() if k not in self._static})
        key = self._key(arguments, structure, leaves)
        variant = self._variants.get(key)
        if variant is None:
            with self._lock:
                variant = self._variants.get(key)
                if variant is None:
                    variant = self._variants[key] = self._compile(arguments)
        return variant, leaves

    def _remember(self, seen: Hashable, variant: _Variant, arrays: Sequence[np.ndarray[Any, Any]]) -> None:
        """How the next call with arrays of these shapes and dtypes reaches its executable."""
        inputs = variant.inputs
        if self._static or any(inputs.donated) or inputs.sizes:
            return
        # Each argument's number stands for it: flattened as the arguments are, the numbers tell where each leaf is from.
        numbers = trees.leaves(self._arguments(tuple(range(len(arrays))), {}))
        order = tuple(numbers[place] for place in inputs.order)
        layout = variant.executable.layout(*[arrays[number] for number in order])
        if len(self._direct) >= _DIRECT_KEPT:
            self._direct.clear()
        compiler = self._engine.compiler()
        self._direct[seen] = Direct(variant.executable, layout, order, variant.output_tree, compiler)

    def __repr__(self) -> str:
        return f"<CompiledFunction {self.__name__}{self._signature}; {len(self._variants)} compiled>"

    def explain(self) -> Report:
        """What the most recently compiled variant became; ConfigError before the first call."""
        if not self._variants:
            raise ConfigError(
                f"{self.__name__} has not been called yet; call it once with its arguments, then explain it"
            )
        variant = list(self._variants.values())[-1]
        return self._engine.explain(variant.graph, self._policy)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the most recently compiled variant and its weights to one file, to be loaded by `sn.load`."""
        if not self._variants:
            raise ConfigError(f"{self.__name__} has not been called yet; call it once with its arguments, then save it")
        variant = list(self._variants.values())[-1]
        header = Header(
            repr(self._engine.target), variant.arguments, variant.structure, variant.inputs, variant.output_tree,
        )  # fmt: skip
        write_program(path, header, pack(variant.prepared), variant.weights)

    def _named(self, wanted: Sequence[int | str]) -> frozenset[str]:
        return frozenset(self._name(item) for item in wanted)

    def _name(self, item: int | str) -> str:
        if isinstance(item, int) and item < len(self._names):
            return self._names[item]
        if item not in self._names:
            raise ConfigError(
                f"{item!r} is no argument of {self._function!r}; expected one of {', '.join(self._names)}"
            )
        return str(item)

    def _arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        return dict(self._signature.bind(*args, **kwargs).arguments)

    def _key(self, arguments: Mapping[str, Any], structure: trees.Structure, leaves: Sequence[Any]) -> Hashable:
        static = tuple((name, _static_key(name, arguments[name])) for name in sorted(self._static) if name in arguments)
        if not self._dims:
            return structure, static, tuple(self._leaf_key(leaf) for leaf in leaves)
        dynamic = {name: value for name, value in arguments.items() if name not in self._static}
        named = ((self._dims.get(name), trees.flatten(value)[0]) for name, value in dynamic.items())
        return structure, static, tuple(self._leaf_key(leaf, dims) for dims, own in named for leaf in own)

    def _leaf_key(self, leaf: Any, dims: tuple[str | Dim | None, ...] | None = None) -> Hashable:
        """What a variant depends on: the dtype and the extents that are not named as dims."""
        if isinstance(leaf, bool | int | float):
            return type(leaf)
        shape, dtype = shape_and_dtype(leaf)
        if dims is None or len(dims) != len(shape):
            return shape, dtype
        return tuple(size if dim is None else None for size, dim in zip(shape, dims, strict=True)), dtype

    def _compile(self, arguments: Mapping[str, Any]) -> _Variant:
        dynamic = {name: value for name, value in arguments.items() if name not in self._static}
        static = {name: value for name, value in arguments.items() if name in self._static}
        specs = [self._specs(name, value) for name, value in dynamic.items()]

        def call(*values: Any) -> Any:
            return self._call({**dict(zip(dynamic, values, strict=True)), **static})

        traced = trace(call, specs, tuple(dynamic))
        prepared = self._engine.prepare(traced.graph, self._policy, search=self._search)
        executable = prepared.bind(traced.arrays, self._engine.pool())
        shown = _shown(executable.unsolved, dict(zip(dynamic, specs, strict=True)))
        return self._variant(traced, prepared, executable, dynamic, shown)

    def _call(self, arguments: Mapping[str, Any]) -> Any:
        """Call the function; an argument that was not given keeps its default, which is part of the program."""
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        defaults = {name: p.default for name, p in self._signature.parameters.items() if p.default is not p.empty}
        arguments = {**defaults, **arguments}
        for name, parameter in self._signature.parameters.items():
            if name not in arguments:
                continue
            match parameter.kind:
                case inspect.Parameter.VAR_POSITIONAL:
                    args.extend(arguments[name])
                case inspect.Parameter.VAR_KEYWORD:
                    kwargs.update(arguments[name])
                case inspect.Parameter.KEYWORD_ONLY:
                    kwargs[name] = arguments[name]
                case _:
                    args.append(arguments[name])
        return self._function(*args, **kwargs)

    def _specs(self, name: str, value: Any) -> Any:
        """The argument with each array replaced by its spec."""
        leaves, structure = trees.flatten(value)
        return trees.unflatten(structure, [self._spec(name, leaf) for leaf in leaves])

    def _spec(self, name: str, leaf: Any) -> Any:
        if isinstance(leaf, bool | int | float):
            return leaf
        shape, dtype = shape_and_dtype(leaf)
        sizes = tuple(as_size(size) for size in self._sizes(name, shape))
        return TensorSpec(sizes, from_numpy(dtype), donated=name in self._donate)

    def _sizes(self, name: str, shape: tuple[int, ...]) -> list[int | Dim]:
        declared = self._dims.get(name)
        if declared is None:
            return list(shape)
        if len(declared) != len(shape):
            raise ShapeError(
                f"argument {name!r} has {len(shape)} axes, its dims name {len(declared)}; expected one entry an axis"
            )
        return [
            size if dim is None else Dim(dim, min=0, typical=(max(1, size),)) if isinstance(dim, str) else dim
            for size, dim in zip(shape, declared, strict=True)
        ]

    def _variant(
        self, traced: Traced, prepared: Prepared, executable: Executable, dynamic: Mapping[str, Any], shown: _Shown
    ) -> _Variant:
        leaves, _ = trees.flatten(tuple(dynamic.values()))
        by_name = dict(zip(traced.inputs, range(len(leaves)), strict=True))
        # Leaves are looked up in the order of the flattened mapping, which sorts by name.
        position = _positions(dynamic)
        order = tuple(position[by_name[name]] for name in prepared.inputs)
        slots = {slot.name: slot for slot in prepared.assembled.program.buffers}
        dtypes = tuple(slots[name].dtype.numpy for name in prepared.inputs)
        owners = _owners(dynamic)
        donated = tuple(owners[by_name[name]] in self._donate for name in prepared.inputs)
        # Leaves are flattened as a mapping at each call, which orders them by the arguments' names.
        structure = trees.flatten(dict(dynamic))[1]
        return _Variant(
            executable, prepared, traced.graph, Inputs(order, dtypes, donated, shown), traced.output_tree,
            tuple(dynamic), structure, traced.arrays,
        )  # fmt: skip


def _positions(dynamic: Mapping[str, Any]) -> dict[int, int]:
    """Leaf number in argument order → leaf number in the order of the flattened mapping."""
    numbered: dict[str, Any] = {}
    count = 0
    for name, value in dynamic.items():
        leaves, structure = trees.flatten(value)
        numbered[name] = trees.unflatten(structure, list(range(count, count + len(leaves))))
        count += len(leaves)
    return {leaf: place for place, leaf in enumerate(trees.leaves(numbered))}


def _shown(dims: Sequence[Dim], specs: Mapping[str, Any]) -> _Shown:
    """Which leaf of the arguments shows each dim, and on which axis."""
    found: dict[str, tuple[str, int, int]] = {}
    for leaf, spec in enumerate(trees.leaves(specs)):
        for axis, size in enumerate(spec.shape if isinstance(spec, TensorSpec) else ()):
            for dim in dims:
                if size == as_expr(dim):
                    found.setdefault(dim.name, (dim.name, leaf, axis))
    return tuple(found.values())


def _owners(dynamic: Mapping[str, Any]) -> list[str]:
    return [name for name, value in dynamic.items() for _ in trees.leaves(value)]


def _static_key(name: str, value: Any) -> Hashable:
    """A static argument as part of a key: what differs to the function differs here (1 and True, 0.0 and -0.0)."""
    if isinstance(value, tuple):
        return tuple, tuple(_static_key(name, item) for item in value)
    try:
        hash(value)
    except TypeError:
        raise ConfigError(
            f"static argument {name!r} is part of the program, so it must be hashable; received {type(value).__name__}; "
            "pass a tuple or a frozen dataclass, or leave the argument out of static"
        ) from None
    return type(value), repr(value) if isinstance(value, float | complex) else value


def _run(variant: _Variant, leaves: Sequence[Any]) -> Any:
    """The tree of results, from the leaves of the arguments."""
    return _tree(variant.output_tree, variant.inputs.run(variant.executable, leaves))


def _tree(structure: trees.Structure, outputs: list[Array]) -> Any:
    return outputs[0] if structure.kind is None else trees.unflatten(structure, outputs)


def _policy(precision: str) -> Policy:
    try:
        return Policy(precision)
    except ValueError:
        known = ", ".join(policy.value for policy in Policy)
        raise UnsupportedError(f"precision {precision!r} is not known; expected one of {known}") from None


def _search(budget: SearchBudget | None) -> SearchBudget | None:
    known = budget is None or budget in ("off", "full")
    if known or (isinstance(budget, int | float) and not isinstance(budget, bool) and 0 < budget < math.inf):
        return budget
    raise ConfigError(f"search: expected 'off', 'full' or seconds above 0, received {budget!r}")
