"""Terms to values at the current position, each distinct term once per position.

A product that feeds a sum becomes one fused multiply-add (f32 and f64, where the target has it): the only place where
rounding differs from the term as written.  Under a `Select`, loads whose indices may lie outside are masked by it.
"""

from __future__ import annotations

from collections.abc import Callable

from snell.codegen import arithmetic
from snell.codegen.accumulators import Accumulators
from snell.codegen.assembler import Value
from snell.codegen.conversion import cast, widened
from snell.codegen.indexing import Indexing
from snell.codegen.instructions import Instructions
from snell.codegen.memory import Memory
from snell.codegen.philox import philox_word
from snell.codegen.position import Positions
from snell.codegen.predicates import Condition, Predicates
from snell.dtypes import DType, bool_, f32, f64, i32, i64
from snell.errors import CompileError
from snell.graph.primitives import (
    Add,
    Exp2,
    LessThan,
    Log2,
    Mod,
    Mul,
    Op,
    Random,
    Recip,
    ScalarFunction,
    Sin,
    Sqrt,
)
from snell.loops.ir import ReadAccumulator, Tee
from snell.rewrite.term import (
    And,
    Cast,
    Divide,
    Equal,
    FloorDivide,
    Index,
    Load,
    Maximum,
    Not,
    Number,
    Select,
    SelectElse,
    Subtract,
    Term,
    children,
)
from snell.symbolic import Axis, Expr
from snell.targets import Target

__all__ = ["Expressions", "VectorMath"]

# codegen.vector_math.emit_function: name, assembler, argument, target.
VectorMath = Callable[[str, Instructions, Value, Target], Value]
_Binary = Callable[[Instructions, Value, Value], Value]

_BINARY: dict[type[Op], _Binary] = {
    Subtract: arithmetic.subtract,
    Mul: arithmetic.multiply,
    Divide: arithmetic.divide,
    FloorDivide: arithmetic.floor_divide,
    Mod: arithmetic.modulo,
    Maximum: arithmetic.maximum,
    Equal: arithmetic.equal,
}
_FUNCTIONS: dict[type[Op], str] = {Exp2: "exp2", Log2: "log2", Sin: "sin"}


