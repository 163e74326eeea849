"""Gathers and scatters are exact, check their indices, and never touch what they do not select."""

import numpy as np
import pytest
import torch
from tests.frontend.judge import Interpreter, assert_same, random, run, tensor

import snell.frontend as sn
from snell.errors import DTypeError, OutOfRangeError, ShapeError, UnsupportedError
from snell.symbolic import Dim

X = random(5, 4, 3)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_take_agrees_with_numpy(axis: int, dtype: str) -> None:
    idx = np.array([[0, 2], [1, 1]], dtype)
    np.testing.assert_array_equal(sn.take(tensor(X), tensor(idx), axis).numpy(), np.take(X, idx, axis))


def test_take_counts_negative_indices_from_the_end_and_checks_the_rest() -> None:
    assert sn.take(tensor([1.0, 2.0, 3.0]), tensor([-1, -3])).numpy().tolist() == [3, 1]
    with pytest.raises(IndexError, match="index 3 is out of range for an axis of extent 3"):
        sn.take(tensor([1.0, 2.0, 3.0]), tensor([0, 3])).numpy()
    with pytest.raises(IndexError, match="-1"):
        sn.embedding(tensor(random(3, 2)), tensor([-1])).numpy()


def test_the_other_modes_wrap_clip_or_read_zero() -> None:
    x, idx = tensor([1.0, 2.0, 3.0]), tensor([-1, 0, 4])
    assert sn.take(x, idx, mode="wrap").numpy().tolist() == [3, 1, 2]
    assert sn.take(x, idx, mode="clip").numpy().tolist() == [1, 1, 3]
    assert sn.take(x, idx, mode="zero").numpy().tolist() == [0, 1, 0]


def test_a_failed_check_concerns_only_what_depends_on_it() -> None:
    x = tensor([1.0, 2.0])
    broken, sound = sn.take(x, tensor([7])), x + 1
    assert (sound + sn.take(x, [1])).numpy().tolist() == [4, 5]
    with pytest.raises(IndexError):
        (broken * 0).numpy()


def test_a_gather_next_to_nan_and_infinity_is_exact() -> None:
    x = np.array([[np.nan], [np.inf], [5.0]], np.float32)
    np.testing.assert_array_equal(sn.embedding(tensor(x), tensor([2, 1, 0])).numpy(), x[[2, 1, 0]])
    assert sn.take(tensor([True, False]), tensor([1, 0])).numpy().tolist() == [False, True]


def test_indices_must_be_integers() -> None:
    with pytest.raises(DTypeError, match="integer indices"):
        sn.take(tensor([1.0]), tensor([0.0]))


def test_take_along_axis_agrees_with_numpy() -> None:
    idx = np.random.default_rng(0).integers(0, 4, (5, 2, 3))
    np.testing.assert_array_equal(sn.take_along_axis(tensor(X), tensor(idx), 1).numpy(), np.take_along_axis(X, idx, 1))


def test_one_hot_is_zero_out_of_range() -> None:
    assert sn.one_hot(tensor([1, 3, -1]), 3).numpy().tolist() == [[0, 1, 0], [0, 0, 0], [0, 0, 0]]


def test_scatter_add_adds_repeats_up() -> None:
    idx, updates = np.array([3, 0, 3]), random(5, 3, 3, seed=1)
    expected = torch.from_numpy(X).index_add(1, torch.from_numpy(idx), torch.from_numpy(updates))
    assert_same(sn.scatter_add(tensor(X), tensor(idx), updates, 1), expected)


def test_scatter_lets_the_last_update_win() -> None:
    idx = np.array([[1, 0], [1, 4]])
    updates = random(2, 2, 4, 3, seed=1)
    expected = X.copy()
    for k in np.ndindex(2, 2):
        expected[idx[k]] = updates[k]
    np.testing.assert_array_equal(sn.scatter(tensor(X), tensor(idx), updates).numpy(), expected)


def test_nonzero_of_a_fixed_size() -> None:
    mask = np.array([[0, 1, 1], [1, 0, 1]], bool)
    for size in (2, 6):
        found = sn.nonzero(tensor(mask), size, fill=-1)
        for ours, numpys in zip(found, np.nonzero(mask), strict=True):
            expected = np.full(size, -1)
            expected[: min(size, 4)] = numpys[:size]
            np.testing.assert_array_equal(ours.numpy(), expected)


