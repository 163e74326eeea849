"""Gradients of every operation of the grid equal finite differences in float64, both taken on compiled programs.

Two cases an operation: as it is, and with another layout and symbolic sizes.  Many cases are parts of one program.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.grid.design import Case
from tests.grid.domains import Below, Domain, draw
from tests.grid.operation import Argument
from tests.grid.operations import OPERATIONS, operation_names
from tests.grid.shapes import Layout, ShapeClass, concrete, extents, stored_shape, symbolic, through

import snell.frontend as sn
from snell import trees
from snell.config import Config
from snell.dtypes import f64
from snell.engine.engine import Engine
from snell.frontend import Tensor, TensorSpec, trace
from snell.symbolic import Dim, as_expr

CASES_IN_ONE_PROGRAM = 12
ABOVE_ZERO = frozenset({"sqrt", "log", "log2", "log10", "log1p", "rsqrt"})
STEP = 1e-6
TOLERANCE = 2e-7

# Operations of integers, bits and sizes, and those that make constants.
WITHOUT_FLOATS = {
    "arange", "array", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "left_shift", "nonzero", "one_hot",
    "right_shift", "rope_table", "size_of", "tri", "wrapping",
}  # fmt: skip

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A case with the specs of its arguments, their values, a direction in which to move, and the sizes of its Dims."""

    case: Case
    arguments: tuple[Argument, ...]
    specs: tuple[TensorSpec, ...]
    arrays: tuple[Array, ...]
    directions: tuple[Array, ...]
    sizes: dict[Dim, int]

    def value(self, *stored: Tensor) -> Tensor:
        """The operation's float results, each element with a weight of its own, added up."""
        operands = [
            tensor if argument.dtype else through(self.case.layout, tensor, argument.shape, 1)
            for argument, tensor in zip(self.arguments, stored, strict=True)
        ]
        results = trees.leaves(self.case.operation.apply(*operands))
        parts = [(r * weights_like(r)).sum() for r in results if r.dtype == f64]
        return sum(parts[1:], parts[0]) if parts else sn.zeros((), "f64")

    def value_and_gradients(self, stored: Sequence[Tensor]) -> Any:
        chosen = tuple(k for k, spec in enumerate(self.specs) if spec.dtype == f64)
        return sn.value_and_grad(self.value, chosen)(*stored)


def weights_like(x: Tensor) -> Tensor:
    return sn.reshape(sn.sin(sn.astype(sn.iota(x.size), "f64") * 1.7 + 0.3), x.shape)


def smooth(
    name: str, argument: Argument, shape: tuple[int, ...], sizes: dict[Dim, int], random: np.random.Generator
) -> Array:
    """Values where the operation is defined and that lie on no edge of a function."""
    if isinstance(argument.domain, Below):
        return random.integers(0, max(1, int(as_expr(argument.domain.extent).evaluate(sizes))), shape)
    if argument.dtype is not None and argument.dtype != f64:
        return draw(argument.domain, argument.dtype, shape, random)
    match Domain.POSITIVE if name in ABOVE_ZERO else argument.domain:
        case Domain.POSITIVE:
            return random.uniform(1.1, 3.0, shape)
        case Domain.UNIT:
            return random.uniform(-0.9, 0.9, shape)
        case Domain.NONZERO:
            return random.uniform(0.4, 3.0, shape) * random.choice([-1.0, 1.0], shape)
        case Domain.COUNT:
            return random.integers(0, 4, shape).astype(np.float64)
        case _:
            return random.uniform(-3.0, 3.0, shape)


