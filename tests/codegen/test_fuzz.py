"""Random schedules at random sizes give what the interpreter and NumPy give, and write nothing outside."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.codegen.fuzz import check, random_case, tensor_case

from snell.codegen.emitter import emit_kernel
from snell.codegen.host import host_target
from snell.errors import CompileError
from snell.targets import AVX512


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 1 << 20))
def test_any_schedule_at_any_size_equals_the_interpreter_and_numpy(seed: int) -> None:
    check(random_case(seed))


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 1 << 20))
def test_tensor_lanes_under_any_schedule_equal_the_interpreter_and_numpy(seed: int) -> None:
    check(tensor_case(seed))


def test_a_target_without_the_instruction_says_what_it_lacks() -> None:
    with pytest.raises(CompileError, match="multiplies no 2 pairs of bf16 and bf16 at once"):
        emit_kernel(tensor_case(0).kernel, AVX512)


# Failures of the hunt, kept: vector levels over an axis of extent 1.
@pytest.mark.parametrize("seed", [1054, 1210, 1262, 1505])
def test_cases_that_once_failed(seed: int) -> None:
    check(random_case(seed))


@pytest.mark.parametrize("seed", range(5))
def test_the_text_depends_on_the_kernel_and_the_target_only(seed: int) -> None:
    first, second = (emit_kernel(random_case(seed).kernel, host_target()) for _ in range(2))
    assert first == second
