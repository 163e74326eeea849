"""Derivatives of compiled functions: nested, in both modes, through loops, by examples, and against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import snell as sn
from snell.errors import DTypeError, GraphError, OutOfRangeError, ShapeError
from snell.graph.node import Graph
from snell.graph.primitives import SumReduce
from snell.graph.scan import Scan, repetitions

RNG = np.random.default_rng(3)
X, W = RNG.normal(size=(3, 4)), RNG.normal(size=(4, 5))


def values(tree: Any) -> Any:
    return sn.tree.map(np.asarray, tree)


def run(function: Callable[..., Any], *arguments: Any) -> Any:
    """The compiled function's results as NumPy arrays."""
    return values(sn.compile(function)(*arguments))


def close(a: Any, b: Any, tolerance: float = 1e-12) -> None:
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)


def torch_gradients(function: Callable[..., torch.Tensor], *arguments: np.ndarray) -> list[np.ndarray]:
    leaves = [torch.tensor(a, requires_grad=True) for a in arguments]
    function(*leaves).backward()
    return [leaf.grad.numpy() for leaf in leaves]  # type: ignore[union-attr]


def layer(x: sn.Tensor, w: sn.Tensor) -> sn.Tensor:
    return (sn.softmax(sn.tanh(x @ w), -1) ** 2).sum()


def test_gradients_have_the_structure_of_the_arguments() -> None:
    params = {"w": W, "b": [np.zeros(5), np.ones(5)]}
    found = run(sn.grad(lambda p, x: (sn.tanh(x @ p["w"] + p["b"][0]) * p["b"][1]).sum()), params, X)
    assert sn.tree.paths(found) == sn.tree.paths(params)
    close(found["b"][1], np.tanh(X @ W).sum(0))


def test_auxiliary_results_are_passed_through_without_a_gradient() -> None:
    (value, aux), found = run(sn.value_and_grad(lambda x: ((x * x).sum(), x + 1), has_aux=True), X)
    close(value, (X * X).sum())
    close(aux, X + 1)
    close(found, 2 * X)


def test_a_maximum_of_running_sums_of_squares_hands_its_cotangent_to_an_element_that_equals_it() -> None:
    # A sum of two squares rounds in two ways where a processor multiplies and adds at once.
    x = np.random.default_rng(11).normal(size=(300, 2))

    def weighed_by_the_greatest(x: sn.Tensor) -> sn.Tensor:
        sums = sn.cumsum(sn.sin(x) ** 2, axis=-1)
        return (sums.max(-1, keepdims=True) * sums * np.cos(np.arange(2.0))).sum()

    weights = np.cos(np.arange(2.0))
    squares = np.sin(x) ** 2
    greatest = squares.sum(-1, keepdims=True)
    of_sums = greatest * weights
    of_sums[:, 1] += (np.cumsum(squares, -1) * weights).sum(-1)
    close(run(sn.grad(weighed_by_the_greatest), x), np.cumsum(of_sums[:, ::-1], -1)[:, ::-1] * np.sin(2 * x), 1e-10)


def test_a_function_that_closes_over_its_own_argument_takes_that_for_constant() -> None:
    close(run(lambda x: sn.grad(lambda y: (y * x).sum())(x), X), X)


def test_the_same_tensor_as_two_arguments_has_two_gradients() -> None:
    first, second = run(lambda x: sn.grad(lambda a, b: (a * a * b).sum(), (0, 1))(x, x), X)
    close(first, 2 * X * X)
    close(second, X * X)


def test_gradients_nest() -> None:
    third = sn.grad(lambda x: sn.grad(lambda y: sn.grad(lambda z: z**4 * sn.sin(z))(y))(x))
    x = 0.7
    expected = 24 * x * np.sin(x) + 36 * x**2 * np.cos(x) - 12 * x**3 * np.sin(x) - x**4 * np.cos(x)
    close(run(third, np.array(x)), expected)


