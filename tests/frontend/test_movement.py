"""Movement composes views and agrees with NumPy; it adds no nodes."""

import numpy as np
import pytest
from tests.frontend.judge import Interpreter, random, run, tensor

import snell.frontend as sn
from snell.errors import OutOfRangeError, ShapeError, SymbolicError
from snell.symbolic import Dim

X = random(4, 5, 6)


@pytest.mark.parametrize(
    "index",
    [
        (slice(None, None, -1),), (slice(3, 0, -2), 1), (..., -1), (None, 2, ..., None), (slice(1, 9), slice(-3, None)),
        (slice(2, 2),), 3, (0, 1, 2), (slice(None), [0, -1, 2]), ([0, 1], [1, 2]), ([[0], [1]], slice(None), [0, 5]),
        (slice(None), np.array([[0, 1], [2, 3]])), (slice(None), [1, 2], [0, -1]),
    ],
    ids=str,
)  # fmt: skip
def test_subscripts_agree_with_numpy(index) -> None:
    np.testing.assert_array_equal(tensor(X)[index].numpy(), X[index])


def test_a_known_mask_selects_and_a_traced_one_is_an_error_that_names_the_remedy() -> None:
    mask = X[:, 0, 0] > 0
    np.testing.assert_array_equal(tensor(X)[mask].numpy(), X[mask])
    np.testing.assert_array_equal(tensor(X)[tensor(mask)].numpy(), X[mask])
    with pytest.raises(ShapeError, match=r"where.*nonzero"):
        sn.trace(lambda x: x[x > 0], [X])


def test_an_index_out_of_range_fails_where_it_is_written() -> None:
    with pytest.raises(OutOfRangeError, match="index 4 is out of range for axis 0 of extent 4"):
        tensor(X)[4]
    with pytest.raises(OutOfRangeError):
        tensor(X)[[0, 9]]


def test_symbolic_bounds_must_be_provable() -> None:
    seq = Dim("seq", min=2, max=64)
    x = random(9, 3)
    (last, middle) = run(lambda x: (x[-1], x[1 : seq - 1]), [sn.TensorSpec.of((seq, 3))], [x])
    np.testing.assert_array_equal(last, x[-1])
    np.testing.assert_array_equal(middle, x[1:-1])
    with pytest.raises(SymbolicError, match="seq"):
        sn.trace(lambda x: x[:10], [sn.TensorSpec.of((seq, 3))])


def test_movement_adds_no_nodes() -> None:
    x = tensor(X)
    moved = x.permute(2, 0, 1).reshape(6, 20).flip(1).T[3:, ::2].unsqueeze(0)
    assert moved.operand.node is x.operand.node
    expected = np.flip(X.transpose(2, 0, 1).reshape(6, 20), 1).T[3:, ::2][None]
    np.testing.assert_array_equal(moved.numpy(), expected)


def test_the_rearrangements_agree_with_numpy() -> None:
    x = tensor(X)
    np.testing.assert_array_equal(sn.roll(x, 2, 1).numpy(), np.roll(X, 2, 1))
    np.testing.assert_array_equal(sn.roll(x, (-1, 7), (0, 2)).numpy(), np.roll(X, (-1, 7), (0, 2)))
    np.testing.assert_array_equal(sn.roll(x, 3).numpy(), np.roll(X, 3))
    np.testing.assert_array_equal(sn.repeat(x, 3, 1).numpy(), np.repeat(X, 3, 1))
    np.testing.assert_array_equal(sn.tile(x, 2, 1, 3).numpy(), np.tile(X, (2, 1, 3)))
    np.testing.assert_array_equal(sn.movedim(x, 0, -1).numpy(), np.moveaxis(X, 0, -1))
    np.testing.assert_array_equal(sn.diagonal(x, 1).numpy(), np.diagonal(X, 1, -2, -1))
    np.testing.assert_array_equal(sn.flatten(x, 1).numpy(), X.reshape(4, -1))
    np.testing.assert_array_equal(sn.unflatten(x, -1, (2, -1)).numpy(), X.reshape(4, 5, 2, 3))
    np.testing.assert_array_equal(x.expand(2, -1, -1, -1).numpy(), np.broadcast_to(X, (2, 4, 5, 6)))
    np.testing.assert_array_equal(sn.squeeze(x[:, :1]).numpy(), X[:, 0])


