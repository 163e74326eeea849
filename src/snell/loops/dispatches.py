"""Which kernels run in one dispatch: independent ones whose tickets the threads share as if they were one kernel's.

    q = x·a ; k = x·b ; v = x·c      →      tickets of q, then of k, then of v: threads meet once, not three times

A dispatch ends when its slowest thread does, and the next begins when all know of it: a few microseconds, and whatever
the last tickets leave idle.  A kernel joins an earlier dispatch where nothing that runs in between makes what it reads,
or touches what it writes; where something does run in between, only if it reads what a kernel there reads, so that what
is in the caches stays in use.  Kernels that together are too little work for a second thread stay by themselves: they
have no dispatch to share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from snell.loops.build import BuiltKernel
from snell.rewrite.cut import typical_size
from snell.rewrite.term import Tensor

__all__ = ["dispatches", "shared_claim"]

_MOST_KERNELS = 8  # in one dispatch: more gain nothing, and all of their memory is alive together


@dataclass(slots=True)
class _Dispatch:
    """Kernels by their places, and the memory that they read and write."""

    places: list[int]
    reads: set[str] = field(default_factory=set[str])
    writes: set[str] = field(default_factory=set[str])
    varying: set[str] = field(default_factory=set[str])
    updates: bool = False  # memory that has another tensor's values before

    def touches(self, other: _Dispatch) -> bool:
        """Whether one of the two writes what the other one touches."""
        return bool(self.writes & (other.reads | other.writes) or other.writes & self.reads)

    def take(self, other: _Dispatch) -> None:
        self.places += other.places
        self.reads |= other.reads
        self.writes |= other.writes
        self.varying |= other.varying


def dispatches(
    kernels: Sequence[BuiltKernel], aliases: Mapping[Tensor, Tensor], shares: Callable[[int], bool] = lambda _: True
) -> tuple[tuple[int, ...], ...]:
    """The kernels' places, those of one dispatch together, in an order that computes the same.

    `aliases`: a tensor whose memory is another one's; `shares` is asked whether the kernel at a place joins the dispatch
    that was found for it.
    """
    found: list[_Dispatch] = []
    for place, kernel in enumerate(kernels):
        single = _dispatch(place, kernel, aliases)
        host = _host(single, found, kernels)
        if host is None or not shares(place):
            found.append(single)
        else:
            host.take(single)
    return tuple(tuple(each.places) for each in found)


def shared_claim(kernels: Sequence[BuiltKernel]) -> int:
    """The least number of tickets worth a claim where the kernels' last phases share a dispatch.

    That of the largest tickets: two of them in one claim would leave a thread with half of its kernel to do alone.
    """
    return min(kernel.claim for kernel in kernels)


def _dispatch(place: int, kernel: BuiltKernel, aliases: Mapping[Tensor, Tensor]) -> _Dispatch:
    reads = {aliases.get(tensor, tensor) for tensor in kernel.tensors}
    writes = {aliases.get(tensor, tensor).name for tensor in kernel.writes}
    varying = {tensor.name for tensor in reads if not tensor.frozen} - writes
    updates = any(tensor in aliases for tensor in kernel.writes)
    return _Dispatch([place], {tensor.name for tensor in reads}, writes, varying, updates)


def _host(single: _Dispatch, found: Sequence[_Dispatch], kernels: Sequence[BuiltKernel]) -> _Dispatch | None:
    """The latest dispatch that the kernel may and should join."""
    for number in range(len(found) - 1, -1, -1):
        host = found[number]
        if host.touches(single):
            return None
        related = number == len(found) - 1 or host.varying & single.varying
        if single.updates and not host.updates:
            continue  # what a caller donated is not overwritten earlier than it has to be: a check may still fail
        if related and len(host.places) < _MOST_KERNELS:
            together = [kernels[place] for place in (*host.places, *single.places)]
            if _is_worth_a_dispatch(together):
                return host
    return None


def _is_worth_a_dispatch(kernels: Sequence[BuiltKernel]) -> bool:
    """Whether two threads would each have a claim's worth of tickets."""
    return sum(_tickets(kernel) / kernel.claim for kernel in kernels) >= 2


def _tickets(kernel: BuiltKernel) -> float:
    return max(1.0, typical_size(kernel.kernel.phases[-1].tickets()))
