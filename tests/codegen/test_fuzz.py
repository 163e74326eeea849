"""Random schedules at random sizes give what the interpreter and NumPy give, and write nothing outside."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.codegen.fuzz import check, random_case

from snell.codegen.emitter import emit_kernel
from snell.codegen.host import host_target


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 1 << 20))
def test_any_schedule_at_any_size_equals_the_interpreter_and_numpy(seed: int) -> None:
    check(random_case(seed))


# Failures of the hunt, kept: vector levels over an axis of extent 1.
@pytest.mark.parametrize("seed", [1054, 1210, 1262, 1505])
def test_cases_that_once_failed(seed: int) -> None:
    check(random_case(seed))


@pytest.mark.parametrize("seed", range(5))
def test_the_text_depends_on_the_kernel_and_the_target_only(seed: int) -> None:
    first, second = (emit_kernel(random_case(seed).kernel, host_target()) for _ in range(2))
    assert first == second