class Expressions:
    """Evaluates terms; one instance a function."""

    def __init__(self, code: Instructions, positions: Positions, vector_math: VectorMath) -> None:
        self.code = code
        self.positions = positions
        self.indexing = Indexing(code, positions, self.value)
        self.predicates = Predicates(code, positions, self.indexing)
        self.memory = Memory(code, positions, self.indexing, self.predicates)
        self.accumulators = Accumulators(code, positions)
        self._vector_math = vector_math
        self._path: Condition = True
        self._local: dict[Term, Value] = {}
        self._axes: dict[Term, tuple[Axis, ...] | None] = {}
        self._handlers: dict[type[Op], Callable[[Term], Value]] = self._table()

    def _table(self) -> dict[type[Op], Callable[[Term], Value]]:
        table: dict[type[Op], Callable[[Term], Value]] = {
            Number: self._number,
            Index: self._index,
            Load: self._load,
            Cast: self._cast,
            Add: self._add,
            LessThan: self._less_than,
            And: self._and,
            Not: self._not,
            Select: self._select,
            SelectElse: self._select_else,
            Sqrt: self._sqrt,
            Recip: self._recip,
            ScalarFunction: self._function,
            Random: self._random,
            ReadAccumulator: self._read,
            Tee: self._tee,
        }
        table.update(dict.fromkeys(_BINARY, self._binary))
        table.update(dict.fromkeys(_FUNCTIONS, self._primitive_function))
        return table

    def statement_value(self, item: Term) -> Value:
        """A term as the value of a statement; memory may have changed since the statement before."""
        self._local = {}
        return self.value(item)

    def value(self, item: Term) -> Value:
        axes = self._axes[item] if item in self._axes else self._stable_axes(item)
        if axes is None:
            found = self._local.get(item)
            if found is None:
                found = self._local[item] = self._compute(item)
            return found
        at = self.positions.at
        key = (item, self._path, *[at[axis].key for axis in axes])
        for scope in reversed(self.code.scopes.stack):
            known = scope.terms.get(key)
            if known is not None:
                return known
        found = self._compute(item)
        self.code.scopes.stack[self.code.scopes.depth(found.text)].terms[key] = found
        return found

    def _compute(self, item: Term) -> Value:
        handler = self._handlers.get(type(item.op))
        if handler is None:
            raise CompileError(f"{type(item.op).__name__} is not an operation of the loop IR; lower it first")
        return handler(item)

    def _stable_axes(self, item: Term) -> tuple[Axis, ...] | None:
        """The axes a term depends on, or None when it also depends on memory or registers that change."""
        inner = [self._stable_axes(child) if child not in self._axes else self._axes[child] for child in children(item)]
        match item.op:
            case ReadAccumulator() | Tee():
                axes = None
            case Load(tensor) if self.memory.is_written(tensor):
                axes = None
            case _ if any(found is None for found in inner):
                axes = None
            case _:
                axes = tuple(sorted(item.free, key=str))
        self._axes[item] = axes
        return axes

    # -- leaves

    def _number(self, item: Term) -> Value:
        assert isinstance(item.op, Number)
        return self.code.constant(item.op.value, item.dtype, 0)

    def _index(self, item: Term) -> Value:
        assert isinstance(item.op, Index)
        return self._integer_value(item.op.expression, i64)

    def _integer_value(self, expression: Expr, dtype: DType) -> Value:
        """An index expression as i64, or as i32 where it is known to fit."""
        form = self.indexing.linear(expression)
        if form.vector is not None:
            value = self.indexing.vector(form)
            return value if dtype == i64 else cast(self.code, value, dtype)
        lane, form.lane = form.lane, 0
        scalar = self.indexing.scalar(form)
        base = Value(str(scalar), dtype) if isinstance(scalar, int) else cast(self.code, Value(scalar, i64), dtype)
        if not lane:
            return base
        lanes = self.positions.lanes
        return self.code.binary("add", self.code.splat(base, lanes), self.code.steps(lanes, lane, dtype))

    def _load(self, item: Term) -> Value:
        assert isinstance(item.op, Load)
        return self.memory.load(item.op.tensor, item.op.indices, item.op.guards, self._path)

    def _read(self, item: Term) -> Value:
        assert isinstance(item.op, ReadAccumulator)
        return self.accumulators.read(item.op.accumulator)

    def _tee(self, item: Term) -> Value:
        assert isinstance(item.op, Tee)
        value = self.value(item.args[0])
        self.memory.store(item.op.tensor, item.op.indices, value)
        return value

    def _random(self, item: Term) -> Value:
        first, second, position = self._arguments(item)
        return philox_word(self.code, (first, second), position)

    # -- operations

    def _arguments(self, item: Term) -> tuple[Value, ...]:
        return self.code.join(*(self.value(argument) for argument in item.args))

    def _binary(self, item: Term) -> Value:
        a, b = self._arguments(item)
        return _BINARY[type(item.op)](self.code, a, b)

    def _add(self, item: Term) -> Value:
        left, right = item.args
        for product, other in ((left, right), (right, left)):
            factors = self.fused_factors(product)
            if factors is not None:
                return self.code.fma(*self.code.join(*factors, self.value(other)))
        return arithmetic.add(self.code, *self._arguments(item))

    def fused_update(self, item: Term) -> tuple[Value, Value] | None:
        """As `fused_factors`, for the value of an update statement."""
        self._local = {}
        return self.fused_factors(item)

    def fused_factors(self, item: Term) -> tuple[Value, Value] | None:
        """The two factors of a product that may be fused with an addition."""
        if item.dtype not in (f32, f64) or not isinstance(item.op, Mul) or not self.code.target.fma_ports:
            return None
        left, right = item.args
        if bool_ in (left.dtype, right.dtype):
            return None
        return self.value(left), self.value(right)

    def _cast(self, item: Term) -> Value:
        (argument,) = item.args
        if isinstance(argument.op, Index) and item.dtype != bool_:
            low, high = argument.op.expression.bounds()
            if low >= -(1 << 31) and high < 1 << 31:
                return cast(self.code, self._integer_value(argument.op.expression, i32), item.dtype)
        return cast(self.code, self.value(argument), item.dtype)

    def _less_than(self, item: Term) -> Value:
        sides = [_as_expression(argument) for argument in item.args]
        if sides[0] is not None and sides[1] is not None:
            return self._condition_value(self.predicates.non_negative(sides[1] - sides[0] - 1))
        return arithmetic.less_than(self.code, *self._arguments(item))

    def _condition_value(self, condition: Condition) -> Value:
        return condition if isinstance(condition, Value) else self.code.constant(int(condition), bool_, 0)

    def _and(self, item: Term) -> Value:
        a, b = self._arguments(item)
        known = {"true": b, "false": a}.get(a.text) or {"true": a, "false": b}.get(b.text)
        return known or self.code.binary("and", a, b)

    def _not(self, item: Term) -> Value:
        value = self.value(item.args[0])
        flipped = {"true": "false", "false": "true"}.get(value.text)
        return Value(flipped, bool_) if flipped else arithmetic.negate_bool(self.code, value)

    def _select(self, item: Term) -> Value:
        condition = self.value(item.args[0])
        chosen = self._under(condition, item.args[1])
        zero = self.code.constant(0, item.dtype, chosen.lanes)
        return self._choose(condition, chosen, zero)

    def _select_else(self, item: Term) -> Value:
        magnitude = _magnitude_of(item)
        if magnitude is not None:
            wide = widened(self.code, self.value(magnitude))
            return cast(self.code, self.code.intrinsic("llvm.fabs", wide), item.dtype)
        condition = self.value(item.args[0])
        if condition.text in ("true", "false"):
            return self.value(item.args[1 if condition.text == "true" else 2])
        chosen = self._under(condition, item.args[1])
        other = self._under(arithmetic.negate_bool(self.code, condition), item.args[2])
        return self._choose(condition, chosen, other)

    def _choose(self, condition: Value, a: Value, b: Value) -> Value:
        if condition.text == "true":
            return a
        if condition.text == "false":
            return b
        if not condition.lanes:
            a, b = self.code.join(a, b)
            return self.code.select(condition, a, b)
        return self.code.select(*self.code.join(condition, a, b))

    def _under(self, condition: Value, item: Term) -> Value:
        """The term's value, used only where the condition holds."""
        if condition.text in ("true", "false") or not _loads(item):
            return self.value(item)
        outer, local = self._path, self._local
        self._path, self._local = self.predicates.both(outer, condition), dict(local)
        try:
            return self.value(item)
        finally:
            self._path, self._local = outer, local

    def _sqrt(self, item: Term) -> Value:
        return arithmetic.square_root(self.code, self.value(item.args[0]))

    def _recip(self, item: Term) -> Value:
        return arithmetic.reciprocal(self.code, self.value(item.args[0]))

    def _primitive_function(self, item: Term) -> Value:
        return self._call(_FUNCTIONS[type(item.op)], item)

    def _function(self, item: Term) -> Value:
        assert isinstance(item.op, ScalarFunction)
        return self.value(item.args[0]) if item.op.name == "barrier" else self._call(item.op.name, item)

    def _call(self, name: str, item: Term) -> Value:
        argument = widened(self.code, self.value(item.args[0]))
        return cast(self.code, self._vector_math(name, self.code, argument, self.code.target), item.dtype)


def _as_expression(item: Term) -> Expr | None:
    match item.op:
        case Index(expression):
            return expression
        case Number(value) if item.dtype == i64 and isinstance(value, int):
            return Expr((), value)
        case _:
            return None


def _magnitude_of(item: Term) -> Term | None:
    """x where the select is |x| of a float, spelled `-x where x < 0, else x`."""
    condition, minus, x = item.args
    if not isinstance(condition.op, LessThan) or not isinstance(minus.op, Mul) or not item.dtype.is_float:
        return None
    is_below = condition.args[0] is x and _is_number(condition.args[1], 0)
    is_minus = any(a is x and _is_number(b, -1) for a, b in (minus.args, minus.args[::-1]))
    return x if is_below and is_minus else None


def _is_number(item: Term, value: int) -> bool:
    return isinstance(item.op, Number) and item.op.value == value


def _loads(item: Term) -> bool:
    return isinstance(item.op, Load) or any(_loads(child) for child in children(item))
