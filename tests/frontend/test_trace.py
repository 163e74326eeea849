"""Tracing turns functions of trees into graphs; tensors made from nothing join the program they meet."""

from collections import namedtuple

import numpy as np
import pytest
from tests.frontend.judge import Interpreter, random, run, tensor

import snell.frontend as sn
from snell.dtypes import f16, f32
from snell.errors import DTypeError, GraphError, ShapeError, SymbolicError
from snell.graph.primitives import Constant, Input
from snell.symbolic import Dim


def test_inputs_are_named_by_the_path_of_their_argument() -> None:
    spec = {"layers": [{"w": sn.TensorSpec.of((2, 3), frozen=True)}], "x": sn.TensorSpec.of((4, 2), donated=True)}
    traced = sn.trace(lambda p: {"y": p["x"] @ p["layers"][0]["w"]}, [spec], ["params"])
    assert traced.inputs == ("params.layers.0.w", "params.x")
    ops = {node.op.name: node.op for node in traced.graph.inputs() if isinstance(node.op, Input)}
    assert ops["params.layers.0.w"].frozen
    assert ops["params.x"].donated
    assert [name for name, _ in traced.graph.outputs] == ["result.y"]


def test_python_numbers_are_weakly_typed_run_time_scalars() -> None:
    traced = sn.trace(lambda x, scale: x * scale, [sn.TensorSpec.of((2,), "f16"), 0.5])
    (_, result), *_ = traced.graph.outputs
    assert result.dtype == f16
    assert len(traced.graph.inputs()) == 2
    (value,) = run(lambda x, s: x * s, [sn.TensorSpec.of((2,)), 0.5], [np.ones(2, np.float32), np.float32(3)])
    assert value.tolist() == [3, 3]


def test_arrays_closed_over_become_frozen_inputs_and_scalars_constants() -> None:
    weight, shift = random(2, 3), np.array(2.0, np.float32)
    traced = sn.trace(lambda x: x @ weight + weight[0] + shift, [sn.TensorSpec.of((1, 2))])
    captured = [
        node.op for node in traced.graph.inputs() if isinstance(node.op, Input) and node.op.name in traced.arrays
    ]
    assert all(op.frozen for op in captured)
    assert any(array is weight for array in traced.arrays.values())
    assert any(isinstance(node.op, Constant) and node.op.value == 2 for node in traced.graph.nodes())


def test_building_twice_is_building_once() -> None:
    traced = sn.trace(lambda x: (sn.softmax(x), sn.softmax(x)), [sn.TensorSpec.of((2, 3))])
    (_, first), (_, second) = traced.graph.outputs
    assert first.node is second.node


def test_equal_functions_make_equal_programs() -> None:
    one, two = (sn.trace(lambda x: sn.gelu(x) + sn.arange(3), [sn.TensorSpec.of((2, 3))]) for _ in range(2))
    assert [node.op for node in one.graph.nodes()] == [node.op for node in two.graph.nodes()]


def test_tensors_of_two_programs_never_mix() -> None:
    kept = []
    sn.trace(lambda x: kept.append(x) or x, [sn.TensorSpec.of((2,))])
    with pytest.raises(GraphError, match="two programs"):
        sn.trace(lambda x: x + kept[0], [sn.TensorSpec.of((2,))])


def test_eager_tensors_join_a_program_with_their_arrays_and_checks() -> None:
    table = tensor(random(3, 2))
    row = sn.take(table, tensor([5]))
    traced = sn.trace(lambda x: x + row, [sn.TensorSpec.of((1, 2))])
    assert len(traced.graph.checks) == 1
    assert len(traced.arrays) >= 1


def test_sizes_are_values() -> None:
    seq = Dim("seq")
    (length, twice) = run(
        lambda x: (x.sum() * 0 + seq, sn.size_of(2 * seq + 1)), [sn.TensorSpec.of((seq,))], [random(7)]
    )
    assert length == 7
    assert twice == 15


@pytest.mark.parametrize("size", [lambda p, q: p - 3, lambda p, q: p - q, lambda p, q: 5 - 2 * p * q])
def test_sizes_of_either_sign_are_values(size) -> None:
    p, q = Dim("p"), Dim("q")
    specs = [sn.TensorSpec.of((p,)), sn.TensorSpec.of((q,))]
    for extents in ((0, 0), (2, 7), (9, 1)):
        arrays = [random(extent) for extent in extents]
        (value,) = run(lambda x, y: (x.sum() * 0 + y.sum() * 0 + size(p, q),), specs, arrays)
        assert value == size(*extents)


def test_a_size_whose_parts_have_no_known_sign_has_no_value() -> None:
    p, q = Dim("p", min=0), Dim("q", min=0)
    with pytest.raises(SymbolicError, match="sign"):
        sn.trace(lambda x, y: x.sum() + y.sum() + (p - q) // 2, [sn.TensorSpec.of((p,)), sn.TensorSpec.of((q,))])


def test_a_traced_tensor_has_no_value_and_says_what_to_do() -> None:
    with pytest.raises(GraphError, match="where"):
        sn.trace(lambda x: x if x[0] > 0 else -x, [sn.TensorSpec.of((2,))])
    with pytest.raises(GraphError, match="return it from the compiled function"):
        sn.trace(lambda x: np.asarray(x), [sn.TensorSpec.of((2,))])


def test_an_eager_tensor_gives_a_program_under_construction_no_values() -> None:
    shift = tensor([1.0, 2.0])
    with pytest.raises(GraphError, match="where"):
        sn.trace(lambda x: x if (x + shift)[0] > 0 else -x, [sn.TensorSpec.of((2,))])


def test_an_argument_that_is_no_array_is_an_error() -> None:
    with pytest.raises(DTypeError, match="static"):
        sn.trace(lambda x: x, ["text"])
    with pytest.raises(GraphError, match="must return tensors"):
        sn.trace(lambda x: "text", [sn.TensorSpec.of((2,))])


def test_results_keep_their_tree() -> None:
    pair = namedtuple("pair", "a b")
    traced = sn.trace(lambda x: pair(x, [x, {"k": 1.5}]), [sn.TensorSpec.of((2,))])
    assert [name for name, _ in traced.graph.outputs] == ["result.a", "result.b.0", "result.b.1.k"]
    assert traced.output_tree.count == 3


def test_a_tensor_is_immutable_and_shows_itself() -> None:
    x = tensor([1.0, 2.0])
    with pytest.raises(AttributeError):
        x.weak = True  # type: ignore[misc]
    assert repr(x).startswith("Tensor(f32(2,))")
    assert "1." in repr(x)
    assert x.shape == (2,)
    assert x.dtype == f32
    assert x.ndim == 1
    assert x.size == 2
    assert [float(v) for v in x] == [1, 2]
    assert bool(x[0] < x[1])


def test_loops_of_eager_additions_replay_only_the_small_side() -> None:
    total = tensor([0.0])
    for k in range(50):
        total = sn.full((1,), float(k)) + total
    assert total.trace.size < 400
    total.trace.evaluator = Interpreter()
    assert total.numpy().tolist() == [sum(range(50))]


def test_negative_sizes_and_missing_axes_are_shape_errors() -> None:
    with pytest.raises(ShapeError, match="negative"):
        sn.zeros((-1,))
    with pytest.raises(ShapeError, match="axis 2 does not exist"):
        sn.sum(tensor([1.0]), 2)
