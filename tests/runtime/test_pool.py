"""The thread pool runs every ticket once, whatever the counts, the callers, forks and affinity masks."""

import ctypes
import dataclasses
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.runtime.kernels import code, python

from snell.codegen.host import host_target
from snell.codegen.llvm import compile_object
from snell.codegen.loading import Library, load
from snell.codegen.pool import POOL_FUNCTIONS, pool_ir
from snell.errors import ConfigError
from snell.runtime.buffers import address
from snell.runtime.pool import Pool

STRIDE = 64
RUN = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, *[ctypes.c_int64] * 3)
_KEEP: list[Library] = []


def new_pool(text: str) -> Pool:
    """A pool of its own, so that tests do not change the process's."""
    library = load(compile_object(text, host_target()), POOL_FUNCTIONS)
    _KEEP.append(library)
    return Pool(library)


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = new_pool(pool_ir(host_target()))
    pool.configure(4)
    yield pool
    pool.stop()


def visit(pool: Pool, tickets: int, chunk: int) -> tuple[Any, Any, Any]:
    """Dispatch: visits and scratch slot by ticket, tickets by scratch slot."""
    phase = load(code("visit").image, ["visit"])
    _KEEP.append(phase)
    visits, where = np.zeros(tickets, np.int64), np.zeros(tickets, np.int64)
    scratch = np.zeros((pool.threads, STRIDE // 8), np.int64)
    pointers = np.array([address(visits), address(where)], np.uint64)
    run = RUN(pool.run_address)
    run(phase["visit"], address(pointers), 0, address(scratch), STRIDE, tickets, chunk)
    return visits, (where - address(scratch)) // STRIDE, scratch[:, 0]


@pytest.mark.parametrize("chunk", [1, 3, 64])
@pytest.mark.parametrize("tickets", [0, 1, 2, 7, 64, 1000, 3_000_000])
def test_every_ticket_runs_once(pool: Pool, tickets: int, chunk: int) -> None:
    visits, _, _ = visit(pool, tickets, chunk)
    assert (visits == 1).all()


def test_many_small_dispatches_in_a_row(pool: Pool) -> None:
    assert all((visit(pool, n % 37, 1)[0] == 1).all() for n in range(400))


def test_each_worker_has_its_own_scratch(pool: Pool) -> None:
    _, slots, counts = visit(pool, 200_000, 16)
    assert set(slots.tolist()) <= set(range(4))
    assert np.array_equal(np.bincount(slots, minlength=4), counts)


def test_one_thread_is_a_direct_call(pool: Pool) -> None:
    pool.configure(1)
    visits, slots, _ = visit(pool, 1000, 1)
    assert (visits == 1).all()
    assert (slots == 0).all()
    assert pool.started() == 0


def test_fewer_than_one_thread_is_an_error(pool: Pool) -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        pool.configure(0)


def test_workers_start_late_stop_and_start_again(pool: Pool) -> None:
    assert pool.started() == 0
    for _ in range(3):
        assert (visit(pool, 100, 1)[0] == 1).all()
        assert pool.started() == 3
        pool.stop()
        assert pool.started() == 0
    pool.configure(2)
    assert (visit(pool, 100, 1)[0] == 1).all()
    assert pool.started() == 1


def test_concurrent_callers_each_get_their_result(pool: Pool) -> None:
    bad: list[int] = []

    def work() -> None:
        for _ in range(60):
            if not (visit(pool, 5000, 8)[0] == 1).all():
                bad.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert bad == []


def test_idle_workers_sleep(pool: Pool) -> None:
    visit(pool, 1000, 1)
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.1


def test_sleeping_workers_wake(pool: Pool) -> None:
    for _ in range(5):
        time.sleep(0.01)
        assert (visit(pool, 10_000, 1)[0] == 1).all()


def test_the_version_with_conditions_works_too() -> None:
    """What macOS and the BSDs get, run here; only the numbers of the signal calls differ."""
    text = pool_ir(dataclasses.replace(host_target(), triple="x86_64-unknown-freebsd"))
    assert "pthread_cond_wait" in text
    pool = new_pool(text)
    pool.configure(3)
    for _ in range(10):
        time.sleep(0.002)
        assert (visit(pool, 3000, 4)[0] == 1).all()
    pool.stop()


@pytest.mark.parametrize(
    "triple", ["aarch64-unknown-linux-gnu", "arm64-apple-darwin", "x86_64-pc-windows-msvc", "riscv64-unknown-linux-gnu"]
)
def test_it_compiles_for_other_systems(triple: str) -> None:
    cpu = "generic-rv64" if triple.startswith("riscv") else ""
    target = dataclasses.replace(host_target(), triple=triple, cpu=cpu, features="")
    assert len(compile_object(pool_ir(target), target)) > 500


PROCESS = """
import os, sys, time
{before}
import numpy as np
from tests.runtime.test_pool import visit
from snell.runtime.pool import process_pool
def threads(field):
    found = {{}}
    for task in os.listdir("/proc/self/task"):
        for line in open(f"/proc/self/task/{{task}}/status"):
            if line.startswith(field + ":"):
                found[int(task)] = line.split()[1]
    return found
known = set(threads("Pid"))
pool = process_pool({threads})
assert (visit(pool, 10_000, 1)[0] == 1).all()
workers = set(threads("Pid")) - known
{after}
"""


def in_process(after: str, before: str = "", threads: int | None = None) -> str:
    done = python(PROCESS.format(before=before, after=after, threads=threads))
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc and sets affinity masks, which only Linux has")


@linux
def test_the_affinity_mask_bounds_the_threads() -> None:
    out = in_process("print(pool.threads, len(workers))", "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})")
    assert out == "1 0"


@linux
def test_workers_run_inside_the_affinity_mask() -> None:
    one = "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})"
    script = "masks = threads('Cpus_allowed_list'); print([masks[w] == masks[os.getpid()] for w in workers])"
    out = in_process(script, one, threads=3)
    assert out == "[True, True]"


@linux
def test_workers_may_run_wherever_the_process_may() -> None:
    script = "masks = threads('Cpus_allowed_list'); print([masks[w] == masks[os.getpid()] for w in workers])"
    assert in_process(script, threads=3) == "[True, True]"


@linux
def test_workers_take_no_signals() -> None:
    out = in_process("print(all(int(threads('SigBlk')[w], 16) & 2 for w in workers), len(workers))", threads=3)
    assert out == "True 2"


@linux
def test_a_forked_child_starts_its_own_workers() -> None:
    out = in_process("""
child = os.fork()
if child == 0:
    fine = pool.started() == 0 and (visit(pool, 10_000, 1)[0] == 1).all() and pool.started() == 2
    os._exit(0 if fine else 1)
status = os.waitpid(child, 0)[1]
print(status, (visit(pool, 10_000, 1)[0] == 1).all())
""", threads=3)  # fmt: skip
    assert out == "0 True"


@linux
def test_the_process_ends_cleanly_with_workers_awake() -> None:
    assert in_process("visit(pool, 1000, 1); print('end')", threads=4) == "end"