def test_windows_slide() -> None:
    x = random(2, 9)
    expected = np.stack([x[:, k : k + 5 : 2] for k in range(0, 5, 2)], 1)
    np.testing.assert_array_equal(sn.window(tensor(x), 1, 3, step=2, dilation=2).numpy(), expected)


def test_joining_is_exact_for_infinities_and_nan() -> None:
    a, b = np.array([np.inf, np.nan], np.float32), np.array([-np.inf], np.float32)
    np.testing.assert_array_equal(sn.concatenate([a, tensor(b), a]).numpy(), np.concatenate([a, b, a]))
    np.testing.assert_array_equal(sn.concatenate([tensor([True]), tensor([False])]).numpy(), [True, False])
    np.testing.assert_array_equal(sn.stack([tensor(X), X], 1).numpy(), np.stack([X, X], 1))
    parts = sn.split(tensor(X), [1, 4], 1)
    np.testing.assert_array_equal(parts[1].numpy(), X[:, 1:])
    assert [p.shape[2] for p in sn.split(tensor(X), 4, 2)] == [4, 2]
    with pytest.raises(ShapeError, match="add up to 3"):
        sn.split(tensor(X), [1, 2], 1)


@pytest.mark.parametrize(
    ("mode", "numpy_mode"), [("constant", "constant"), ("edge", "edge"), ("reflect", "reflect"), ("wrap", "wrap")]
)
def test_padding_modes_agree_with_numpy(mode: str, numpy_mode: str) -> None:
    np.testing.assert_array_equal(
        sn.pad(tensor(X), [(1, 2), (3, 0)], mode=mode).numpy(), np.pad(X, [(0, 0), (1, 2), (3, 0)], numpy_mode)
    )


def test_padding_with_a_value() -> None:
    np.testing.assert_array_equal(
        sn.pad(tensor(X), [(1, 2)], -np.inf).numpy(), np.pad(X, [(0, 0), (0, 0), (1, 2)], constant_values=-np.inf)
    )


def test_symbolic_shapes_move_and_join() -> None:
    batch, seq = Dim("batch"), 4 * Dim("blocks")
    x, y = random(3, 8), random(3, 2)
    specs = [sn.TensorSpec.of((batch, seq)), sn.TensorSpec.of((batch, 2))]
    (joined, split) = run(
        lambda x, y: (sn.concatenate([x, y], 1), x.reshape(batch, -1, 4).transpose()), specs, [x, y], blocks=2
    )
    np.testing.assert_array_equal(joined, np.concatenate([x, y], 1))
    np.testing.assert_array_equal(split, x.reshape(3, 2, 4).transpose(0, 2, 1))


def test_a_reshape_that_cannot_be_proved_names_the_dim() -> None:
    with pytest.raises(SymbolicError, match="seq"):
        sn.trace(lambda x: x.reshape(-1, 4), [sn.TensorSpec.of((Dim("seq"),))])


def test_creation_agrees_with_numpy() -> None:
    for start, stop, step in ((0, 7, 1), (2, 17, 3), (5, -4, -2), (3, 3, 1)):
        values = sn.arange(start, stop, step)
        values.trace.evaluator = Interpreter()
        np.testing.assert_array_equal(values.numpy(), np.arange(start, stop, step))
    x = tensor(X)
    np.testing.assert_array_equal(sn.tril(x, -1).numpy(), np.tril(X, -1))
    np.testing.assert_array_equal(sn.triu(x, 2).numpy(), np.triu(X, 2))
    np.testing.assert_array_equal((tensor(np.zeros((3, 4), np.float32)) + sn.eye(3, 4, 1)).numpy(), np.eye(3, 4, 1))
    line = tensor([0.0]) + sn.linspace(0.1, 0.7, 7)
    np.testing.assert_allclose(line.numpy(), np.linspace(0.1, 0.7, 7), rtol=1e-6)
    assert line.numpy()[-1] == np.float32(0.7)


def test_transpose_exchanges_two_axes_or_takes_a_permutation() -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    np.testing.assert_array_equal(sn.transpose(sn.array(x)).numpy(), x.swapaxes(1, 2))
    np.testing.assert_array_equal(sn.array(x).transpose(0, 1).numpy(), x.swapaxes(0, 1))
    np.testing.assert_array_equal(sn.array(x).transpose([2, 0, 1]).numpy(), x.transpose(2, 0, 1))
    np.testing.assert_array_equal(sn.array(x).transpose(2, 0, 1).numpy(), x.transpose(2, 0, 1))
