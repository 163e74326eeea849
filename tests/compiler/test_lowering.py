"""The passes from a graph to kernels: what is stored, what shares a kernel, what is packed, what is updated in place."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.compiler.programs import attention, lowered, spec

import snell as sn
from snell.dtypes import bool_, f32
from snell.graph.primitives import Mul, ScalarFunction
from snell.loops.build import build_kernel
from snell.loops.grouping import Group
from snell.loops.ir import Allocate, Blocked, BufferScope, Loop, Prefetch, statements
from snell.loops.stage import Stage
from snell.loops.verify import verify
from snell.rewrite.term import Tensor, load, term
from snell.symbolic import Axis, as_expr
from snell.targets import AVX2


def test_a_matrix_product_with_its_epilogue_is_one_kernel():
    result = lowered(lambda x, w, b: sn.gelu(x @ w + b), spec(64, 96), spec(96, 128), spec(128))
    assert len(result.kernels) == 1


def test_softmax_over_rows_is_one_kernel_with_local_values():
    result = lowered(lambda x: sn.softmax(x, axis=-1), spec(64, 512))
    assert len(result.kernels) == 1
    assert {b.scope for b in result.kernels[0].kernel.locals()} == {BufferScope.LOCAL}


def test_layer_norm_is_one_kernel():
    result = lowered(lambda x, g, b: sn.layer_norm(x, g, b), spec(64, 768), spec(768), spec(768))
    assert len(result.kernels) == 1


@pytest.mark.parametrize("sequence", [128, sn.Dim("s", min=1, max=4096, typical=(128,))])
def test_attention_is_one_kernel_and_stores_no_scores(sequence: int | sn.Dim):
    result = lowered(attention, *[spec(12, sequence, 64)] * 3)
    assert len(result.kernels) == 1
    stored = {tensor.name for tensor in result.kernels[0].tensors}
    assert stored == {"x0", "x1", "x2", "out0"}


def test_a_product_of_one_row_stays_out_of_a_kernel_with_one_ticket():
    """Joined to the norm of its row it would run on one thread, whatever its size."""

    one = sn.Dim("rows", min=1, max=1)

    def normed(x: sn.Tensor, g: sn.Tensor, w: sn.Tensor) -> sn.Tensor:
        return sn.rms_norm(x, g) @ w.astype("f32").transpose(0, 1)

    product = lowered(normed, spec(one, 512), spec(512), spec(240, 512, dtype="bf16")).kernels[-1]
    assert product.kernel.phases[-1].tickets() != as_expr(one)
    assert (
        len(lowered(normed, spec(one, 64), spec(64), spec(16, 64, dtype="bf16")).kernels) == 1
    )  # less than a dispatch


@pytest.mark.parametrize("rows", [1, 4])
def test_large_operands_of_two_products_of_few_rows_are_each_streamed_through_once(rows: int):
    """In one kernel both would be read column by column, and again for every row."""

    def gated(x: sn.Tensor, a: sn.Tensor, b: sn.Tensor) -> sn.Tensor:
        return sn.silu(x @ a) * (x @ b)

    large = spec(rows, 576), spec(576, 1536), spec(576, 1536)
    assert len(lowered(gated, *large).kernels) == 2
    small = spec(1, 64), spec(64, 96), spec(64, 96)
    assert len(lowered(gated, *small).kernels) == 1


@pytest.mark.parametrize("rows", [2, 4])
def test_small_weights_of_two_products_of_few_rows_are_read_once_for_all_rows(rows: int):
    def gated(x: sn.Tensor, gate: sn.Tensor, up: sn.Tensor) -> sn.Tensor:
        return sn.silu(x @ gate.T) * (x @ up.T)

    weight = spec(256, 256, frozen=True)
    assert len(lowered(gated, spec(1, 256), weight, weight).kernels) == 1
    assert len(lowered(gated, spec(rows, 256), weight, weight).kernels) == 2


def test_grouped_heads_share_the_kernel_too():
    def grouped(q: sn.Tensor, k: sn.Tensor, v: sn.Tensor) -> sn.Tensor:
        return sn.scaled_dot_product_attention(q, k, v, is_causal=True)

    result = lowered(grouped, spec(9, 64, 64), spec(3, 64, 64), spec(3, 64, 64))
    assert len(result.kernels) == 1


def test_a_value_with_two_far_readers_is_stored_once():
    def residual(x: sn.Tensor, w: sn.Tensor) -> sn.Tensor:
        r = x + x @ w
        return r + sn.softmax(r, axis=-1)

    names = [t.name for kernel in lowered(residual, spec(64, 64), spec(64, 64)).kernels for t in kernel.writes]
    assert len(names) == len(set(names))


def test_equal_layers_share_kernels():
    def layers(x: sn.Tensor, *weights: sn.Tensor) -> sn.Tensor:
        for w in weights:
            x = sn.relu(x @ w)
        return x

    result = lowered(layers, spec(64, 512), *[spec(512, 512)] * 6)
    assert len(result.kernels) == 6
    assert len({kernel.kernel for kernel in result.kernels}) == 1


def test_a_frozen_operand_is_packed_by_a_kernel_of_its_own():
    result = lowered(lambda x, w: x @ w, spec(256, 256), spec(256, 256, frozen=True))
    (kernel,) = result.kernels
    (prepare,) = kernel.prepares
    assert prepare.tensors[0].name == "x1"
    assert any(isinstance(buffer.layout, Blocked) for buffer in kernel.kernel.buffers)
    assert not any(buffer.scope is BufferScope.WORKSPACE for buffer in kernel.kernel.buffers)


def test_an_operand_of_many_rows_is_packed_in_a_phase_before_the_product():
    (kernel,) = lowered(lambda x, w: x @ w, spec(1024, 256), spec(256, 256)).kernels
    assert len(kernel.kernel.phases) == 2
    assert any(buffer.scope is BufferScope.WORKSPACE for buffer in kernel.kernel.buffers)


def test_an_operand_of_few_rows_is_packed_by_each_ticket_in_every_pass():
    (kernel,) = lowered(lambda x, w: x @ w, spec(128, 1024), spec(1024, 768)).kernels
    (phase,) = kernel.kernel.phases
    (packed,) = kernel.kernel.locals()
    rows, columns = phase.levels
    assert rows.step >= 128
    assert packed.shape == (256, columns.step)
    assert isinstance(packed.layout, Blocked)


def test_a_long_sum_that_its_result_cannot_hold_is_stored_as_it_is_added_up():
    sums, result = lowered(lambda x, w: x @ w, spec(8, 4096, dtype="bf16"), spec(4096, 768, dtype="bf16")).kernels
    assert [t.dtype for t in sums.writes] == [f32]
    assert [t.dtype.name for t in result.writes] == ["bf16"]
    assert len(lowered(lambda x, w: x @ w, spec(8, 64, dtype="bf16"), spec(64, 768, dtype="bf16")).kernels) == 1
    by_row = spec(768, 4096, dtype="bf16"), spec(4096, dtype="bf16")  # a whole row's sum stays in a register
    assert len(lowered(lambda w, x: w @ x, *by_row).kernels) == 1


def test_a_ticket_copies_no_more_than_its_cache_holds():
    (kernel, _) = lowered(lambda x, w: x @ w, spec(128, 4096, dtype="bf16"), spec(4096, 768, dtype="bf16")).kernels
    assert all(math.prod(b.shape) * b.dtype.itemsize <= AVX2.l2_bytes / 2 for b in kernel.kernel.locals())


def test_rows_far_apart_are_copied_for_each_pass_and_the_next_panel_is_asked_for():
    (kernel,) = lowered(lambda a, b: sn.einsum("km,kn->mn", a, b), spec(1024, 2048), spec(1024, 1024)).kernels
    product = statements(kernel.kernel.phases[-1].body)
    assert isinstance(product[0], Loop)  # the pass over the reduction
    assert isinstance(product[1], Allocate)
    (copy,) = product[1].buffers
    assert copy.shape == (512, 128)  # a pass of k, twice as long as one of a result that stays in a cache, a block of m
    assert any(isinstance(statement, Prefetch) for statement in product)


def test_a_large_operand_is_summed_in_its_own_order_and_the_result_put_into_another_after():
    product = lowered(lambda a, b: sn.einsum("xa,xdcb->abcd", a, b), spec(400, 3), spec(400, 6, 50, 29))
    sums, copy = product.kernels
    (made,) = sums.writes
    assert made.shape == (3, 6, 50, 29)
    assert copy.writes == {next(t for t in copy.tensors if t.shape == (3, 29, 50, 6))}
    assert [len(group.stages[0].partials) for group in product.groups] == [1, 0]


def test_a_long_reduction_to_few_results_is_cut_into_pieces_that_threads_share():
    pieces, total = lowered(lambda x: sn.sum(x), spec(4096, 4096)).kernels
    assert [t.shape for t in pieces.writes] == [(64,)]
    assert [t.shape for t in total.writes] == [()]
    assert len(lowered(lambda x: sn.sum(x), spec(64, 64)).kernels) == 1
    assert len(lowered(lambda x: sn.sum(x, axis=1), spec(4096, 64)).kernels) == 1
    by_row = spec(192, 576), spec(576)  # rows make tickets enough
    assert len(lowered(lambda w, x: w @ x, *by_row).kernels) == 1


def test_a_result_that_lies_as_its_operand_or_is_no_smaller_is_not_reordered():
    assert len(lowered(lambda a, b: sn.einsum("xa,xdb->adb", a, b), spec(400, 3), spec(400, 60, 50)).kernels) == 1
    assert len(lowered(lambda a, b: sn.einsum("xa,xdb->abd", a, b), spec(8, 4), spec(8, 600, 500)).kernels) == 1


@pytest.mark.parametrize("spelling", ["mk,kn->mn", "km,kn->mn", "mk,nk->mn", "km,nk->nm"])
def test_products_of_odd_sizes_are_right_in_every_order_of_operands(spelling: str):
    sizes = {"m": 131, "k": 1031, "n": 781}
    rng = np.random.default_rng(0)
    operands = spelling.split("->")[0].split(",")
    a, b = (rng.standard_normal([sizes[axis] for axis in word], dtype=np.float32) for word in operands)
    result = sn.compile(lambda x, y: sn.einsum(spelling, x, y))(a, b)
    wanted, magnitude = (np.einsum(spelling, f(a).astype(np.float64), f(b).astype(np.float64)) for f in (np.array, abs))
    # The forward error of a sum of k products: k unit roundoffs of the sum of magnitudes (Higham, section 3.1).
    assert np.all(abs(result.numpy() - wanted) <= sizes["k"] * np.finfo(np.float32).eps / 2 * magnitude)


def test_a_lookup_reads_the_chosen_rows_only():
    result = lowered(lambda t, i: sn.take(t, i, axis=0, mode="zero"), spec(50_000, 64), spec(8, dtype="i32"))
    volumes = [axis.extent for i in result.program for axis in i.template.axes]
    assert 50_000 not in volumes
    assert "Sum" not in " ".join(str(d) for d in result.definitions())


def test_a_lookup_through_a_captured_array_reads_the_chosen_rows_only():
    places = np.arange(8) * 7 - 3
    for function in (lambda t: sn.take(t, places), lambda t: t[places], lambda t: t[places, places]):
        result = lowered(function, spec(50_000, 64, 2))
        assert 50_000 not in [axis.extent for i in result.program for axis in i.template.axes]
        assert "Sum" not in next(str(d) for d in result.definitions() if "result" in str(d) or "out0" in str(d))


def test_updating_a_donated_cache_writes_the_new_rows_only():
    past = sn.Dim("past", min=0, max=500)

    def step(cache: sn.Tensor, rows: sn.Tensor) -> sn.Tensor:
        return sn.update_rows(cache, rows, past, axis=1)

    result = lowered(step, spec(4, 512, 64, donated=True), spec(4, 3, 64))
    assert [(new.name, old.name) for new, old in result.aliases.items()] == [("out0", "x0")]
    (instance,) = result.program
    assert sorted(str(axis.extent) for axis in instance.template.axes) == ["3", "4", "64"]


def test_a_donated_input_that_someone_else_reads_is_left_alone():
    def step(cache: sn.Tensor, rows: sn.Tensor) -> tuple[sn.Tensor, sn.Tensor]:
        return sn.update_rows(cache, rows, 0, axis=0), sn.sum(cache)

    assert not lowered(step, spec(16, 8, donated=True), spec(2, 8)).aliases


def test_local_buffers_are_allocated_inside_the_row_loop():
    (kernel,) = lowered(attention, *[spec(4, 96, 32)] * 3).kernels
    allocated = [b.name for s in statements(kernel.kernel.phases[0].body) if isinstance(s, Allocate) for b in s.buffers]
    assert len(allocated) == len(set(allocated)) >= 3


def test_a_value_inside_a_group_has_room_for_the_inner_part_of_a_split_axis():
    """`t[4*g + 2*r + a]` with g and r walked outside still has two positions; one would be written past its end."""
    outer, rows, inner, lane = axes = Axis("g", 2), Axis("r", 2), Axis("a", 2), Axis("j", 16)
    x, t, y = (Tensor(name, (8, 16), f32) for name in "xty")
    places = (as_expr(outer) * 4 + as_expr(rows) * 2 + inner, as_expr(lane))
    made = Stage(t, axes, places, (), (), term(ScalarFunction("exp"), (load(x, places),), f32))
    used = Stage(y, axes, places, (), (), term(Mul(), (load(t, places), load(t, places)), f32))
    group = Group((made, used), (outer, rows), frozenset({t}))
    built = build_kernel(group, AVX2, 1, {})
    verify(built.kernel)
    (local,) = built.kernel.locals()
    assert local.shape == (2, 16)


def test_every_pass_is_timed():
    assert list(lowered(lambda x: x + 1, spec(4)).times.seconds) == [
        "cut", "index", "rewrite", "order", "in place", "stages", "group", "build",
            "dispatch",
    ]  # fmt: skip


def test_a_look_up_whose_gradient_is_taken_stays_an_indexed_load() -> None:
    def loss(table: sn.Tensor, ids: sn.Tensor, wanted: sn.Tensor) -> sn.Tensor:
        return ((sn.tanh(sn.embedding(table, ids)) - wanted) ** 2).mean()

    result = lowered(sn.value_and_grad(loss), spec(300, 32), spec(8, 16, dtype="i32"), spec(8, 16, 32))
    stored = [definition.tensor for definition in result.definitions()]
    assert not any(tensor.dtype == bool_ and 300 in tensor.shape for tensor in stored)