def test_rows_are_updated_at_a_symbolic_place() -> None:
    past, new = Dim("past", min=0, max=64), Dim("new", min=1, max=8)
    cache, rows = random(2, 10, 3), random(2, 4, 3, seed=1)
    specs = [sn.TensorSpec.of((2, 10, 3), donated=True), sn.TensorSpec.of((2, new, 3))]
    (result,) = run(lambda c, r: sn.update_rows(c, r, past), specs, [cache, rows], past=5)
    expected = cache.copy()
    expected[:, 5:9] = rows
    np.testing.assert_array_equal(result, expected)


def test_rows_are_updated_at_each_sequences_own_place() -> None:
    cache, rows, starts = random(2, 3, 6, 4), random(2, 3, 2, 4, seed=1), np.array([1, 4])
    result = sn.update_rows(tensor(cache), rows, tensor(starts))
    expected = cache.copy()
    for k, start in enumerate(starts):
        expected[k, :, start : start + 2] = rows[k]
    np.testing.assert_array_equal(result.numpy(), expected)
    with pytest.raises(ShapeError, match="update_rows"):
        sn.update_rows(tensor(cache), random(2, 3, 2, 5), 0)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("length", [1, 2, 3, 7, 16, 33])
def test_sorting_is_stable_and_puts_nan_above_everything(length: int, descending: bool) -> None:
    x = np.random.default_rng(length).integers(-2, 3, (3, length)).astype(np.float32)
    x[0, length // 2], x[1, 0], x[2, -1] = np.nan, np.inf, -np.inf
    values, indices = torch.sort(torch.from_numpy(x), dim=-1, descending=descending, stable=True)
    assert_same(sn.sort(tensor(x), descending=descending), values)
    assert_same(sn.argsort(tensor(x), descending=descending), indices)


def test_sorting_reaches_the_ends_of_the_integers() -> None:
    x = np.array([127, -128, 0, 127, -128], np.int8)
    for descending in (False, True):
        values, indices = torch.sort(torch.from_numpy(x), descending=descending, stable=True)
        assert_same(sn.sort(tensor(x), descending=descending), values)
        assert_same(sn.argsort(tensor(x), descending=descending), indices)


def test_topk_agrees_with_pytorch() -> None:
    x = random(4, 9, 2)
    values, indices = sn.topk(tensor(x), 3, 1)
    expected = torch.from_numpy(x).topk(3, 1)
    assert_same(values, expected.values)
    assert_same(indices, expected.indices)
    assert_same(sn.topk(tensor(x), 2, 1, largest=False)[0], torch.from_numpy(x).topk(2, 1, largest=False).values)


def evaluated(x: sn.Tensor) -> np.ndarray:
    x.trace.evaluator = Interpreter()
    return x.numpy()


def test_random_numbers_depend_on_the_key_alone() -> None:
    first, second = (evaluated(sn.random.normal(sn.random.key(7), (100,))) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert np.abs(first - evaluated(sn.random.normal(sn.random.key(8), (100,)))).max() > 0.1


def test_derived_keys_differ() -> None:
    key = sn.random.key(0)
    keys = [key, *sn.random.split(key, 3), *(sn.random.fold_in(key, k) for k in (0, 1, 2**40))]
    keys += sn.random.split(sn.random.split(key)[0])
    assert len({tuple(evaluated(k).tolist()) for k in keys}) == len(keys)


def test_random_distributions_have_their_moments() -> None:
    key = sn.random.key(3)
    normal = evaluated(sn.random.normal(key, (20000,)))
    assert abs(normal.mean()) < 0.03
    assert abs(normal.std() - 1) < 0.03
    uniform = evaluated(sn.random.uniform(key, (20000,), low=-1.0, high=3.0))
    assert -1 <= uniform.min() < uniform.max() < 3
    assert abs(uniform.mean() - 1) < 0.05
    assert abs(evaluated(sn.random.bernoulli(key, 0.2, (20000,))).mean() - 0.2) < 0.02
    integers = evaluated(sn.random.randint(key, (5000,), -3, 4, "i32"))
    assert sorted(set(integers.tolist())) == list(range(-3, 4))


def test_categorical_follows_the_logits_and_never_draws_minus_infinity() -> None:
    logits = np.log(
        np.array([0.5, 0.0, 0.2, 0.3], np.float32) + 0,
        where=[True, False, True, True],
        out=np.full(4, -np.inf, np.float32),
    )
    drawn = evaluated(sn.random.categorical(sn.random.key(1), logits, shape=(8000,)))
    frequencies = np.bincount(drawn, minlength=4) / 8000
    np.testing.assert_allclose(frequencies, [0.5, 0, 0.2, 0.3], atol=0.03)


def test_a_permutation_holds_every_element_once() -> None:
    order = evaluated(sn.random.permutation(sn.random.key(5), 13))
    assert sorted(order.tolist()) == list(range(13))
    assert order.tolist() != list(range(13))


def test_the_bounds_of_a_distribution_may_be_tensors_under_tracing() -> None:
    (drawn,) = run(
        lambda key, low: sn.random.uniform(key, (100,), low=low, high=low + 1.0),
        [sn.TensorSpec.of((2,), "u32"), sn.TensorSpec.of(())],
        [np.array([1, 2], np.uint32), np.float32(5)],
    )
    assert 5 <= drawn.min() < drawn.max() <= 6


@pytest.mark.parametrize("bad", [[1, 2, 0], [1, -3, 0]])
def test_joint_integer_arrays_check_each_index(bad) -> None:
    x, columns = random(2, 3, 4), np.array([2, -3, 1])
    rows = np.array([1, -1, 0])
    np.testing.assert_array_equal(tensor(x)[tensor(rows), tensor(columns)].numpy(), x[rows, columns])
    np.testing.assert_array_equal(tensor(x)[:, tensor(columns), [0, 1, -1]].numpy(), x[:, columns, [0, 1, -1]])
    out_of_range = max(bad, key=abs)
    with pytest.raises(OutOfRangeError, match=f"index {out_of_range} is out of range for an axis of extent 2"):
        _ = tensor(x)[tensor(np.array(bad)), tensor(columns)].numpy()


def test_known_index_arrays_are_checked_where_they_are_written_and_need_no_check_at_run_time() -> None:
    traced = sn.trace(lambda x: (x[[1, 0], [2, -1]], x[[-1]]), [sn.TensorSpec.of((2, 3))])
    assert not traced.graph.checks
    with pytest.raises(OutOfRangeError, match="out of range"):
        sn.trace(lambda x: x[[0, 1], [0, 3]], [sn.TensorSpec.of((2, 3))])


def test_rows_that_do_not_fit_the_cache_are_refused() -> None:
    cache, rows, past = random(2, 8, 5), random(2, 3, 5, seed=1), Dim("past", min=0, max=20)
    with pytest.raises(ShapeError, match=r"rows 6\.\.9"):
        sn.update_rows(tensor(cache), rows, 6)
    specs = [sn.TensorSpec.of(cache.shape), sn.TensorSpec.of(rows.shape)]

    def update(c, r):
        return sn.update_rows(c, r, past) + sn.update_rows(c * 2, r, past)

    (result,) = run(update, specs, [cache, rows], past=5)
    np.testing.assert_array_equal(result[:, 5:], 2 * rows)
    with pytest.raises(OutOfRangeError, match="would end at 9, beyond the cache's extent 8"):
        run(update, specs, [cache, rows], past=6)
    assert len(sn.trace(update, specs).graph.checks) == 1


def test_rows_at_a_place_that_is_data_are_dropped_outside_of_the_cache_or_checked() -> None:
    cache, rows = random(2, 8, 5), random(2, 3, 5, seed=1)
    dropped = sn.update_rows(tensor(cache), rows, tensor(np.array(6)))
    np.testing.assert_array_equal(dropped.numpy()[:, 6:], rows[:, :2])
    fitting = sn.update_rows(tensor(cache), rows, tensor(np.array([5, 0])), mode="raise")
    np.testing.assert_array_equal(fitting.numpy()[0, 5:], rows[0])
    for start in (6, -1):
        with pytest.raises(OutOfRangeError, match=f"3 rows from {start} on do not fit into the cache's extent 8"):
            sn.update_rows(tensor(cache), rows, tensor(np.array([0, start])), mode="raise").numpy()
    with pytest.raises(UnsupportedError, match="'raise' or 'zero', received 'clip'"):
        sn.update_rows(tensor(cache), rows, tensor(np.array(0)), mode="clip")


def test_gather_agrees_with_pytorch() -> None:
    x = random(4, 5, 3)
    for shape, axis in (((4, 2, 3), 1), ((2, 5, 1), 0), ((4, 1, 7), -1)):
        places = np.random.default_rng(0).integers(0, x.shape[axis], shape)
        expected = torch.from_numpy(x).gather(axis, torch.from_numpy(places))
        assert_same(sn.gather(tensor(x), places, axis), expected)
    with pytest.raises(ShapeError, match="gather"):
        sn.gather(tensor(x), np.zeros((9, 1, 3), np.int64), 1)
