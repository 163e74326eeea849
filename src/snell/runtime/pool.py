"""The process's thread pool: loads the generated code once and hands out its entry point.

This is the one permitted process state: threads belong to the process, whoever uses them.  The code stays loaded until
the process ends, because sleeping workers return into it; at exit they are joined first.  A forked child starts workers
of its own at its first dispatch.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from snell.codegen.host import host_target
from snell.codegen.loading import Library, load
from snell.codegen.pool import MAX_WORKERS, POOL_FUNCTIONS, pool_ir
from snell.config import available_threads
from snell.deferred import deferred
from snell.errors import ConfigError

if TYPE_CHECKING:
    from snell.codegen import llvm
else:
    llvm = deferred("snell.codegen.llvm")

__all__ = ["Pool", "pool_code", "process_pool"]


class Pool:
    """Handle of a loaded pool: `run_address` is `pool_run`; `threads` counts the caller."""

    __slots__ = ("_configure", "_library", "_reset", "_started", "_stop", "_threads", "run_address", "threads")

    def __init__(self, library: Library) -> None:
        self._library = library
        self.run_address = library["pool_run"]
        self.threads = 1
        self._threads = ctypes.c_int64(1)
        configure = ctypes.CFUNCTYPE(None, ctypes.c_int64)
        self._configure = configure(library["pool_configure"])
        self._stop = ctypes.CFUNCTYPE(None)(library["pool_stop"])
        self._reset = ctypes.CFUNCTYPE(None)(library["pool_reset"])
        self._started = ctypes.CFUNCTYPE(ctypes.c_int64)(library["pool_started"])

    def configure(self, threads: int) -> None:
        """Use this many threads, the caller included; workers start at the next dispatch."""
        if threads < 1:
            raise ConfigError(f"expected at least 1 thread, received {threads}")
        workers = min(threads - 1, MAX_WORKERS)
        self._configure(workers)
        self.threads = self._threads.value = workers + 1

    @property
    def threads_address(self) -> int:
        """Where generated code reads `threads`, an i64."""
        return ctypes.addressof(self._threads)

    def stop(self) -> None:
        """Join the workers; the next dispatch starts them again."""
        self._stop()

    def started(self) -> int:
        """Workers that run now."""
        return int(self._started())

    def forget_workers(self) -> None:
        """In a forked child: the parent's threads do not exist here."""
        self._reset()


class _Process:
    """The pool of this process, made on first use."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.pool: Pool | None = None

    def get(self, code: Callable[[], bytes]) -> Pool:
        if self.pool is None:
            with self.lock:
                if self.pool is None:
                    self.pool = _create(code)
        return self.pool

    def after_fork(self) -> None:
        self.lock = threading.Lock()
        if self.pool is not None:
            self.pool.forget_workers()


_PROCESS: Final = _Process()


def pool_code() -> bytes:
    """The pool's machine code for this machine, compiled now."""
    target = host_target()
    return llvm.compile_object(pool_ir(target), target)


def process_pool(threads: int | None = None, code: Callable[[], bytes] = pool_code) -> Pool:
    """The pool, with `available_threads()` unless told otherwise; a given count reconfigures it.

    `code` gives `pool_code`'s bytes when they are first needed: a cache saves each process 60 ms.
    """
    pool = _PROCESS.get(code)
    if threads is not None and threads != pool.threads:
        pool.configure(threads)
    return pool


def _create(code: Callable[[], bytes]) -> Pool:
    pool = Pool(load(code(), POOL_FUNCTIONS))
    threads = available_threads()
    pool.configure(threads)
    atexit.register(pool.stop)
    if sys.platform != "win32":
        os.register_at_fork(after_in_child=_PROCESS.after_fork)
    return pool
