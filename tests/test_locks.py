"""Locks hold threads off each other, and a forked child finds them free."""

import os
import sys
import threading

import pytest

from snell.locks import Lock

linux = pytest.mark.skipif(sys.platform != "linux", reason="forks")


def test_one_thread_at_a_time_holds_a_lock_and_may_take_it_again() -> None:
    lock, entered = Lock(), threading.Event()

    def enter() -> None:
        with lock:
            entered.set()

    with lock, lock:
        other = threading.Thread(target=enter)
        other.start()
        assert not entered.wait(0.05)
    assert entered.wait(10)
    other.join()


@linux
@pytest.mark.parametrize("by_itself", [False, True])
def test_a_forked_child_may_take_a_lock_that_was_held(by_itself: bool) -> None:
    lock, held, release = Lock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            release.wait(10)

    holder = threading.Thread(target=hold)
    if by_itself:
        lock.acquire()
    else:
        holder.start()
        held.wait(10)
    child = os.fork()
    if child == 0:
        found: list[bool] = []
        waiter = threading.Thread(target=lambda: found.append(_taken(lock)), daemon=True)
        waiter.start()
        if by_itself:
            lock.release()
        waiter.join(10)
        os._exit(0 if found == [True] else 1)
    release.set()
    if by_itself:
        lock.release()
    else:
        holder.join()
    assert os.waitpid(child, 0)[1] == 0


def _taken(lock: Lock) -> bool:
    with lock:
        return True
