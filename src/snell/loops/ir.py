"""The loop IR: one kernel as phases of loops over root axes.

Splitting never creates or renames an axis: a loop level is `(axis, step, kind)`, advances `axis` by `step` over the range
the enclosing level left, and the next level of that axis sees a range of `step`.  Index expressions, guards and layouts
are never rewritten by scheduling; a position is looked up while emitting.  Statements act on accumulators (registers),
local buffers (one copy a thread) and parameters.

    Kernel     ::= name, buffers, dims, phases
    Phase      ::= Parallel over tickets, run after the phase before it has finished
    Statement  ::= Loop | Allocate | Init | Update | Store | Prefetch
    terms      ::= rewrite.term, plus ReadAccumulator and Tee (store and go on with the value)
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import assert_never

from snell.dtypes import DType
from snell.graph.primitives import Mul, Op
from snell.rewrite.term import Cast, Tensor, Term, term
from snell.symbolic import Axis, Dim, Expr, Shape, as_expr, product

__all__ = [
    "Accumulator", "Allocate", "Block", "Blocked", "Buffer", "BufferScope", "Combine", "Dense", "Init", "Kernel", "Layout",
    "Level", "Loop", "LoopKind", "Phase", "Prefetch", "ReadAccumulator", "Statement", "Store", "Strided", "Tee", "Update",
    "converted_factors", "statements",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Dense:
    """Row-major over the buffer's shape; strides may be symbolic."""


@dataclass(frozen=True, slots=True)
class Strided:
    """Element `i` lies at bit `8*offset + Σ i_k * strides[k]`: a window of a file's bytes, sub-byte fields included."""

    offset: int
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """One level of a blocked layout: `dimension` advances in steps of `size` elements."""

    dimension: int
    size: int


@dataclass(frozen=True, slots=True)
class Blocked:
    """Blocks outermost first, e.g. `(1, 16) (0, 1) (1, 1)` is [N/16][K][16] for a (K, N) buffer; static blocks, any sizes.

    The extent of a block level is `ceil(size / block)` for the outermost level of its dimension, `previous / block` else.
    A dimension with no level of size 1 is constant inside its smallest block (a scale shared by a group).
    """

    blocks: tuple[Block, ...]


Layout = Dense | Strided | Blocked


class BufferScope(Enum):
    """Who owns a buffer: the caller (inputs, outputs, arena), one thread, or all threads of one kernel call."""

    PARAMETER = "parameter"
    LOCAL = "local"
    WORKSPACE = "workspace"