def test_jvp_is_the_transpose_of_vjp() -> None:
    direction, cotangent = RNG.normal(size=X.shape), RNG.normal(size=(3, 5))

    def function(x: sn.Tensor) -> sn.Tensor:
        return sn.log_softmax(sn.gelu(x) @ W)

    _, pushed = run(lambda x, v: sn.jvp(function, (x,), (v,)), X, direction)
    (pulled,) = run(lambda x, c: sn.vjp(function, x)[1](c), X, cotangent)
    close((pushed * cotangent).sum(), (pulled * direction).sum())


def test_a_hessian_vector_product_equals_pytorch() -> None:
    direction = RNG.normal(size=W.shape)
    _, found = run(lambda w, v: sn.jvp(sn.grad(lambda w: layer(X, w)), (w,), (v,)), W, direction)
    x = torch.tensor(X)
    _, expected = torch.autograd.functional.hvp(
        lambda w: (torch.softmax(torch.tanh(x @ w), -1) ** 2).sum(), torch.tensor(W), torch.tensor(direction)
    )
    close(found, expected.numpy())


def recurrent(w: sn.Tensor, xs: sn.Tensor) -> sn.Tensor:
    def step(h: sn.Tensor, x: sn.Tensor) -> tuple[sn.Tensor, sn.Tensor]:
        following = sn.tanh(h @ w + x)
        return following, following * following

    last, ys = sn.scan(step, sn.zeros((4,), "f64"), xs)
    return ys.sum() + last.sum()