def prepared(case: Case) -> Prepared:
    base = extents(case.shape, case.operation.rank)
    assert base is not None
    axes = case.operation.symbolic_axes(len(base)) if case.symbolic else frozenset[int]()
    shape, sizes = symbolic(base, axes, f"row{case.row}_")
    random = np.random.default_rng(case.seed)
    arguments = tuple(case.operation.arguments(shape))
    stored = [a.shape if a.dtype else stored_shape(case.layout, a.shape) for a in arguments]
    shapes = [concrete(one, sizes) for one in stored]
    specs = tuple(TensorSpec(s, a.dtype or f64) for s, a in zip(stored, arguments, strict=True))
    arrays = tuple(smooth(case.operation.name, a, s, sizes, random) for a, s in zip(arguments, shapes, strict=True))
    arrays = tuple(x.astype(spec.dtype.numpy) for x, spec in zip(arrays, specs, strict=True))
    return Prepared(case, arguments, specs, arrays, tuple(random.normal(size=s) for s in shapes), sizes)


def cases_of(row: int) -> list[Case]:
    operation = OPERATIONS[row]
    if not any(dtype.is_float for dtype in operation.dtypes):
        return []
    sizes = extents(ShapeClass.SMALL, operation.rank)
    shape = ShapeClass.SMALL if sizes is not None and operation.accepts(sizes) else ShapeClass.VECTOR
    found = extents(shape, operation.rank)
    if found is None or not operation.accepts(found):
        return []
    plain = Case(row, f64, shape, Layout.CONTIGUOUS, False)
    layouts = [Layout.TRANSPOSED, Layout.REVERSED, Layout.BROADCAST, Layout.PADDED]
    moved = Case(row, f64, shape, layouts[row % 4], bool(operation.symbolic_axes(len(found))))
    return [plain, moved] if found else [plain]


CASES = [case for row in range(len(OPERATIONS)) for case in cases_of(row)]
BATCHES = [CASES[k : k + CASES_IN_ONE_PROGRAM] for k in range(0, len(CASES), CASES_IN_ONE_PROGRAM)]


def title(batch: list[Case]) -> str:
    return "+".join(itertools.islice(dict.fromkeys(case.operation.name.replace(" ", "_") for case in batch), 3))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    folder: Path = tmp_path_factory.mktemp("derivatives")
    return Engine(Config(threads=2, cache_dir=folder / "cache", data_dir=folder / "data"))


def test_every_operation_is_differentiated_or_listed_as_one_without_floats() -> None:
    found = {case.operation.name.split()[0] for case in CASES if any(s.dtype == f64 for s in prepared(case).specs)}
    assert operation_names() - found == WITHOUT_FLOATS


@pytest.mark.parametrize("batch", BATCHES, ids=title)
def test_gradients_equal_finite_differences(batch: list[Case], engine: Engine) -> None:
    found = [one for one in (prepared(case) for case in batch) if any(spec.dtype == f64 for spec in one.specs)]
    traced = trace(
        lambda *all_: [o.value_and_gradients(a) for o, a in zip(found, all_, strict=True)], [o.specs for o in found]
    )
    program = engine.prepare(traced.graph)
    executable = program.bind(traced.arrays, engine.pool())
    dims = {dim.name for dim in executable.program.dims}
    sizes = {dim.name: size for one in found for dim, size in one.sizes.items() if dim.name in dims}

    def run(step: float) -> Any:
        moved = [
            x + step * d if x.dtype == np.float64 else x
            for one in found for x, d in zip(one.arrays, one.directions, strict=True)
        ]  # fmt: skip
        named = dict(zip(traced.inputs, moved, strict=True))
        return trees.unflatten(traced.output_tree, executable(*[named[name] for name in program.inputs], sizes=sizes))

    wrong: list[str] = []
    for one, (_, gradients), (high, _), (low, _) in zip(found, run(0.0), run(STEP), run(-STEP), strict=True):
        moved = [d for d, spec in zip(one.directions, one.specs, strict=True) if spec.dtype == f64]
        slope = sum(float((g * d).sum()) for g, d in zip(gradients, moved, strict=True))
        measured = float(high - low) / (2 * STEP)
        scale = 1 + abs(slope) + abs(float(high))
        if not abs(slope - measured) <= TOLERANCE * scale:
            wrong.append(f"{one.case.label}: {slope}, by differences {measured}")
    assert not wrong, "\n".join(wrong)