@dataclass(frozen=True, slots=True)
class Buffer:
    """A tensor's storage inside a kernel.

    `shape` of a local buffer is the shape of the part that is alive at once: indices into it are taken relative to the
    position of the enclosing loops at its `Allocate`, so they are written with root axes like every other index.
    """

    tensor: Tensor
    shape: Shape
    layout: Layout = Dense()
    scope: BufferScope = BufferScope.PARAMETER
    writable: bool = False

    @property
    def name(self) -> str:
        return self.tensor.name

    @property
    def dtype(self) -> DType:
        return self.tensor.dtype

    @property
    def stored_bytes(self) -> Expr:
        """Bytes under the layout, blocks padded."""
        if not isinstance(self.layout, Blocked):
            return product(list(self.shape)) * self.dtype.itemsize
        total = as_expr(self.dtype.itemsize)
        for dimension, size in enumerate(self.shape):
            largest = max((b.size for b in self.layout.blocks if b.dimension == dimension), default=1)
            total = total * ((as_expr(size) + largest - 1) // largest * largest)
        return total


class Combine(Enum):
    """How an accumulator combines: the two reductions."""

    SUM = "sum"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class Accumulator:
    """Registers that hold a reduction for each position of the unrolled and vector levels of `axes` (the data axes).

    `partial` lists reduced axes whose unrolled positions keep partial results of their own (independent chains),
    combined when the accumulator is read; lanes of a vectorised reduced axis always do.
    """

    name: str
    combine: Combine
    dtype: DType
    axes: tuple[Axis, ...]
    partial: tuple[Axis, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadAccumulator(Op):
    """The combined value of an accumulator at the current position."""

    accumulator: Accumulator


@dataclass(frozen=True, slots=True)
class Tee(Op):
    """Store the argument in `tensor[indices]` and go on with its value (rounded to the tensor's dtype by the caller)."""

    tensor: Tensor
    indices: tuple[Expr, ...]


class LoopKind(Enum):
    """How a level runs: a run-time loop, straight-line copies, the lanes of a vector register, or tensor lanes.

    Tensor lanes are `step` positions of a reduced axis that one instruction of the target multiplies and adds up, and
    in a store neighbours in memory that are written together.  They are the innermost level.
    """

    SERIAL = "s"
    UNROLLED = "u"
    VECTOR = "v"
    TENSOR = "t"


@dataclass(frozen=True, slots=True)
class Level:
    """One loop level, also the unit of a schedule: `i:8`, `k:1u`, `j:8v`, `k:2t`."""

    axis: Axis
    step: int
    kind: LoopKind = LoopKind.SERIAL

    def __str__(self) -> str:
        suffix = "" if self.kind is LoopKind.SERIAL else self.kind.value
        return f"{self.axis}:{self.step}{suffix}"


@dataclass(frozen=True, slots=True)
class Loop:
    """A level around a body.  `lower`/`upper` are optional run-time bounds (lower <= axis < upper) that prune whole
    tiles: a tile that lies outside is skipped, one that lies partly outside runs (its positions outside contribute nothing).
    They may be loaded integers, outside of the range as well: a step of 1 from `x` below `x + 1` is the position x, if any.
    """

    level: Level
    body: tuple[Statement, ...]
    lower: Expr | None = None
    upper: Expr | None = None


@dataclass(frozen=True, slots=True)
class Allocate:
    """Local buffers alive in the rest of this body; their origin is the position of the enclosing loops here."""

    buffers: tuple[Buffer, ...]


@dataclass(frozen=True, slots=True)
class Init:
    """Set an accumulator at the current position (identity of its combine, or a value to continue from).

    Axes that are not the accumulator's count from the start of their range in `value`: `k >= 1` asks for a later block.
    """

    accumulator: Accumulator
    value: Term


@dataclass(frozen=True, slots=True)
class Update:
    """Combine a term into an accumulator at the current position."""

    accumulator: Accumulator
    value: Term


@dataclass(frozen=True, slots=True)
class Store:
    """`tensor[indices] = value`; the value already has the tensor's dtype."""

    tensor: Tensor
    indices: tuple[Expr, ...]
    value: Term


@dataclass(frozen=True, slots=True)
class Prefetch:
    """Ask for the cache line of `tensor[indices]`, which a later iteration reads (or writes): a hint without meaning.

    The place may lie outside of the tensor.
    """

    tensor: Tensor
    indices: tuple[Expr, ...]


Statement = Loop | Allocate | Init | Update | Store | Prefetch


@dataclass(frozen=True, slots=True)
class Phase:
    """One function over a range of tickets: the serial `levels`, fused into one counter (first level outermost).

    With no levels there is one ticket.  Phases of a kernel run one after the other with a barrier between.
    """

    levels: tuple[Level, ...]
    body: tuple[Statement, ...]

    def tickets(self) -> Expr:
        """Number of tickets, over the kernel's dims."""
        count = as_expr(1)
        for level in self.levels:
            count = count * ((as_expr(level.axis.extent) + level.step - 1) // level.step)
        return count


@dataclass(frozen=True, slots=True)
class Kernel:
    """Buffers in call order (parameters, then workspaces), the dims passed as sizes, and the phases."""

    name: str
    buffers: tuple[Buffer, ...]
    dims: tuple[Dim, ...]
    phases: tuple[Phase, ...]

    def locals(self) -> tuple[Buffer, ...]:
        """Every local buffer, in order of allocation."""
        found = [
            b for phase in self.phases for s in statements(phase.body) if isinstance(s, Allocate) for b in s.buffers
        ]
        return tuple(dict.fromkeys(found))


def statements(body: tuple[Statement, ...]) -> list[Statement]:
    """Every statement below, outermost first."""
    found: list[Statement] = []
    for statement in body:
        found.append(statement)
        match statement:
            case Loop():
                found += statements(statement.body)
            case Allocate() | Init() | Update() | Store() | Prefetch():
                pass
            case _:
                assert_never(statement)
    return found


def converted_factors(value: Term) -> tuple[Term, Term] | None:
    """The two values that a product multiplies after converting each to its own dtype."""
    if not isinstance(value.op, Mul) or not all(isinstance(factor.op, Cast) for factor in value.args):
        return None
    left, right = (factor.args[0] for factor in value.args)
    return left, right


def read(accumulator: Accumulator) -> Term:
    """The accumulator's value as a term."""
    return term(ReadAccumulator(accumulator), (), accumulator.dtype)


def tee(tensor: Tensor, indices: tuple[Expr, ...], value: Term) -> Term:
    """Store `value` and yield it."""
    return term(Tee(tensor, indices), (value,), value.dtype)