def torch_recurrent(w: torch.Tensor, xs: torch.Tensor) -> torch.Tensor:
    h, total = torch.zeros(4, dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    for x in xs:
        h = torch.tanh(h @ w + x)
        total = total + (h * h).sum()
    return total + h.sum()


@pytest.mark.parametrize("length", [1, 2, 9])
def test_the_gradient_of_a_scan_equals_pytorch_at_every_length(length: int) -> None:
    w, xs = RNG.normal(size=(4, 4)), RNG.normal(size=(length, 4))
    program = sn.compile(sn.grad(recurrent, (0, 1)), dims={"xs": ("steps", None)})
    for found, expected in zip(values(program(w, xs)), torch_gradients(torch_recurrent, w, xs), strict=True):
        close(found, expected)


def test_second_derivatives_go_through_a_scan() -> None:
    w, xs, direction = RNG.normal(size=(4, 4)), RNG.normal(size=(5, 4)), RNG.normal(size=(4, 4))
    _, found = run(lambda w, v: sn.jvp(lambda w: sn.grad(recurrent)(w, xs), (w,), (v,)), w, direction)
    steps = torch.tensor(xs)
    _, expected = torch.autograd.functional.hvp(
        lambda w: torch_recurrent(w, steps), torch.tensor(w), torch.tensor(direction)
    )
    close(found, expected.numpy())


def test_the_backward_pass_of_a_scan_holds_one_carry_a_step() -> None:
    graphs = [sn.frontend.trace(sn.grad(recurrent), [np.zeros((4, 4)), np.zeros((n, 4))]).graph for n in (3, 300)]
    assert len(graphs[0].nodes()) == len(graphs[1].nodes())


def scans(function: Callable[..., Any], *arrays: np.ndarray) -> list[Graph]:
    """The bodies of the loops in a traced function."""
    nodes = sn.frontend.trace(function, list(arrays)).graph.nodes()
    return list(dict.fromkeys(node.op.loop.body for node in nodes if isinstance(node.op, Scan)))


def test_a_loop_that_an_auxiliary_result_reads_too_runs_once_forward() -> None:
    def with_aux(w: sn.Tensor, xs: sn.Tensor) -> tuple[sn.Tensor, sn.Tensor]:
        value = recurrent(w, xs)
        return value, 2 * value

    assert len(scans(sn.value_and_grad(with_aux, has_aux=True), np.zeros((4, 4)), np.zeros((3, 4)))) == 2


def test_the_backward_pass_of_a_scan_reads_long_sums_and_adds_up_weights_afterwards() -> None:
    def recurrent(w: sn.Tensor, xs: sn.Tensor) -> sn.Tensor:
        return sn.scan(lambda h, x: (sn.tanh(h @ w + x), None), sn.zeros((2, 16), "f64"), xs)[0].sum()

    w, xs = RNG.normal(size=(16, 16)), RNG.normal(size=(5, 2, 16))
    for body in scans(sn.grad(recurrent), w, xs):
        assert sum(isinstance(node.op, SumReduce) for node in body.nodes()) == 1  # h @ w, and its cotangent's @ wᵀ

    def expected(w: torch.Tensor) -> torch.Tensor:
        h = torch.zeros((2, 16), dtype=torch.float64)
        for x in torch.tensor(xs):
            h = torch.tanh(h @ w + x)
        return h.sum()

    close(run(sn.grad(recurrent), w, xs), torch_gradients(expected, w)[0])


def test_one_gradient_program_serves_every_batch() -> None:
    program = sn.compile(sn.grad(layer, 1), dims={"x": ("batch", None)})
    for rows in (1, 3, 7):
        x = RNG.normal(size=(rows, 4))
        (_, expected) = torch_gradients(lambda x, w: (torch.softmax(torch.tanh(x @ w), -1) ** 2).sum(), x, W)
        close(np.asarray(program(x, W)), expected)


def test_vmap_equals_a_loop_over_examples() -> None:
    found = run(lambda x, w: sn.vmap(sn.grad(layer, 1), (0, None))(x, w), X, W)
    close(found, np.stack([run(sn.grad(layer, 1), row, W) for row in X]))


def test_vmap_maps_any_axis_and_stacks_along_any() -> None:
    found = run(sn.vmap(lambda a, b: (a.sum(), sn.cumsum(a * b, 0)), in_axes=(1, None), out_axes=-1), X, X[:, 0])
    close(found[0], X.sum(0))
    close(found[1], np.cumsum(X * X[:, :1], 0))


def test_vmap_maps_scans_random_bits_and_gathers() -> None:
    def function(x: sn.Tensor, k: sn.Tensor, key: sn.Tensor) -> tuple[sn.Tensor, ...]:
        total, rows = sn.scan(lambda c, r: (c + r, c * r), sn.zeros((), "f64"), x)
        return total, rows, sn.take(x, k), sn.random.normal(key, (2,))

    k, keys = np.array([0, 3, 1]), RNG.integers(0, 1 << 32, (3, 2), np.uint32)
    found = run(sn.vmap(function), X, k, keys)
    for row in range(3):
        for got, wanted in zip(found, run(function, X[row], k[row], keys[row]), strict=True):
            close(got[row], wanted)


def test_a_check_holds_inside_vmap_and_grad() -> None:
    program = sn.compile(sn.vmap(sn.grad(lambda x, k: sn.take(x, k))))
    close(np.asarray(program(X, np.array([0, 1, 2]))), np.eye(3, 4))
    with pytest.raises(OutOfRangeError, match="9"):
        program(X, np.array([0, 9, 2]))


def test_equal_maxima_share_the_gradient() -> None:
    close(run(sn.grad(lambda x: sn.max(x)), np.array([1.0, 3.0, 3.0, 2.0])), [0, 0.5, 0.5, 0])


def test_the_shares_of_many_equal_half_precision_maxima_do_not_vanish() -> None:
    found = run(sn.grad(lambda x: sn.max(x)), np.ones(70_000, np.float16))
    assert found.dtype == np.float16
    close(found.astype(np.float64), np.full(70_000, 1 / 70_000), 3e-8)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: sn.where(x > 0, sn.sqrt(x), 0.0),
        lambda x: sn.where(x > 0, sn.log(x), 0.0),
        lambda x: sn.where(x > 0, 1.0 / x, x * 0),
        lambda x: sn.where(x > 0, sn.sqrt(x) + sn.sqrt(x) * 2, 0.0),
        lambda x: sn.where(x < 100, 0.0, sn.exp(x * 100)),
        lambda x: sn.where(x > 0, x ** x, 0.0),
    ],
)  # fmt: skip
def test_a_branch_that_is_not_taken_contributes_exactly_nothing(function: Callable[..., Any]) -> None:
    bad = np.array([0.0, -1.0, -np.inf, 0.0])
    close(run(sn.grad(lambda x: function(x).sum()), bad), np.zeros(4))


def test_a_row_without_keys_takes_no_part_in_the_gradient_of_attention() -> None:
    q, k, v = (RNG.normal(size=(1, 3, 4)) for _ in range(3))
    mask = np.array([[True, False, True], [False, False, False], [True, True, True]])
    found = run(
        sn.grad(lambda q, k, v: (sn.scaled_dot_product_attention(q, k, v, mask) ** 2).sum(), (0, 1, 2)), q, k, v
    )

    def kept(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        rows = torch.tensor([0, 2])
        result = torch.nn.functional.scaled_dot_product_attention(q[:, rows], k, v, torch.tensor(mask)[rows])
        return (result**2).sum()

    for got, wanted in zip(found, torch_gradients(kept, q, k, v), strict=True):
        close(got, wanted)


def test_stop_gradient_is_a_constant_and_keeps_the_value() -> None:
    value, found = run(sn.value_and_grad(lambda x: (sn.stop_gradient(x) * x).sum()), X)
    close(value, (X * X).sum())
    close(found, X)


def test_a_custom_derivative_replaces_the_real_one_and_is_itself_differentiable() -> None:
    scale = np.float64(2.0)

    def forward(x: sn.Tensor, n: int) -> tuple[sn.Tensor, Any]:
        return sn.floor(x) * n, (x,)

    cubed = sn.custom_vjp(forward, lambda kept, c: (c * kept[0] ** 3 * scale, None))
    close(run(sn.grad(lambda x: cubed(x, 3).sum()), X), 2 * X**3)
    close(run(sn.grad(lambda x: sn.grad(lambda y: cubed(y, 3).sum())(x).sum()), X), 6 * X**2)
    close(run(sn.vmap(sn.grad(lambda x: cubed(x, 3).sum())), X), 2 * X**3)


def test_a_custom_derivative_works_inside_a_scan() -> None:
    doubled = sn.custom_vjp(lambda x: (x, ()), lambda kept, c: (2 * c,))
    found = run(sn.grad(lambda x: sn.scan(lambda c, _: (doubled(c), None), x, length=3)[0].sum()), X)
    close(found, np.full_like(X, 8.0))


def test_remat_changes_no_gradient_and_lowers_the_peak_of_memory() -> None:
    weights = [RNG.normal(size=(2, 64, 64)).astype("f") / 8 for _ in range(6)]
    x = RNG.normal(size=(512, 64)).astype("f")

    def block(w: sn.Tensor, x: sn.Tensor) -> sn.Tensor:
        return x + sn.softmax(3 * sn.gelu(sn.tanh(x @ w[0]) @ w[1]))

    def loss(weights: Any, x: sn.Tensor, wrap: Callable[..., Any]) -> sn.Tensor:
        for w in weights:
            x = wrap(block)(w, x)
        return (x * x).mean()

    programs = [sn.compile(sn.grad(lambda w, x, wrap=wrap: loss(w, x, wrap))) for wrap in (lambda f: f, sn.remat)]
    kept, recomputed = (values(program(weights, x)) for program in programs)
    for a, b in zip(kept, recomputed, strict=True):
        close(a, b, 1e-6)
    peaks = [int(program.explain().arena) for program in programs]
    assert peaks[1] < 0.7 * peaks[0]


def test_remat_gives_gradients_to_what_it_closes_over() -> None:
    close(
        run(sn.grad(lambda w, x: sn.remat(lambda y: layer(y, w))(x)), W, X),
        run(sn.grad(lambda w, x: layer(x, w)), W, X),
    )


def test_eager_arrays_have_gradients_without_compiling() -> None:
    close(sn.grad(lambda x: (x * x).sum())(X).numpy(), 2 * X)


def test_a_network_and_its_loss_equal_pytorch() -> None:
    y = np.array([1, 0, 4])
    norm, bias = RNG.normal(size=4), RNG.normal(size=4)

    def loss(x: sn.Tensor, norm: sn.Tensor, bias: sn.Tensor, w: sn.Tensor) -> sn.Tensor:
        logits = sn.relu(sn.layer_norm(x, norm, bias)) @ w
        return -sn.take_along_axis(sn.log_softmax(logits), y[:, None]).mean()

    def judge(x: torch.Tensor, norm: torch.Tensor, bias: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        logits = torch.relu(torch.nn.functional.layer_norm(x, (4,), norm, bias)) @ w
        return torch.nn.functional.cross_entropy(logits, torch.tensor(y))

    found = run(sn.grad(loss, (0, 1, 2, 3)), X, norm, bias, W)
    for got, wanted in zip(found, torch_gradients(judge, X, norm, bias, W), strict=True):
        close(got, wanted, 1e-10)


def test_smooth_functions_made_of_two_branches_have_their_derivative_where_these_meet() -> None:
    zero = np.zeros(1)
    close(run(sn.grad(lambda x: sn.softplus(x).sum()), zero), 0.5)
    close(run(sn.grad(lambda x: sn.log_sigmoid(x).sum()), zero), 0.5)
    close(run(sn.grad(lambda x: sn.mish(x).sum()), zero), 0.6)


def test_what_cannot_be_differentiated_is_a_typed_error() -> None:
    with pytest.raises(ShapeError, match="use vjp"):
        sn.grad(lambda x: x * 2)(X)
    with pytest.raises(DTypeError, match="only floats have gradients"):
        sn.grad(lambda n: sn.sum(n) * 1.5)(np.arange(3))
    with pytest.raises(GraphError, match="argnums"):
        sn.grad(lambda x: x.sum(), 1)(X)
    with pytest.raises(ShapeError, match="examples"):
        sn.vmap(lambda a, b: a + b)(X, W)
    with pytest.raises(GraphError, match="in a tree like theirs"):
        sn.vjp(lambda x: (x, x), X)[1](X)


def test_an_argument_or_result_without_its_tuple_is_told_so() -> None:
    with pytest.raises(GraphError, match=r"primals as a tuple .* write \(x,\)"):
        sn.jvp(lambda x: x * 2, X, (X,))
    with pytest.raises(GraphError, match="tangents as a tuple"):
        sn.jvp(lambda x: x * 2, (X,), X)
    with pytest.raises(GraphError, match="has_aux=True"):
        sn.grad(lambda x: (x.sum(), x))(X)
    unpacked = sn.custom_vjp(lambda x: (x * 2, None), lambda _, cotangent: cotangent * 2)
    with pytest.raises(GraphError, match=r"a tuple of 1 cotangents.*received Tensor"):
        sn.grad(lambda x: unpacked(x).sum())(X)


def loops_in(function: Callable[..., Any], *arguments: Any) -> int:
    return len(repetitions(sn.frontend.trace(function, list(arguments)).graph.nodes()))


def test_a_loop_with_a_softmax_runs_once_forward_and_once_backward() -> None:
    def loss(x: sn.Tensor) -> sn.Tensor:
        last, rows = sn.scan(lambda c, r: (sn.softmax(c * r), sn.logsumexp(c)), sn.ones(4, "f64"), x)
        return (last * last).sum() + (rows * rows).sum()

    assert loops_in(loss, X) == 1
    assert loops_in(sn.value_and_grad(loss), X) == 2
    assert loops_in(sn.vmap(loss), X[None]) == 1
    assert loops_in(sn.vmap(sn.value_and_grad(loss)), X[None]) == 2


def test_ctc_walks_its_frames_once_forward_and_once_backward() -> None:
    target = np.array([[1, 2], [3, 3]])
    assert loops_in(sn.value_and_grad(lambda x: sn.losses.ctc(x, target)), RNG.normal(size=(6, 2, 4))) == 2
